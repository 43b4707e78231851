// SPDX-License-Identifier: BSD-3-Clause
// ThyNVM's memory controller: the protocol of perdure/checkpoint on two devices. What the protocol decides
// in no time costs here what the devices take.
//
// kThyNvmOverlap is ours: pages come into DRAM, and tables are saved, while the next epoch runs, in both
// readings; the stop has the flush of the caches and what a page that must be written back still lacks.
//
// NVM, by line: home of all memory; slots of blocks; slots of pages; two backups of header, tables and
// the core's state. DRAM: pages; buffers of blocks.
#pragma once

#include <span>

#include "papers/thynvm/memory/memory_system.h"
#include "perdure/checkpoint/protocol.h"

namespace perdure::memory {

checkpoint::Geometry geometry_of(System system, const Model& model);

class ThyNvm final : public MemorySystem {
 public:
  ThyNvm(System system, const Model& model, bool with_contents, std::uint64_t most_lines);

  Time read(std::uint64_t line, Time now, Line* data) override;
  Time write(std::uint64_t line, Time now, const Line* data, bool flushing) override;
  bool is_full() const override { return full_; }
  bool is_busy(Time now) override;
  Time end_epoch(Time now, std::uint64_t position) override;
  Time finish(Time now) override;
  Recovery recover(Contents left) const override;

 private:
  // Of the running checkpoint: which step's transfers are under way (protocol.h numbers them).
  enum class Step : std::uint8_t { kBlocks, kPages, kPageTable, kComplete };

  struct Spot {
    Device* device;
    std::uint64_t line;
  };
  Spot spot(checkpoint::Place place, std::uint64_t line);
  std::uint64_t nvm_line(checkpoint::Place place, std::uint64_t line) const;
  void transfer(const checkpoint::Copy& copy, Time now, bool in_stop);
  Time complete_pages(Time now);
  void fill_pages(Time now);
  Time bring_in(const checkpoint::Copy& page, Time now);
  void transfer_line(Spot from, Spot to, Time now, bool at_once);
  void save_line(std::uint64_t line, std::span<const unsigned char> bytes, Time now);
  void save_tables(std::size_t from, std::size_t to, Time now);
  void save_core(Time now);
  void progress(Time now);
  void next_step(Time now);
  Time wait_for_progress(Time now);
  std::uint64_t backup_line(int backup) const {
    return backups_ + std::uint64_t(backup) * backup_lines_;
  }

  // The published code's stops have the tables and the moves of pages, at a price of their own.
  bool stops_for_tables() const { return stops_by_bytes() && !overlaps_; }

  const bool overlaps_;
  checkpoint::Protocol protocol_;
  std::uint64_t slots_, page_slots_, backups_, backup_lines_, buffers_;  // first lines
  int backup_ = 0;  // that the running or next checkpoint writes
  Step step_ = Step::kBlocks;
  std::size_t pages_done_ = 0, pages_begun_ = 0;
  Time complete_at_ = 0;
  std::uint64_t position_ = 0;
  bool full_ = false;
  Time step_began_ = 0, fill_began_ = 0;
};

}  // namespace perdure::memory
