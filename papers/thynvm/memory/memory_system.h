// SPDX-License-Identifier: BSD-3-Clause
// What lies behind the last cache: one of the compared systems. Each decides where lines go in DRAM and
// NVM, when an epoch must end, and what its end costs; and each can be asked, given what a power cut left
// in NVM, which epoch it recovers and what memory then holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "papers/thynvm/memory/contents.h"
#include "papers/thynvm/memory/device.h"
#include "papers/thynvm/memory/model.h"

namespace perdure::memory {

/// What a memory system did. Bytes of NVM by cause, which add up to all that was written there.
struct Traffic {
  std::uint64_t cpu_lines = 0;         // written back by the last cache
  std::uint64_t cpu_to_nvm = 0;        // bytes, of those: straight into NVM
  std::uint64_t checkpoint_bytes = 0;  // working copies, tables, replaced blocks brought home
  std::uint64_t migration_bytes = 0;   // pages between the schemes
  std::uint64_t dram_bytes = 0;        // written to DRAM, whatever the cause

  std::uint64_t nvm_bytes() const { return cpu_to_nvm + checkpoint_bytes + migration_bytes; }
};

struct EpochStatistics {
  std::uint64_t epochs = 0;    // ended
  std::uint64_t full = 0;      // of those, because a table was full
  Time stopped = 0;            // the core stood still for an epoch's end
  Time waited = 0;             // and for a running checkpoint to get further
  std::uint64_t spilled = 0;   // entries beyond a table's size
  std::uint64_t replaced = 0;  // clean entries
  std::uint64_t pages_promoted = 0;
  std::vector<Time> lengths;  // of each epoch
};

/// What a power cut left in NVM, and which epoch was the newest that had been committed.
struct Cut {
  Contents left;
  std::uint64_t committed = 0;
};

/// What recovery makes of it.
struct Recovery {
  std::uint64_t epoch = 0;     // 0: the state before anything ran
  std::uint64_t position = 0;  // the core's, saved with that epoch
  std::function<Line(std::uint64_t line)> read;
};

class MemorySystem {
 public:
  virtual ~MemorySystem() = default;

  /// When the line is there. `data`, with contents: gets its bytes.
  virtual Time read(std::uint64_t line, Time now, Line* data) = 0;
  /// When the write is accepted. `flushing`: part of an epoch's end.
  virtual Time write(std::uint64_t line, Time now, const Line* data, bool flushing) = 0;

  /// Whether a table is full, so that the epoch should end as soon as the core is between two instructions.
  virtual bool is_full() const { return false; }
  /// Whether an epoch cannot end yet, because the checkpoint of the one before still runs.
  virtual bool is_busy(Time) { return false; }
  /// Ends the epoch, after the caches were flushed: saves what the core was at; when the core may go on.
  /// Requires: !is_busy().
  virtual Time end_epoch(Time now, std::uint64_t position) = 0;
  /// Waits until the epoch that ended last is safe.
  virtual Time finish(Time now) { return now; }

  std::uint64_t committed() const { return committed_; }
  std::uint64_t ended() const { return epochs_.epochs; }
  const Traffic& traffic() const { return traffic_; }
  const EpochStatistics& epochs() const { return epochs_; }
  const Device& nvm() const { return nvm_; }

  /// With contents. Power is cut now; the system itself goes on.
  Cut cut(Time now, std::mt19937_64& random) const {
    return {nvm_.after_power_cut(now, random), committed_};
  }
  /// Power is cut when NVM has accepted so many more writes; taken_cut() then has it.
  void cut_after_writes(std::uint64_t writes, std::uint64_t seed);
  bool has_taken_cut() const { return taken_.has_value(); }
  std::optional<Cut> taken_cut() { return std::exchange(taken_, std::nullopt); }
  /// Requires: this system outlives what is returned.
  virtual Recovery recover(Contents left) const = 0;

 protected:
  MemorySystem(const Model& model, bool with_contents)
      : model_(model),
        with_contents_(with_contents),
        dram_(model.dram, with_contents),
        nvm_(model.nvm, with_contents) {}

  /// For the statistics, at each epoch's end.
  void count_epoch(Time now, bool full);
  bool stops_by_bytes() const { return model_.stop_bytes_per_cycle != 0; }
  /// A line into NVM, in a stop; settle() then waits until all of them are there.
  Time save(std::uint64_t line, Time now, const Line& data);
  Time settle(Time now) { return stops_by_bytes() ? now : nvm_.drain(now); }
  Time time_of_bytes(double bytes) const { return Time(bytes / model_.stop_bytes_per_cycle); }

  const Model model_;
  const bool with_contents_;
  Device dram_, nvm_;
  Traffic traffic_;
  EpochStatistics epochs_;
  std::uint64_t committed_ = 0;

 private:
  Time epoch_began_ = 0;
  std::optional<Cut> taken_;
};

/// `with_contents`: whether bytes are kept, and power can be cut. `most_lines`: of the program's memory.
std::unique_ptr<MemorySystem> make_system(System system, const Model& model, bool with_contents,
                                          std::uint64_t most_lines);

}  // namespace perdure::memory
