// SPDX-License-Identifier: BSD-3-Clause
// What is simulated: the paper's machine (Table 2), in two readings. Every constant is in this file; none
// is chosen for a figure.
//
//   kPaperCode  what the authors' published code does: gem5's TimingSimple core (each instruction waits for
//               its fetch, each access for its answer), no timer, epochs that end when a table is full, no
//               flush of caches at an epoch's end but of a cache that has dirtied a table's worth of
//               blocks, stops that are a number of bytes at 1.6 GB/s, posted writes that nobody waits for, also
//               not in their bank, copies of checkpoints that take 40 ns in a bank and delay nobody, 32 pages
//               more for shadow paging
//   kStrict     what the paper's text says: one instruction a cycle, epochs of at most 10 ms, caches
//               flushed at each end, row misses by the state of the row, a write queue of 64 blocks with
//               watermarks, checkpoint writes only when nothing else wants the device
#pragma once

#include <cstdint>
#include <string_view>

namespace perdure::memory {

/// Cycles of 3 GHz. All of Table 2 is a whole number of them: 1 ns is 3.
using Time = std::uint64_t;
inline constexpr Time kCyclesPerNs = 3;
constexpr double seconds_of(Time time) { return double(time) / 3e9; }
constexpr Time cycles_of_us(double us) { return Time(us * 1000 * kCyclesPerNs); }

inline constexpr std::uint64_t kLineBytes = 64;
inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kLinesPerPage = kPageBytes / kLineBytes;

enum class Reading : std::uint8_t { kPaperCode, kStrict };
constexpr std::string_view reading_name(Reading reading) {
  return reading == Reading::kStrict ? "strict" : "paper-code";
}

enum class System : std::uint8_t {
  kDram,
  kNvm,
  kJournal,
  kShadow,
  kThyNvm,
  kThyNvmBlocks,
  kThyNvmPages,
  kThyNvmOverlap,  // ours, not the paper's: nothing but the flush of the caches stops the core
};
inline constexpr System kSystems[] = {
    System::kDram,   System::kNvm,          System::kJournal,     System::kShadow,
    System::kThyNvm, System::kThyNvmBlocks, System::kThyNvmPages, System::kThyNvmOverlap};
constexpr std::string_view system_name(System system) {
  switch (system) {
    case System::kDram: return "dram";
    case System::kNvm: return "nvm";
    case System::kJournal: return "journal";
    case System::kShadow: return "shadow";
    case System::kThyNvm: return "thynvm";
    case System::kThyNvmBlocks: return "thynvm-blocks";
    case System::kThyNvmPages: return "thynvm-pages";
    case System::kThyNvmOverlap: return "thynvm-overlap";
  }
  return "unknown";
}

struct CacheShape {
  std::uint32_t sets, ways;
  Time latency;  // from the core to data found here
};

/// Which bits of an address choose the bank. Rows are 8 KiB, banks 16.
enum class BankMapping : std::uint8_t {
  kRowsInTurn,   // row | rank | bank | column: the bits above the row's bytes
  kLinesInTurn,  // row | column | rank | bank: the bits above the line's bytes
  kHashed,       // as the first, and the row's low bits are folded in
};

struct DeviceTiming {
  Time row_hit = 40 * kCyclesPerNs;
  Time clean_miss = 80 * kCyclesPerNs;
  Time dirty_miss = 80 * kCyclesPerNs;
  Time issue = 5 * kCyclesPerNs;  // 64 bytes at DDR3-1600's 12.8 GB/s
  // Whether a row miss is dirty because the open row was written to (else: because it is a write).
  bool miss_by_row_state = true;
  // Whether an access waits for what its bank is doing (else: for the channel alone).
  bool waits_for_bank = true;
  BankMapping mapping = BankMapping::kRowsInTurn;
  // Background transfers take this long in a bank of their own and disturb nobody (0: they take the banks
  // when these are idle).
  Time background_apart = 0;
  // Posted writes wait here (0: they go to their bank at once); drained above `high` down to `low`.
  std::uint32_t queue = 0, high = 0, low = 0;
};

struct Model {
  Reading reading = Reading::kPaperCode;
  // A cache of 64-byte lines, LRU.
  CacheShape l1 = {64, 8, 4}, l2 = {512, 8, 12}, l3 = {2048, 16, 28};
  Time cycles_per_instruction = 1;
  bool wait_for_l1 = false;  // whether a hit in the first cache costs its latency as well
  DeviceTiming dram, nvm;
  Time lookup = 3 * kCyclesPerNs;  // of the tables, by each access of memory

  std::uint32_t block_entries = 2048, page_entries = 4096;
  std::uint32_t to_pages = 22, to_blocks = 16;
  std::uint32_t shadow_buffers = 4096;  // pages of DRAM of shadow paging
  Time epoch = 0;                       // its longest; 0: until a table is full
  bool flush_at_epoch_end = false;      // caches, into memory
  std::uint32_t flush_after_dirtied =
      0;  // so many blocks of one cache: that cache, into the next; 0: never
  // Stops of the published code: a number of bytes at this rate. 0: what the devices take.
  double stop_bytes_per_cycle = 0;

  static Model of(Reading reading) {
    Model model;
    model.reading = reading;
    model.nvm.clean_miss = 128 * kCyclesPerNs;
    model.nvm.dirty_miss = 368 * kCyclesPerNs;
    if (reading == Reading::kPaperCode) {
      model.cycles_per_instruction = model.l1.latency;
      model.wait_for_l1 = true;
      model.dram.miss_by_row_state = model.nvm.miss_by_row_state = false;
      model.dram.waits_for_bank = model.nvm.waits_for_bank = false;
      model.flush_after_dirtied = model.block_entries;
      model.shadow_buffers = 4128;
      model.dram.background_apart = model.nvm.background_apart = 40 * kCyclesPerNs;
      model.stop_bytes_per_cycle = 64.0 / (40 * kCyclesPerNs);
    } else {
      for (DeviceTiming* device : {&model.dram, &model.nvm}) {
        device->queue = 64;
        device->high = 48;
        device->low = 16;
      }
      model.epoch = cycles_of_us(10'000);
      model.flush_at_epoch_end = true;
    }
    return model;
  }
};

}  // namespace perdure::memory
