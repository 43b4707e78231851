// SPDX-License-Identifier: BSD-3-Clause
// Shadow paging: a page that is stored to is copied into a buffer in DRAM; when the buffers are full, or
// the epoch is over, dirty pages are written to NVM while the core stands still, each to the one of its
// two places that does not hold its last version.
//
// An epoch's end:
//   1. dirty pages to their other places; drain.
//   2. the map of places (a bit for each page), into the one of its two areas that is not in use; drain.
//   3. the seal: from here on the epoch is safe.
#pragma once

#include <unordered_map>
#include <vector>

#include "papers/thynvm/memory/memory_system.h"
#include "papers/thynvm/memory/seal.h"

namespace perdure::memory {

class Shadow final : public MemorySystem {
 public:
  Shadow(const Model& model, bool with_contents, std::uint64_t most_lines);

  Time read(std::uint64_t line, Time now, Line* data) override;
  Time write(std::uint64_t line, Time now, const Line* data, bool flushing) override;
  bool is_full() const override { return full_; }
  Time end_epoch(Time now, std::uint64_t position) override;
  Recovery recover(Contents left) const override;

 private:
  bool map_is(const Contents& left, int turn, const Seal& seal) const;
  static constexpr std::uint64_t kEntryBytes =
      12;  // a page's change in the map, as the published code counts
  struct Buffer {
    std::uint64_t page;
    bool dirty;
  };
  std::uint64_t nvm_line(std::uint64_t line) const;
  std::uint32_t bring_in(std::uint64_t page, Time& now, bool flushing);

  std::uint64_t most_lines_;
  std::uint64_t maps_, map_lines_, seals_;
  std::uint64_t buffer_pages_;
  std::unordered_map<std::uint64_t, std::uint32_t> places_;
  std::vector<Buffer> buffers_;
  std::size_t replacing_ = 0;
  std::vector<bool> in_other_;  // by page: its last version is in its second place
  bool full_ = false;
  int turn_ = 0;
};

}  // namespace perdure::memory
