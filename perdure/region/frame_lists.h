// SPDX-License-Identifier: BSD-3-Clause
// FrameLists: frames in first-in-first-out lists, of which each frame is in one at most. Moving one
//             costs the same from anywhere, and allocates nothing.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "perdure/base/check.h"
#include "perdure/region/frame_layout.h"

namespace perdure {

/// Threads: none; the caller's lock.
template <std::size_t kLists>
class FrameLists {
 public:
  explicit FrameLists(FrameNumber frames) : frames_(frames), links_(frames + kLists) {
    for (std::size_t list = 0; list < kLists; ++list) head(list) = {head_of(list), head_of(list)};
  }

  std::size_t size(std::size_t list) const { return sizes_[list]; }
  bool contains(std::size_t list, FrameNumber frame) const { return owner_of(frame) == list; }
  /// Requires: the list is not empty.
  FrameNumber front(std::size_t list) const { return links_[head_of(list)].next; }
  /// The one behind, or front's list's end: kEnd.
  FrameNumber after(FrameNumber frame) const {
    const FrameNumber next = links_[frame].next;
    return next < frames_ ? next : kEnd;
  }
  static constexpr FrameNumber kEnd = std::numeric_limits<FrameNumber>::max();

  /// To the end of `list`, from wherever it is.
  void push_back(std::size_t list, FrameNumber frame) {
    remove(frame);
    const FrameNumber last = head(list).previous;
    links_[frame] = {head_of(list), last, static_cast<std::uint32_t>(list)};
    links_[last].next = frame;
    head(list).previous = frame;
    ++sizes_[list];
  }
  void remove(FrameNumber frame) {
    Links& links = links_[frame];
    if (links.owner == kNowhere) return;
    links_[links.previous].next = links.next;
    links_[links.next].previous = links.previous;
    --sizes_[links.owner];
    links.owner = kNowhere;
  }

 private:
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  struct Links {
    FrameNumber next = 0;
    FrameNumber previous = 0;
    std::uint32_t owner = kNowhere;
  };
  // The heads stand behind the frames.
  FrameNumber head_of(std::size_t list) const { return frames_ + static_cast<FrameNumber>(list); }
  Links& head(std::size_t list) { return links_[head_of(list)]; }
  std::uint32_t owner_of(FrameNumber frame) const { return links_[frame].owner; }

  FrameNumber frames_;
  std::vector<Links> links_;
  std::array<std::size_t, kLists> sizes_{};
};

}  // namespace perdure
