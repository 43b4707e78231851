// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/write_faults.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include "perdure/base/check.h"
#include "perdure/base/earlier_handler.h"
#include "perdure/base/words.h"
#include "perdure/region/file.h"

namespace perdure::checkpoint {
namespace {

class WriteFaults;
// What the handler, which may take no lock, looks through.
std::array<std::atomic<WriteFaults*>, 64> watched;
// Handlers at work: a range goes only when there is none.
std::atomic<int> handling{0};
struct sigaction before;

void on_fault(int signal, siginfo_t* info, void* context);

class WriteFaults final : public DirtyPages {
 public:
  WriteFaults(std::byte* base, std::uint64_t pages) : base_(base), pages_(pages), dirty_(pages) {}
  ~WriteFaults() override {
    ::mprotect(base_, pages_ * kPageBytes, PROT_READ | PROT_WRITE);
    for (auto& slot : watched) {
      WriteFaults* self = this;
      slot.compare_exchange_strong(self, nullptr);
    }
    while (handling.load() != 0) {
    }
  }
  WriteFaults(const WriteFaults&) = delete;
  WriteFaults& operator=(const WriteFaults&) = delete;

  Result<void> begin() {
    static std::once_flag once;
    std::call_once(once, [] {
      struct sigaction action{};
      action.sa_sigaction = on_fault;
      action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
      ::sigaction(SIGSEGV, &action, &before);
    });
    bool found = false;
    for (auto& slot : watched) {
      WriteFaults* none = nullptr;
      if (found = slot.compare_exchange_strong(none, this); found) break;
    }
    if (!found)
      return Error{Code::kNoSpace, "more than 64 arenas that are watched by mprotect at once"};
    if (::mprotect(base_, pages_ * kPageBytes, PROT_READ) != 0) return io_error("mprotect");
    return {};
  }

  /// Async-signal-safe. False: not an address of this range.
  bool note(std::byte* address) {
    if (address < base_ || address >= base_ + pages_ * kPageBytes) return false;
    const auto page = static_cast<std::uint64_t>(address - base_) / kPageBytes;
    // Noted first: once the page can be written another thread may write it.
    dirty_[page].store(true, std::memory_order_release);
    if (::mprotect(base_ + page * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE) == 0) return true;
    // No mapping left: from here on all pages count as written.
    all_.store(true, std::memory_order_release);
    PERDURE_CHECK(::mprotect(base_, pages_ * kPageBytes, PROT_READ | PROT_WRITE) == 0,
                  "pages of an arena cannot be made writable");
    return true;
  }

  Result<void> collect(std::vector<PageRange>& into, bool again) override {
    if (all_.exchange(false, std::memory_order_acquire)) {
      for (auto& page : dirty_) page.store(true, std::memory_order_relaxed);
    }
    for (std::uint64_t page = 0; page < pages_; ++page) {
      if (!dirty_[page].load(std::memory_order_acquire)) continue;
      const std::uint64_t first = page;
      while (page < pages_ && dirty_[page].load(std::memory_order_acquire)) ++page;
      into.push_back({first, page - first});
      if (!again) continue;
      if (auto done = watch_again(into.back()); !done) return done;
    }
    return {};
  }
  Result<void> watch_again(const PageRange& range) override {
    for (std::uint64_t page = range.first; page < range.first + range.count; ++page)
      dirty_[page].store(false, std::memory_order_relaxed);
    if (::mprotect(base_ + range.first * kPageBytes, range.count * kPageBytes, PROT_READ) != 0)
      return io_error("mprotect");
    return {};
  }
  Tracking tracking() const override { return Tracking::kMprotect; }

 private:
  std::byte* base_;
  std::uint64_t pages_;
  std::vector<std::atomic<bool>> dirty_;
  std::atomic<bool> all_{false};
};

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  handling.fetch_add(1);
  bool ours = false;
  for (auto& slot : watched) {
    WriteFaults* range = slot.load();
    if (range != nullptr && (ours = range->note(static_cast<std::byte*>(info->si_addr)))) break;
  }
  handling.fetch_sub(1);
  errno = error;
  if (!ours) hand_to_earlier(before, signal, info, context);
}

}  // namespace

Result<std::unique_ptr<DirtyPages>> watch_by_faults(std::byte* base, std::uint64_t pages) {
  auto faults = std::make_unique<WriteFaults>(base, pages);
  if (auto begun = faults->begin(); !begun) return begun.error();
  return std::unique_ptr<DirtyPages>(std::move(faults));
}

}  // namespace perdure::checkpoint
