// SPDX-License-Identifier: BSD-3-Clause
// Journaling: dirty blocks are collected in DRAM; at an epoch's end, while the core stands still, they are
// written to a journal in NVM and then to their homes. The table that finds them has as many entries as
// ThyNVM's two together.
//
// An epoch's end:
//   1. blocks, and where each belongs, to the journal; drain.
//   2. the seal: from here on the epoch is safe, recovery copies the journal home.
//   3. blocks home; drain.
//   4. the other seal: all is in place, the journal may be overwritten.
#pragma once

#include <unordered_map>
#include <vector>

#include "papers/thynvm/memory/memory_system.h"
#include "papers/thynvm/memory/seal.h"

namespace perdure::memory {

class Journal final : public MemorySystem {
 public:
  Journal(const Model& model, bool with_contents, std::uint64_t most_lines);

  Time read(std::uint64_t line, Time now, Line* data) override;
  Time write(std::uint64_t line, Time now, const Line* data, bool flushing) override;
  bool is_full() const override { return blocks_.size() >= table_entries_; }
  Time end_epoch(Time now, std::uint64_t position) override;
  Recovery recover(Contents left) const override;

 private:
  static constexpr std::uint64_t kEntryBytes = 12;  // where a block belongs, and its check
  Time seal(Time now, std::uint64_t position, bool in_place);
  std::vector<unsigned char> directory() const;
  std::vector<unsigned char> directory_of(const Contents& left, const Seal& seal) const;

  std::uint64_t table_entries_;
  std::uint64_t directory_, journal_, seals_;  // first lines in NVM
  std::unordered_map<std::uint64_t, std::uint32_t> places_;
  std::vector<std::uint64_t> blocks_;  // by place in DRAM
  int seal_ = 0;
};

}  // namespace perdure::memory
