// SPDX-License-Identifier: BSD-3-Clause
// The simulated computer: an in-order core with three levels of caches on one of the memory systems.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "papers/thynvm/memory/access.h"
#include "papers/thynvm/memory/cache.h"
#include "papers/thynvm/memory/memory_system.h"
#include "papers/thynvm/memory/model.h"

namespace perdure::memory {

/// Where the program's pages lie in the simulated memory: in the order in which they are first touched.
class FrameTable {
 public:
  std::uint64_t frame_of(std::uint64_t page) {
    Entry& entry = recent_[page % kRecent];
    if (entry.page == page) [[likely]]
      return entry.frame;
    const auto [found, added] = frames_.try_emplace(page, frames_.size());
    entry = {page, found->second};
    return found->second;
  }
  std::uint64_t frames() const { return frames_.size(); }

 private:
  static constexpr std::size_t kRecent = 1024;
  struct Entry {
    std::uint64_t page = ~std::uint64_t{0};
    std::uint64_t frame = 0;
  };
  std::vector<Entry> recent_ = std::vector<Entry>(kRecent);
  std::unordered_map<std::uint64_t, std::uint64_t> frames_;
};

/// Counted since the begin mark, or since the start.
struct Results {
  std::uint64_t instructions = 0, loads = 0, stores = 0;
  std::uint64_t l1_misses = 0, l2_misses = 0, l3_misses = 0;
  std::uint64_t operations = 0;  // marked by the program
  Time time = 0;
  Time stood = 0;                      // of that, without the last epoch's end: stops and waits
  std::uint64_t ended_by_program = 0;  // end-of-epoch instructions
  std::uint64_t footprint_bytes = 0;
  std::uint64_t nvm_bytes = 0;  // accepted by the device, whatever the cause
  Traffic traffic;
  EpochStatistics epochs;

  double seconds() const { return seconds_of(time); }
  double ipc() const { return double(instructions) / double(time); }
  /// Part of the time in which the core stood still for crash consistency.
  double stopped_share() const { return double(stood) / double(time); }
};

class Machine {
 public:
  static constexpr std::uint64_t kMostMemory = std::uint64_t{4} << 30;

  /// `with_contents`: every store writes bytes that no other store writes, every line read from memory is
  /// compared with what the program stored there, and power can be cut.
  Machine(System system, const Model& model, bool with_contents);

  void run(std::span<const Access> accesses);
  /// The end: the last epoch ends, and its checkpoint. What that takes does not count as the program's time.
  void finish();

  Results results() const;
  System system() const { return system_; }
  Time now() const { return now_; }
  /// Records that were run.
  std::uint64_t position() const { return position_; }

  /// With contents. Cuts power now, recovers, and compares all memory with what it was at the end of the
  /// epoch that comes back, which must be the newest that was safe. Empty, or what is wrong. The machine
  /// itself goes on as if nothing had been.
  std::string cut_power(std::mt19937_64& random);
  /// The same, in the middle of whatever makes NVM accept that write; cut_taken() then says how it went.
  void cut_power_after_writes(std::uint64_t writes, std::uint64_t seed);
  std::optional<std::string> cut_taken();
  /// Cuts that fell into a running checkpoint.
  std::uint64_t cuts_of_unfinished_checkpoints() const { return cuts_of_unfinished_; }
  /// Cuts after which an epoch came back, not the state before anything ran.
  std::uint64_t cuts_of_epochs() const { return cuts_of_epochs_; }
  /// Where the core would have gone on after the last cut.
  std::uint64_t recovered_position() const { return recovered_position_; }
  /// With contents: the first line that was read and was not what was stored last, or that was not durable
  /// after an end-of-epoch instruction; empty: none.
  const std::string& wrong() const { return wrong_; }

 private:
  // What memory was given in an epoch that has ended but is not known to be safe.
  struct Ended {
    std::uint64_t epoch;
    std::uint64_t position;
    std::unordered_map<std::uint64_t, Line> given;
  };

  void run_without_accesses(std::uint64_t instructions);
  void access(Cache& first, std::uint64_t virtual_line, bool write);
  void miss(Cache& first, std::uint64_t virtual_line, bool write);
  void to_l2(std::uint64_t line);
  void to_l3(std::uint64_t line);
  void to_memory(std::uint64_t line);
  void store_bytes(std::uint64_t address, unsigned bytes);
  void note_mark(std::uint64_t address);
  void flush(Cache& cache);
  void flush_dirtied_caches();
  void end_epoch();
  void end_epoch_for_program();
  void note_promise();
  std::string judge(Cut cut, std::uint64_t promised);
  void forget_oldest();
  std::uint64_t physical(std::uint64_t virtual_line);

  System system_;
  Model model_;
  bool with_contents_;
  Cache l1i_, l1d_, l2_, l3_;
  FrameTable frames_;
  std::unique_ptr<MemorySystem> memory_;
  Time now_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t instructions_ = 0, loads_ = 0, stores_ = 0;
  std::uint64_t l1_misses_ = 0, l2_misses_ = 0, l3_misses_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t ended_by_program_ = 0;
  Time flush_time_ = 0;
  Time instruction_time_ = 0;  // end-of-epoch instructions: what is counted nowhere else
  // When finish() was called, and how long the core had stood still by then; 0: not yet.
  Time run_time_ = 0, run_stood_ = 0;
  bool flush_due_ = false;
  bool flushing_ = false;  // all caches, at an epoch's end
  Time epoch_due_ = ~Time{0};

  // With contents, all by physical line.
  Contents program_;  // what the program stored: what loads must see
  Contents safe_;     // what memory had been given when the newest safe epoch ended
  std::uint64_t safe_epoch_ = 0, safe_position_ = 0;
  std::vector<Ended> ended_;                       // epochs after that one
  std::unordered_map<std::uint64_t, Line> given_;  // in the epoch that runs
  std::unordered_set<std::uint64_t> stored_;       // lines, in the epoch that runs
  std::unordered_set<std::uint64_t> unpromised_;   // lines, since the last end-of-epoch instruction
  // The newest end-of-epoch instruction that had been executed, now and when the set cut was taken: the core
  // goes on behind it.
  std::uint64_t promised_ = 0, promised_at_set_cut_ = 0;
  std::uint64_t recovered_position_ = 0;
  std::string wrong_;  // the first line that was read and was not what was stored
  std::uint64_t cuts_of_unfinished_ = 0, cuts_of_epochs_ = 0;
  bool cut_is_set_ = false;
  Results before_mark_;
};

}  // namespace perdure::memory
