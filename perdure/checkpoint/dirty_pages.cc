// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/dirty_pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "perdure/checkpoint/write_faults.h"
#include "perdure/region/file.h"

namespace perdure::checkpoint {
namespace {

// Of Linux 6.7; headers of older kernels do not have them. The values are the kernel's interface.
constexpr std::uint64_t kWpUnpopulated = std::uint64_t{1} << 13;
constexpr std::uint64_t kWpAsync = std::uint64_t{1} << 15;
constexpr std::uint64_t kPageIsWritten = 1 << 1;
constexpr std::uint64_t kScanWpMatching = 1 << 0;
constexpr std::uint64_t kScanCheckWpAsync = 1 << 1;
constexpr int kUserModeOnly = 1;

struct ScannedRegion {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t categories;
};
struct ScanArguments {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t walk_end;
  std::uint64_t regions;
  std::uint64_t region_count;
  std::uint64_t max_pages;
  std::uint64_t category_inverted;
  std::uint64_t category_mask;
  std::uint64_t category_any_of;
  std::uint64_t return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);

class Userfault final : public DirtyPages {
 public:
  static Result<std::unique_ptr<DirtyPages>> watch(std::byte* base, std::uint64_t pages) {
    std::unique_ptr<Userfault> self(new Userfault);
    self->begin_ = reinterpret_cast<std::uintptr_t>(base);
    self->end_ = self->begin_ + pages * kPageBytes;
    self->faults_ = Descriptor(
        static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly)));
    if (self->faults_.get() < 0) return io_error("userfaultfd");
    uffdio_api api{UFFD_API, kWpUnpopulated | kWpAsync, 0};
    if (::ioctl(self->faults_.get(), UFFDIO_API, &api) != 0)
      return io_error("userfaultfd: asynchronous write protection");
    uffdio_register range{{self->begin_, self->end_ - self->begin_}, UFFDIO_REGISTER_MODE_WP, 0};
    if (::ioctl(self->faults_.get(), UFFDIO_REGISTER, &range) != 0)
      return io_error("userfaultfd: watching a range");
    uffdio_writeprotect protect{range.range, UFFDIO_WRITEPROTECT_MODE_WP};
    if (::ioctl(self->faults_.get(), UFFDIO_WRITEPROTECT, &protect) != 0)
      return io_error("userfaultfd: protecting a range");
    self->pagemap_ = Descriptor(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    if (self->pagemap_.get() < 0) return io_error("/proc/self/pagemap");
    if (auto watched = self->watch_again({0, pages}); !watched) return watched.error();
    return std::unique_ptr<DirtyPages>(std::move(self));
  }

  Result<void> collect(std::vector<PageRange>& into, bool again) override {
    return scan(begin_, end_, again, [&](const ScannedRegion& region) {
      into.push_back(
          {(region.start - begin_) / kPageBytes, (region.end - region.start) / kPageBytes});
    });
  }
  Result<void> watch_again(const PageRange& range) override {
    const std::uint64_t begin = begin_ + range.first * kPageBytes;
    return scan(begin, begin + range.count * kPageBytes, true, [](const ScannedRegion&) {});
  }
  Tracking tracking() const override { return Tracking::kUserfault; }

 private:
  Userfault() = default;

  /// visit(ScannedRegion) for each run of written pages; with `again` they are protected in the
  /// same walk.
  template <class Visit>
  Result<void> scan(std::uint64_t begin, std::uint64_t end, bool again, Visit visit) {
    std::array<ScannedRegion, 512> regions;
    for (std::uint64_t at = begin; at < end;) {
      ScanArguments scan{};
      scan.size = sizeof(scan);
      // The check makes a range that somebody mapped anew, which nobody watches, an error.
      scan.flags = kScanCheckWpAsync | (again ? kScanWpMatching : 0);
      scan.start = at;
      scan.end = end;
      scan.regions = reinterpret_cast<std::uintptr_t>(regions.data());
      scan.region_count = regions.size();
      scan.category_mask = kPageIsWritten;
      scan.return_mask = kPageIsWritten;
      const int found = ::ioctl(pagemap_.get(), kPagemapScan, &scan);
      if (found < 0) {
        if (errno == EINTR) continue;
        return io_error("PAGEMAP_SCAN");
      }
      for (int i = 0; i < found; ++i) visit(regions[static_cast<std::size_t>(i)]);
      at = scan.walk_end;
    }
    return {};
  }

  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  Descriptor faults_;
  Descriptor pagemap_;
};

}  // namespace

Result<std::unique_ptr<DirtyPages>> DirtyPages::watch(std::byte* base, std::uint64_t pages,
                                                      Tracking tracking) {
  if (tracking != Tracking::kMprotect) {
    auto watched = Userfault::watch(base, pages);
    if (watched.ok() || tracking == Tracking::kUserfault) return watched;
  }
  return watch_by_faults(base, pages);
}

}  // namespace perdure::checkpoint
