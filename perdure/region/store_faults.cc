// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/store_faults.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "perdure/base/earlier_handler.h"

namespace perdure {

struct StoreFaultHandler {
  // What the handler, which may take no lock, looks through.
  static inline std::array<std::atomic<StoreFaults*>, 64> ranges;
  // Handlers at work: a range goes only when there is none.
  static inline std::atomic<int> handling{0};
  static inline struct sigaction earlier_action;

  static void install() {
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    // A thread in the handler does not count as one that blocks the signal: see are_heard().
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    // A handler of the program that stores to the same range would wait for the thread that it
    // interrupted.
    ::sigfillset(&action.sa_mask);
    ::sigdelset(&action.sa_mask, SIGSEGV);
    ::sigaction(SIGSEGV, &action, &earlier_action);
  }
  static bool is_installed() {
    struct sigaction now{};
    return ::sigaction(SIGSEGV, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
           now.sa_sigaction == on_signal;
  }
  static void on_signal(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    handling.fetch_add(1);
    const bool ours = info->si_code == SEGV_ACCERR && tell(static_cast<std::byte*>(info->si_addr));
    handling.fetch_sub(1);
    errno = error;
    if (!ours) hand_to_earlier(earlier_action, signal, info, context);
  }
  static bool tell(std::byte* address) {
    for (auto& slot : ranges) {
      StoreFaults* const range = slot.load();
      if (range == nullptr || address < range->base_ || address >= range->base_ + range->bytes_)
        continue;
      // A forked child has other pages, or none, at these addresses.
      if (range->owner_pid_ != ::getpid()) return false;
      range->before_store(static_cast<std::uint64_t>(address - range->base_));
      return true;
    }
    return false;
  }
};

StoreFaults::StoreFaults(std::byte* base, std::uint64_t bytes)
    : base_(base), bytes_(bytes), owner_pid_(::getpid()) {}

Result<void> StoreFaults::hear() {
  static std::once_flag once;
  std::call_once(once, StoreFaultHandler::install);
  for (auto& slot : StoreFaultHandler::ranges) {
    StoreFaults* none = nullptr;
    if (slot.compare_exchange_strong(none, this)) return {};
  }
  return Error{Code::kNoSpace, "stores to more than 64 ranges of addresses are watched at once"};
}

void StoreFaults::hear_no_more() {
  for (auto& slot : StoreFaultHandler::ranges) {
    StoreFaults* self = this;
    slot.compare_exchange_strong(self, nullptr);
  }
  // In a forked child those that were at work do not go on.
  while (StoreFaultHandler::handling.load() != 0 && owner_pid_ == ::getpid()) {
  }
}

namespace {

/// Threads of the sanitizer, which block all signals and store to nothing of the program's.
#if defined(__SANITIZE_THREAD__)
constexpr int kThreadsOfSanitizer = 1;
#else
constexpr int kThreadsOfSanitizer = 0;
#endif

bool any_thread_blocks(int signal) {
  int blocking = 0;
  // Of each thread, as hexadecimal digits of 64 bits: signal 1 is the lowest.
  const std::string key = "SigBlk:";
  std::error_code failed;
  for (std::filesystem::directory_iterator task("/proc/self/task", failed), end;
       !failed && task != end; task.increment(failed)) {
    std::ifstream status(task->path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with(key)) continue;
      const std::uint64_t blocked = std::stoull(line.substr(key.size()), nullptr, 16);
      if ((blocked >> (signal - 1) & 1) != 0) ++blocking;
    }
  }
  return failed || blocking > kThreadsOfSanitizer;
}

}  // namespace

bool StoreFaults::are_heard() {
  if (!StoreFaultHandler::is_installed()) return false;
  // A thread that begins, or starts another, blocks all signals for a moment.
  for (int attempt = 0; any_thread_blocks(SIGSEGV); ++attempt) {
    if (attempt == 100) return false;  // also where many threads want few cores
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace perdure
