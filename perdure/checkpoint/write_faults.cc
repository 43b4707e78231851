// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/write_faults.h"

#include <sys/mman.h>

#include <atomic>

#include "perdure/base/check.h"
#include "perdure/base/words.h"
#include "perdure/region/file.h"
#include "perdure/region/store_faults.h"

namespace perdure::checkpoint {
namespace {

class WriteFaults final : public DirtyPages, private StoreFaults {
 public:
  WriteFaults(std::byte* base, std::uint64_t pages)
      : StoreFaults(base, pages * kPageBytes), pages_(pages), dirty_(pages) {}
  ~WriteFaults() override {
    ::mprotect(base(), pages_ * kPageBytes, PROT_READ | PROT_WRITE);
    hear_no_more();
  }
  WriteFaults(const WriteFaults&) = delete;
  WriteFaults& operator=(const WriteFaults&) = delete;

  Result<void> begin() {
    if (auto heard = hear(); !heard) return heard;
    if (::mprotect(base(), pages_ * kPageBytes, PROT_READ) != 0) return io_error("mprotect");
    return {};
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
    if (::mprotect(base() + range.first * kPageBytes, range.count * kPageBytes, PROT_READ) != 0)
      return io_error("mprotect");
    return {};
  }
  Tracking tracking() const override { return Tracking::kMprotect; }

 private:
  void before_store(std::uint64_t offset) noexcept override {
    const std::uint64_t page = offset / kPageBytes;
    // Noted first: once the page can be written another thread may write it.
    dirty_[page].store(true, std::memory_order_release);
    if (::mprotect(base() + page * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE) == 0) return;
    // No mapping left: from here on all pages count as written.
    all_.store(true, std::memory_order_release);
    PERDURE_CHECK(::mprotect(base(), pages_ * kPageBytes, PROT_READ | PROT_WRITE) == 0,
                  "pages of an arena cannot be made writable");
  }

  std::uint64_t pages_;
  std::vector<std::atomic<bool>> dirty_;
  std::atomic<bool> all_{false};
};

}  // namespace

Result<std::unique_ptr<DirtyPages>> watch_by_faults(std::byte* base, std::uint64_t pages) {
  auto faults = std::make_unique<WriteFaults>(base, pages);
  if (auto begun = faults->begin(); !begun) return begun.error();
  return std::unique_ptr<DirtyPages>(std::move(faults));
}

}  // namespace perdure::checkpoint
