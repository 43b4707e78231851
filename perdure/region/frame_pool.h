// SPDX-License-Identifier: BSD-3-Clause
// FramePool: persistent memory as a limited resource. Regions larger than it live in ordinary
//            backing files; their pages come into *frames* of the pool when they are touched, and
//            go back to the files when the frames are needed.
//
//   auto pool = FramePool::open_or_create("/mnt/pmem/frames", {.bytes = 1 << 30}).value();
//   auto view = pool->attach(nullptr, 64ull << 30, "/home/me/big", PROT_READ | PROT_WRITE).value();
//   view.address[123] = ...;                 // faults; the page is mapped from a frame
//
// The frames keep their pages when the process ends, in whatever way: nothing is written back at a
// close, and after a restart a touch finds the page in its frame without a read of the file. A
// power cut at any moment leaves each page whole in its frame or in its file (frame_table.h).
//
// Not a pool of objects: it knows no transactions. What the program stores to an attached address
// is durable when the program flushed it, as with all persistent memory; a frame pool adds that the
// page it flushed to is still found afterwards. The pool survives a power cut where
// is_persistent_memory() says so (DAX); on other files it survives only the death of the process.
//
// Source: Mnemosyne (ASPLOS 2011) §4.2, the kernel's region manager; here with userfaultfd.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "perdure/base/words.h"
#include "perdure/error.h"
#include "perdure/region/frame_layout.h"

namespace perdure {

/// Not for direct I/O into an attached range: a device that still writes to a frame when its page
/// is swapped out writes to nobody's page.
/// Threads: any, for every call. No call may be made with a pointer into an attached range, nor
/// from a signal handler. A forked child has neither the attached ranges nor the pool.
class FramePool {
 public:
  struct Options {
    std::uint64_t bytes = 0;           // of the pool's file, tables included; of a new pool
    std::uint64_t frame_bytes = 4096;  // a power of two, 4 KiB to 2 MiB; of a new pool
    std::uint32_t file_entries = 64;   // backing files known at a time; of a new pool
    unsigned mode = 0600;              // permission bits, before the umask; of a new pool
    /// Mappings that the attached ranges may take together; beyond, frames are unmapped (not
    /// evicted). 0: what vm.max_map_count leaves. Frames that lie in order beside each other share
    /// one.
    std::uint64_t max_mappings = 0;
    /// Ask for no privilege, even if the process has it. See sees_system_calls().
    bool user_mode_only = false;
  };

  /// Errors: kExists, kInvalid, kNoSpace, kIo; then there is no new file.
  static Result<void> create(const std::string& path, const Options& options);
  /// Opens, locks, validates; reconstructs the index and the free list from the mapping table. A
  /// pool keeps the size and the frames that it was created with. No backing file is touched.
  /// Errors: kNotFound, kBusy (with the holder's pid), kForeign, kVersion, kTruncated, kCorrupt
  ///         (naming the byte), kIo (also where userfaultfd is missing).
  static Result<std::unique_ptr<FramePool>> open(const std::string& path, const Options& options);
  static Result<std::unique_ptr<FramePool>> open_or_create(const std::string& path,
                                                           const Options& options);
  /// Unmaps every view; the pages stay where they are. Requires: nobody touches attached ranges any
  /// more.
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /// A piece of a backing file at an address.
  struct View {
    std::byte* address;
    std::uint64_t bytes;
    FileNumber file;
    Offset file_offset;
  };

  /// Maps a backing file, which is created if there is none, from `file_offset` on, a multiple of
  /// frame_bytes: a touch of a page brings it into a frame. `address` is page-aligned and whatever
  /// is mapped there goes; null: an address is chosen. `protection` is PROT_READ, or PROT_READ |
  /// PROT_WRITE.
  ///
  /// A touch whose page cannot be had (a backing file that is gone, a full device, no frame that
  /// could be freed) is a SIGBUS, and last_failure() says why.
  ///
  /// Durable: the file's name and number, on return.
  /// Errors:  kBusy (that part of the file is attached already), kInvalid (alignment, protection,
  ///          overlap, size), kNoSpace (no entry left for another file), kNotFound, kIo.
  Result<View> attach(void* address, std::uint64_t bytes, const std::string& backing_file,
                      int protection, Offset file_offset = 0);

  /// Writes all pages of the view's file to it, makes the pool forget the file, and gives the
  /// addresses back to the system. Requires: nobody touches them any more.
  /// Errors: kInvalid (no such view), kBusy (the file has another view; nothing has changed), kIo,
  ///         kNoSpace, kNotFound: then what could not be written stays in its frames, and the view
  ///         is gone.
  Result<void> detach(const View& view);

  /// Takes [address, address + bytes), whole frames, out of the views that it lies in; what is left
  /// of them stays attached, and may be touched meanwhile. The addresses stay taken, but nothing is
  /// there any more; pages stay in their frames. Requires: nobody touches the range any more.
  /// Errors: kInvalid (not whole frames of views); nothing has changed.
  Result<void> cut(void* address, std::uint64_t bytes);
  /// Changes what may be done with a view: PROT_READ, or PROT_READ | PROT_WRITE.
  /// Errors: kInvalid (no view begins there, or has that size).
  Result<void> protect(void* address, std::uint64_t bytes, int protection);
  /// Writes all pages of a file without a view to it, and makes the pool forget it. A file that the
  /// pool does not know is fine. Durable: on return. Errors: kBusy (it has a view), and as
  /// detach().
  Result<void> forget(const std::string& backing_file);

  /// Shows the pages of a backing file that are in frames of the pool at `path`, without a change
  /// to anything: `visit(offset in the file, its bytes)`.
  /// Errors: as open(); kBusy only while somebody has the pool open for more than looking.
  static Result<void> inspect(const std::string& path, const std::string& backing_file,
                              const std::function<void(Offset, std::span<const std::byte>)>& visit);

  /// Writes to every backing file what the frames hold of it, attached or not; pages stay in their
  /// frames. A page that is stored to meanwhile may reach its file half: the frame is what counts.
  /// Durable: on return. Errors: as detach().
  Result<void> write_back_all();

  struct Statistics {
    std::uint64_t soft_faults = 0;  // the page was in a frame
    std::uint64_t hard_faults = 0;  // it was read from its file
    std::uint64_t evictions = 0;    // frames freed for another page
    std::uint64_t unmaps = 0;       // frames taken from their address, to see who needs them
    std::uint64_t failures = 0;     // touches answered with a SIGBUS
    std::uint64_t frames = 0;
    std::uint64_t frames_free = 0;
    std::uint64_t frames_mapped = 0;
    std::uint64_t mappings = 0;  // that the attached ranges take of the process' limit
  };
  Statistics statistics() const;
  /// Why the last touch was a SIGBUS, or the last eviction failed.
  std::optional<Error> last_failure() const;

  const std::string& path() const;
  std::uint64_t frame_bytes() const;
  /// Whether the kernel vouches for it (MAP_SYNC).
  bool is_persistent_memory() const;
  /// False for a process without CAP_SYS_PTRACE where vm.unprivileged_userfaultfd is 0: a system
  /// call that is handed an address whose page is not in a frame then fails with EFAULT. Touch the
  /// page first.
  bool sees_system_calls() const;

 private:
  class Manager;
  explicit FramePool(std::unique_ptr<Manager> manager);
  std::unique_ptr<Manager> manager_;
};

}  // namespace perdure
