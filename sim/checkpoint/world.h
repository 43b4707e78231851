// SPDX-License-Identifier: BSD-3-Clause
// One state of the small memory that the prover looks at, and what can happen to it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "perdure/checkpoint/protocol.h"
#include "sim/checkpoint/prover.h"

namespace perdure::prover {

class World {
 public:
  /// `setting` must outlive all worlds made from it.
  World(const Setting& setting, Mutant mutant);

  /// What may happen next: a number for each possibility.
  int possibilities() const;
  /// Lets it happen; in words what it was. A world in which it cannot happen is left as it is, and says
  /// "".
  std::string happen(int possibility);
  /// Cuts power and recovers; what is wrong then, or nothing.
  std::string cut_and_recover();
  /// What is wrong with this state, or nothing.
  std::string violation() const;
  /// Equal for states with equal futures.
  std::vector<std::uint32_t> fingerprint() const;

 private:
  // What a place holds: block * 4 + the class of its value; 0 for a value that is nobody's any more.
  using Value = std::uint32_t;
  struct Cell {
    Value value = 0;
    bool drained = true;
  };
  // One of the two backups. Tables and header are written apart; each may be lost.
  struct Backup {
    std::uint64_t epoch = 0;  // the header's; 0: none
    std::vector<checkpoint::BlockAt> blocks;
    std::vector<checkpoint::PageAt> pages;
    std::uint64_t blocks_epoch = 0, pages_epoch = 0;  // which epoch's tables these are
    bool blocks_drained = true, pages_drained = true;
  };
  enum class Step : std::uint8_t {
    kBlock,
    kBlockTable,
    kUnfreeze,
    kPage,
    kPageTable,
    kDrain,
    kComplete,
    kCommit
  };
  struct Todo {
    Step step;
    std::uint32_t copy = 0;
  };

  Cell& cell(checkpoint::Place place, std::uint32_t block);
  const Cell& cell(checkpoint::Place place, std::uint32_t block) const;
  void fill();
  void put(checkpoint::Place place, std::uint32_t block, Value value);
  void copy(const checkpoint::Copy& copy);
  bool may_spill() const;
  std::string store(std::uint32_t block, bool flushing);
  void end_epoch();
  void take_step();
  int newest_backup() const;
  void forget_unread_places();
  void forget_old_values();

  const Setting* setting_;
  Mutant mutant_;
  checkpoint::Protocol protocol_;
  std::vector<Cell> home_, slots_, page_slots_, buffers_, page_cache_;
  // For each block the class of its value now, at the end of the newest ended epoch, of the newest
  // complete one: 1 to 3.
  std::vector<std::array<std::uint8_t, 3>> golden_;
  std::array<Backup, 2> backups_;
  std::vector<Value> filling_;  // read, and not yet written into their page: fill_under_way()
  std::vector<Todo> todo_;      // of the running checkpoint
  std::size_t done_ = 0;
  int target_ = 0;  // the backup it writes
};

}  // namespace perdure::prover
