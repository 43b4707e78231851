// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/mapped_file.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>

#include "perdure/base/earlier_handler.h"
#include "perdure/base/words.h"
#include "perdure/lost_pages.h"

namespace perdure {
namespace {

std::array<std::atomic<MappedFile*>, 256> mapped_files;
// Handlers at work: a file goes only when there is none.
std::atomic<int> handling{0};
struct sigaction earlier_action;

/// The first loss of the process: written once, by whoever sets `taken`, and whole when `told`.
struct {
  std::atomic<bool> taken{false};
  std::atomic<bool> told{false};
  std::array<char, 1024> path{};
  std::uint64_t offset = 0;
  std::uint64_t file_bytes = 0;
} first_lost;

Error lost(const char* path, std::uint64_t offset, std::uint64_t file_bytes) {
  return {
      Code::kPoisoned,
      std::string(path) + ": the page at offset " + std::to_string(offset) +
          (offset < file_bytes ? "" : " of its address space") +
          " cannot be read or written (the file was cut short, or its device is full or fails), "
          "so nothing more is accepted; mend the device or restore the file, and open it again"};
}

}  // namespace

struct LossHandler {
  static void install() {
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    ::sigaction(SIGBUS, &action, &earlier_action);
  }
  static void on_signal(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    handling.fetch_add(1);
    bool ours = false;
    // Positive codes are of accesses; others are sent by somebody.
    if (info->si_code > 0) {
      for (auto& slot : mapped_files) {
        MappedFile* const file = slot.load();
        if (file != nullptr && (ours = file->replace(static_cast<std::byte*>(info->si_addr))))
          break;
      }
    }
    handling.fetch_sub(1);
    errno = error;
    if (!ours) hand_to_earlier(earlier_action, signal, info, context);
  }
};

MappedFile::MappedFile(std::byte* base, std::uint64_t bytes, std::uint64_t file_bytes,
                       const std::string& path)
    : base_(base), bytes_(bytes), file_bytes_(file_bytes), owner_pid_(::getpid()) {
  path.copy(path_.data(), path_.size() - 1);
  for (auto& slot : mapped_files) {
    MappedFile* none = nullptr;
    if (slot.compare_exchange_strong(none, this)) break;
  }
}

MappedFile::~MappedFile() {
  for (auto& slot : mapped_files) {
    MappedFile* self = this;
    slot.compare_exchange_strong(self, nullptr);
  }
  await_handlers();
}

void MappedFile::raise(std::atomic<bool>* flag) {
  flag_.store(flag);
  if (flag != nullptr && first_.load() != kNone) flag->store(true);
  await_handlers();
}

void MappedFile::await_handlers() const {
  // In a forked child those that were at work do not go on.
  while (handling.load() != 0 && owner_pid_ == ::getpid()) {
  }
}

std::optional<Error> MappedFile::loss() const {
  const std::uint64_t offset = first_.load();
  if (offset == kNone) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return told_ ? *told_ : lost(path_.data(), offset, file_bytes_);
}

void MappedFile::lose(Offset offset, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!told_) told_ = error;
  }
  std::uint64_t none = kNone;
  first_.compare_exchange_strong(none, offset);
  if (std::atomic<bool>* const flag = flag_.load(); flag != nullptr) flag->store(true);
  detail::lost_pages.fetch_add(1);
}

std::optional<Error> MappedFile::first_loss() {
  if (!first_lost.told.load()) return std::nullopt;
  return lost(first_lost.path.data(), first_lost.offset, first_lost.file_bytes);
}

bool MappedFile::replace(std::byte* address) {
  if (address < base_ || address >= base_ + bytes_) return false;
  const std::uint64_t offset = round_down(static_cast<std::uint64_t>(address - base_), kPageBytes);
  std::uint64_t none = kNone;
  first_.compare_exchange_strong(none, offset);  // 3
  if (!first_lost.taken.exchange(true)) {
    first_lost.path = path_;
    first_lost.offset = offset;
    first_lost.file_bytes = file_bytes_;
    first_lost.told.store(true);
  }
  if (std::atomic<bool>* const flag = flag_.load(); flag != nullptr) flag->store(true);
  detail::lost_pages.fetch_add(1);
  // 4. Past mmap(), which tools may have replaced by something that no handler may call.
  return ::syscall(SYS_mmap, base_ + offset, kPageBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != -1;
}

void survive_lost_pages() {
  static std::once_flag once;
  std::call_once(once, LossHandler::install);
}

}  // namespace perdure
