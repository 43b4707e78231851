// SPDX-License-Identifier: BSD-3-Clause
// What the memory holds: areas from /proc/self/maps; what was written since the last epoch from
// userfaultfd's asynchronous write protection and PAGEMAP_SCAN (Linux 6.7).
//
// The kernel never merges an area that is write-protected with one that is not, so a line of maps is
// tracked as a whole or not at all: an area that was unmapped and mapped anew between two epochs is
// refused by PM_SCAN_CHECK_WPASYNC, and recorded as fresh.
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "apps/run/memory_map.h"
#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/runtime.h"

namespace perdure::run {
namespace {

// Debian 12's headers are older than these.
constexpr std::uint64_t kFeatureWpUnpopulated = 1 << 13, kFeatureWpAsync = 1 << 15;
struct PageRegion {
  std::uint64_t begin, end, categories;
};
struct ScanArguments {
  std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
  std::uint64_t inverted, all, any, returned;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);
constexpr std::uint64_t kProtectMatching = 1, kCheckTracked = 2;
constexpr std::uint64_t kWritten = 2, kOfFile = 4, kPresent = 8, kSwapped = 16, kZeroPage = 32;

int tracker = -1;  // userfaultfd
int pagemap = -1;
int memory = -1;  // /proc/self/mem: reads what is not readable
bool can_scan = false;

std::uint64_t first_write_ns = 0;
std::size_t area_count = 0;      // in workspace().areas[which]
std::size_t old_area_count = 0;  // in the other
int which = 0;

/// Copies what lies at `address` to the bounce buffer. Returns the bytes that could be read: whole
/// pages.
std::uint64_t copy_out(std::uint64_t address, std::uint64_t bytes) {
  char* const bounce = workspace().bounce;
  iovec to{bounce, bytes}, from{reinterpret_cast<void*>(address), bytes};
  long got = syscall(SYS_process_vm_readv, process_id, &to, 1, &from, 1, 0);
  if (got <= 0) got = syscall(SYS_pread64, memory, bounce, bytes, address);
  return got <= 0 ? 0 : static_cast<std::uint64_t>(got) & ~(kPageBytes - 1);
}

// What is read by an ordinary load: anonymous memory that may be read. The rest may lie behind the end of
// its file, where a load would kill the program.
std::uint64_t readable_begin = 0, readable_end = 0;

bool save(std::uint64_t begin, std::uint64_t end) {
  while (begin < end) {
    const char* from = reinterpret_cast<const char*>(begin);
    std::uint64_t bytes = end - begin;
    if (begin < readable_begin || end > readable_end) {
      if (!stage_pending()) return false;
      bytes = copy_out(begin, bytes < kBounceBytes ? bytes : kBounceBytes);
      from = workspace().bounce;
      if (bytes == 0) begin += kPageBytes;
    }
    for (std::uint64_t at = 0; at < bytes; at += kPageBytes) {
      if (!stage_page(begin + at, from + at)) return false;
    }
    begin += bytes;
  }
  return true;
}

/// Calls use(begin, end) for ranges of [begin, end) that match. Returns 0, or minus an error number.
template <class Use>
long scan(std::uint64_t begin, std::uint64_t end, std::uint64_t flags, std::uint64_t inverted,
          std::uint64_t all, std::uint64_t any, Use use) {
  static PageRegion regions[512];
  while (begin < end) {
    ScanArguments arguments{sizeof arguments,
                            flags,
                            begin,
                            end,
                            0,
                            reinterpret_cast<std::uint64_t>(regions),
                            512,
                            0,
                            inverted,
                            all,
                            any,
                            all | any};
    const long count = syscall(SYS_ioctl, pagemap, kPagemapScan, &arguments);
    if (failed(count)) return count;
    for (long i = 0; i < count; ++i) {
      if (!use(regions[i].begin, regions[i].end)) return -EIO;
    }
    if (arguments.walk_end <= begin) break;
    begin = arguments.walk_end;
  }
  return 0;
}

/// For kernels without PAGEMAP_SCAN.
template <class Use>
long read_pagemap(std::uint64_t begin, std::uint64_t end, Use use) {
  static std::uint64_t entries[512];
  while (begin < end) {
    std::uint64_t count = (end - begin) / kPageBytes;
    if (count > 512) count = 512;
    const long got = syscall(SYS_pread64, pagemap, entries, count * 8, begin / kPageBytes * 8);
    if (got <= 0) return got < 0 ? got : -EIO;
    for (std::uint64_t i = 0; i < count; ++i) {
      const bool there = (entries[i] >> 62) != 0, of_file = (entries[i] >> 61 & 1) != 0;
      if (there && !of_file && !use(begin + i * kPageBytes, begin + (i + 1) * kPageBytes))
        return -EIO;
    }
    begin += count * kPageBytes;
  }
  return 0;
}

bool save_private_pages(std::uint64_t begin, std::uint64_t end) {
  if (can_scan) {
    return scan(begin, end, 0, kOfFile | kZeroPage, kOfFile | kZeroPage, kPresent | kSwapped,
                save) == 0;
  }
  return read_pagemap(begin, end, save) == 0;
}

/// Pages of a mapped file that the program had changed and gave back (MADV_DONTNEED): they are the file's again, or will
/// be when they are touched. The kernel keeps them protected, so that they do not count as written.
bool save_given_back(std::uint64_t begin, std::uint64_t end) {
  if (!any_recorded(begin, end)) return true;
  const auto drop = [](std::uint64_t from, std::uint64_t to) {
    drop_pages(from, to);
    return true;
  };
  // What is swapped out looks like what was given back; to read it brings it in, so that the next epoch knows.
  const auto save_recorded = [](std::uint64_t from, std::uint64_t to) {
    for (; from < to; from += kPageBytes) {
      if (is_recorded(from) && !save(from, from + kPageBytes)) return false;
    }
    return true;
  };
  return scan(begin, end, 0, 0, 0, kOfFile, drop) == 0 &&
         scan(begin, end, 0, 0, 0, kSwapped, save_recorded) == 0;
}

void untrack(std::uint64_t begin, std::uint64_t end) {
  uffdio_range area{begin, end - begin};
  syscall(SYS_ioctl, tracker, UFFDIO_UNREGISTER, &area);
}

/// From now on writes to the area are seen. Where it cannot be, the area is fresh in every epoch.
void track(std::uint64_t begin, std::uint64_t end) {
  if (tracker < 0) return;
  uffdio_register area{{begin, end - begin}, UFFDIO_REGISTER_MODE_WP, 0};
  if (failed(syscall(SYS_ioctl, tracker, UFFDIO_REGISTER, &area))) return;
  const long armed = scan(begin, end, kProtectMatching | kCheckTracked, 0, kWritten, 0,
                          [](std::uint64_t, std::uint64_t) { return true; });
  if (armed != 0) untrack(begin, end);
}

// The file of the area before, in this epoch: areas of one file follow each other, and it is asked for once.
struct {
  const char* path;          // in workspace().maps
  std::uint32_t path_bytes;  // 0: none
  std::uint64_t inode, device, bytes, modified_ns;
} mapped;

/// Attributes of the mapped file. False: it is gone.
bool describe_file(const MapLine& line, VmaRecord& vma) {
  const bool same = line.path_bytes == mapped.path_bytes && line.inode == mapped.inode &&
                    equal_bytes(line.path, mapped.path, mapped.path_bytes);
  if (!same) {
    char* const path = workspace().path;
    if (line.path_bytes >= sizeof workspace().path) return false;
    __builtin_memcpy(path, line.path, line.path_bytes);
    path[line.path_bytes] = 0;
    struct stat attributes;
    if (failed(syscall(SYS_newfstatat, AT_FDCWD, path, &attributes, 0))) return false;
    if (attributes.st_ino != line.inode) return false;
    mapped = {line.path,
              line.path_bytes,
              line.inode,
              attributes.st_dev,
              static_cast<std::uint64_t>(attributes.st_size),
              static_cast<std::uint64_t>(attributes.st_mtim.tv_sec) * 1'000'000'000 +
                  static_cast<std::uint64_t>(attributes.st_mtim.tv_nsec)};
  }
  vma.device = mapped.device;
  vma.inode = mapped.inode;
  vma.file_bytes = mapped.bytes;
  vma.modified_ns = mapped.modified_ns;
  return true;
}

bool refuse(const char* text, const MapLine& line) {
  because(text, line.path, line.path_bytes);
  return false;
}

bool is_kernels(const MapLine& line) { return line.is("[vdso]") || line.starts_with("[vvar"); }

/// All but what the area holds. False, with the cause in `why`: no epoch can end with such an area.
bool describe_area(const MapLine& line, VmaRecord& vma) {
  vma.begin = line.begin;
  vma.end = line.end;
  vma.protection = line.protection;
  vma.kind = VmaKind::kAnonymous;
  if (is_kernels(line)) {
    vma.kind = line.is("[vdso]") ? VmaKind::kVdso : VmaKind::kVvar;
    vma.path_bytes = line.path_bytes;
    return true;
  }
  if (line.is("[stack]")) vma.flags |= kVmaGrowsDown;
  if (line.inode == 0) {
    if (line.shared) because("memory is shared");
    return !line.shared;
  }
  vma.kind = VmaKind::kFile;
  vma.file_offset = line.offset;
  vma.path_bytes = line.path_bytes;
  if (line.shared && (line.protection & PROT_WRITE) != 0)
    return refuse("memory is shared for writing: ", line);
  if (!describe_file(line, vma))
    return refuse("it maps a file that was deleted or replaced: ", line);
  if (line.shared) vma.flags |= kVmaShared;
  return true;
}

bool capture_area(const MapLine& line, bool all) {
  VmaRecord vma{};
  if (!describe_area(line, vma) ||
      !append(RecordKind::kVma, &vma, sizeof vma, line.path, vma.path_bytes))
    return false;
  if (line.shared || is_kernels(line)) return true;
  if (area_count == kMostAreas) {
    because("it has more than 131,072 areas of memory");
    return false;
  }
  workspace().areas[which][area_count++] = {line.begin, line.end};
  const bool plain = line.inode == 0 && (line.protection & PROT_READ) != 0;
  readable_begin = plain ? line.begin : 0;
  readable_end = plain ? line.end : 0;
  if (!all) {
    const long scanned =
        scan(line.begin, line.end, kProtectMatching | kCheckTracked, 0, kWritten, 0, save);
    if (scanned == 0)
      return (line.inode == 0 || save_given_back(line.begin, line.end)) && stage_pending();
    if (scanned != -EPERM) return false;
  }
  // New, or mapped anew: nobody watched it.
  const bool saved = save_private_pages(line.begin, line.end) && stage_pending();
  if (saved) drop_pages_not_staged(line.begin, line.end);
  track(line.begin, line.end);
  return saved;
}

/// What was private memory in the last epoch and is nothing of the kind now.
void drop_unmapped() {
  const auto* now = workspace().areas[which];
  const auto* const last = now + area_count;
  for (std::size_t i = 0; i < old_area_count; ++i) {
    const auto old = workspace().areas[1 - which][i];
    std::uint64_t from = old.begin;
    while (now < last && now->end <= from) ++now;
    for (const auto* at = now; from < old.end; ++at) {
      const std::uint64_t to = at < last && at->begin < old.end ? at->begin : old.end;
      if (from < to) drop_pages(from, to);
      if (at == last || at->begin >= old.end) break;
      from = at->end;
    }
  }
}

/// Calls use(line) for what /proc/self/maps says of the program. False: use() did.
template <class Use>
bool for_each_area(Use use) {
  const long bytes = read_whole("/proc/self/maps", workspace().maps, sizeof workspace().maps);
  if (bytes < 0) {
    because("its memory map cannot be read");
    return false;
  }
  mapped.path_bytes = 0;  // It pointed there.
  const char* at = workspace().maps;
  const char* const end = at + bytes;
  MapLine line;
  while (next_line(at, end, line)) {
    if (line.begin >= kUserEnd || line.is("[vsyscall]")) continue;
    if (line.begin >= kReservedBegin && line.end <= kReservedEnd) continue;
    if (!use(line)) return false;
  }
  return true;
}

/// How long it takes the kernel to note a first write, by writing to pages that nobody else has.
void measure_fault() {
  constexpr std::uint64_t kTrials = 256;
  const long scratch =
      syscall(SYS_mmap, kSharedBase - (1 << 30), kTrials * kPageBytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (failed(scratch)) return;
  const auto write_all = [&] {
    const std::uint64_t begin = now_ns(CLOCK_MONOTONIC);
    for (std::uint64_t page = 0; page < kTrials; ++page)
      *reinterpret_cast<volatile char*>(scratch + static_cast<long>(page * kPageBytes)) = 1;
    return now_ns(CLOCK_MONOTONIC) - begin;
  };
  write_all();
  track(static_cast<std::uint64_t>(scratch),
        static_cast<std::uint64_t>(scratch) + kTrials * kPageBytes);
  const std::uint64_t with = write_all(), without = write_all();
  first_write_ns = with > without ? (with - without) / kTrials : 0;
  syscall(SYS_munmap, scratch, kTrials * kPageBytes);
}

}  // namespace

void open_trackers() {
  pagemap =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  memory = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC));
  tracker = -1;
  can_scan =
      shared().full_only == 0 && scan(kRuntimeBase, kRuntimeBase + kPageBytes, 0, 0, kPresent, 0,
                                      [](std::uint64_t, std::uint64_t) { return true; }) == 0;
  if (!can_scan) return;
  const long opened = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  if (failed(opened)) return;
  uffdio_api api{UFFD_API, kFeatureWpUnpopulated | kFeatureWpAsync | UFFD_FEATURE_PAGEFAULT_FLAG_WP,
                 0};
  if (failed(syscall(SYS_ioctl, opened, UFFDIO_API, &api))) {
    syscall(SYS_close, opened);
    return;
  }
  tracker = static_cast<int>(opened);
  measure_fault();
}

bool tracks_writes() { return tracker >= 0; }
std::uint64_t fault_ns() { return first_write_ns; }

void watch_all() {
  area_count = 0;
  for_each_area([](const MapLine& line) {
    if (line.shared || is_kernels(line) || area_count == kMostAreas) return true;
    track(line.begin, line.end);
    workspace().areas[which][area_count++] = {line.begin, line.end};
    return true;
  });
  old_area_count = area_count;
}

bool capture_memory(bool all) {
  // What is copied in vain stays in the list of changes, which only a commit empties: that happens once, and then all
  // areas are looked at before any is copied.
  static bool failed_last = false;
  const auto look = [](const MapLine& line) {
    VmaRecord vma{};
    return describe_area(line, vma);
  };
  if (failed_last && !for_each_area(look)) return false;
  failed_last = true;
  which = 1 - which;
  area_count = 0;
  if (!for_each_area([&](const MapLine& line) { return capture_area(line, all); })) {
    which = 1 - which;  // What the areas were stays what they were when an epoch ended last.
    return false;
  }
  drop_unmapped();
  old_area_count = area_count;
  failed_last = false;
  return true;
}

}  // namespace perdure::run
