// SPDX-License-Identifier: BSD-3-Clause
// DirtyPages: finds the pages of a range that were written since the last call.
//
//   kUserfault   the kernel notes the first write to a page and lets it go on (userfaultfd,
//                asynchronous write protection), one PAGEMAP_SCAN tells which and protects them
//                again. Linux 6.7. About 1 us for each first write; writes by system calls (read
//                into the range) are seen.
//   kMprotect    pages are read-only, the first write is a SIGSEGV, whose handler notes it. 3 to 10
//                us for each, and a mapping for each run of pages, of which a process has 65,530:
//                where they run out, all pages count as written until the next collect(). A system
//                call that writes to a page which was not written yet fails with EFAULT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "perdure/error.h"

namespace perdure::checkpoint {

enum class Tracking : std::uint8_t { kAuto, kUserfault, kMprotect };

struct PageRange {
  std::uint64_t first;
  std::uint64_t count;
};

class DirtyPages {
 public:
  /// Watches the range from now on. kAuto: kUserfault where the kernel has it.
  /// Requires: one private mapping, readable and writable, which stays as it is.
  /// Errors: kIo.
  static Result<std::unique_ptr<DirtyPages>> watch(std::byte* base, std::uint64_t pages,
                                                   Tracking tracking);
  /// Ends watching; the range can be written as before.
  virtual ~DirtyPages() = default;

  /// Returns the pages, in order, that were written since they were last watched. `again`: all are
  /// watched again.
  /// Requires: nobody writes to the range before all pages that have to be watched are. Errors:
  /// kIo.
  virtual Result<void> collect(std::vector<PageRange>& into, bool again) = 0;
  /// Watches these pages again; those that are watched already stay so. A page that was collected
  /// and is not watched again is collected the next time, too. Errors: kIo.
  virtual Result<void> watch_again(const PageRange& range) = 0;
  virtual Tracking tracking() const = 0;
};

}  // namespace perdure::checkpoint
