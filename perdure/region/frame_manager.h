// SPDX-License-Identifier: BSD-3-Clause
// FrameManager: what happens inside a FramePool. Faults bring pages in, pressure takes frames away.
//
// Invariants, whenever nobody holds the lock:
//   1. a frame is free, or active (mapped at the address of its page), or inactive (holds its page,
//      mapped nowhere);
//   2. an address of a view shows the frame of its page, or faults, or is broken (SIGBUS);
//   3. a frame that may be stored to is marked before it is mapped.
//
//            bring in, map                     unmap (is it needed?)
//     free ──────────────────▶ active ◀──────────────────────▶ inactive
//      ▲                            touched again: map                │
//      └───────────────────────────────────────────────────────────────┘
//                       write to the file, clear the entry
//
// Victims. A process cannot ask whether one of its pages was touched lately (mincore() knows the
// page cache, pagemap has no such bit), so a frame is taken from its address and waits, inactive,
// in a queue: a touch meanwhile is a soft fault that puts it back, a frame that reaches the head is
// evicted. This is second chance with the unmapping as reference test: the segmented FIFO of VMS.
//
// Locks: one, held during every change. The thread that reads faults only tries to take it, because
// a caller of UserFaults::hide(), which holds it, waits in the kernel until that thread has read.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "perdure/domain/any_memory.h"
#include "perdure/region/backing_files.h"
#include "perdure/region/file.h"
#include "perdure/region/frame_lists.h"
#include "perdure/region/frame_pool.h"
#include "perdure/region/frame_table.h"
#include "perdure/region/user_faults.h"

namespace perdure {

/// Each call as FramePool's of the same name. Threads: any.
class FrameManager {
 public:
  FrameManager(std::string path, std::uint64_t max_mappings);
  ~FrameManager();
  FrameManager(const FrameManager&) = delete;
  FrameManager& operator=(const FrameManager&) = delete;

  Result<void> open(bool user_mode_only);
  /// Only the tables, in private memory, for looking at them. No call but visit() may follow.
  Result<void> open_to_inspect();
  void visit(const std::string& backing_file,
             const std::function<void(Offset, std::span<const std::byte>)>& visit) const;
  Result<FramePool::View> attach(std::byte* address, std::uint64_t bytes,
                                 const std::string& backing_file, int protection,
                                 Offset file_offset);
  Result<void> detach(const FramePool::View& view);
  Result<void> cut(std::byte* address, std::uint64_t bytes);
  Result<void> protect(std::byte* address, std::uint64_t bytes, int protection);
  Result<void> forget(const std::string& backing_file);
  Result<void> write_back_all();
  FramePool::Statistics statistics() const;
  std::optional<Error> last_failure() const;
  const std::string& path() const { return path_; }
  std::uint64_t frame_bytes() const { return frame_bytes_; }
  bool is_persistent_memory() const { return persistent_memory_; }
  bool sees_system_calls() const { return faults_->sees_system_calls(); }

 private:
  enum List : std::size_t { kActive, kInactive, kLists };
  struct Attached {
    std::byte* address;
    std::uint64_t bytes;
    FileNumber file;
    std::uint64_t first_page;
    int protection;
  };
  enum class Patience : std::uint8_t { kNone, kAll };
  static constexpr FrameNumber kNone = FrameIndex::kNone;

  bool serve(std::byte* address, Patience patience);
  Result<bool> bring_to(const Attached& view, std::uint64_t page, Patience patience);
  Result<bool> show(const Attached& view, std::uint64_t page, FrameNumber frame, Patience patience);
  bool hide(FrameNumber frame);
  Result<void> make_room();
  bool keep_mappings_below(std::uint64_t wanted);
  bool find_mappings();
  std::vector<FrameNumber> victims(const std::set<FileNumber>& stuck);
  Result<void> write_out(FileNumber file);

  const Attached* view_at(const std::byte* address) const;
  const Attached* view_of(FilePage page) const;
  bool has_view(FileNumber file) const;
  std::uint64_t pages_of(const Attached& view) const {
    return (view.bytes + frame_bytes_ - 1) / frame_bytes_;
  }
  bool shows(const Attached& view, FilePage page) const {
    return view.file == page.file && page.page - view.first_page < pages_of(view);
  }
  std::byte* address_of(const Attached& view, std::uint64_t page) const {
    return view.address + (page - view.first_page) * frame_bytes_;
  }
  Result<LockedFile> open_pool(bool inspect, FrameSuperblock& super);
  Result<void> reconstruct(const FrameSuperblock& super);
  void release_frames(const Attached& view);
  void split_at(std::byte* address);
  FrameNumber shown_at(const Attached& view, std::uint64_t page) const;
  std::uint64_t seams_around(const Attached& view, std::uint64_t page) const;
  void note_failure(const Error& error) { failure_ = error; }

  std::string path_;
  std::uint64_t max_mappings_;
  Descriptor fd_;
  int owner_pid_ = 0;
  std::byte* base_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t frame_bytes_ = 0;
  int map_flags_ = 0;
  bool persistent_memory_ = false;

  mutable std::mutex mutex_;  // of all below
  std::optional<FrameTable<AnyMemory>> table_;
  std::optional<FrameLists<kLists>> lists_;
  std::optional<BackingFiles> files_;
  std::map<const std::byte*, Attached> views_;  // by address
  std::uint64_t mappings_ = 0;
  FramePool::Statistics counts_;
  std::optional<Error> failure_;
  std::unique_ptr<UserFaults> faults_;  // last: its threads use all of the above
};

}  // namespace perdure
