// SPDX-License-Identifier: BSD-3-Clause
// What a heap of the evaluation of NV-heaps is set up with: which of the paper's layers (§5.4), on which memory.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "papers/pool.h"
#include "perdure/domain/counted.h"
#include "perdure/engine/engine.h"

namespace perdure::bench::nvheaps {

enum class Layer : std::uint8_t {
  kBase,  // raw structures in a mapped file, or check-pointed
  kSafe,  // counted references and checked pointers: object_heap::unprotected
  kTx,    // and transactions of one thread, without isolation (perdure/engine/biased_locking.h)
  kCTx,   // and isolation: another thread is in a transaction all the time, so that nobody is alone
  kNoDur,  // the same transactions, not durable: the engine `volatile`
};

/// §4.1. A line on its way to memory takes `write_ns`, one after the other; 0: what the machine's own DRAM takes.
struct Memory {
  std::string_view name;
  double write_ns;
  double read_ns;
};
inline constexpr Memory kDram{"DRAM", 0, 25};
inline constexpr Memory kSttm{"STTM", 95, 29};
inline constexpr Memory kPcm{"PCM", 215, 67};
inline constexpr std::array<Memory, 3> kMemories = {kDram, kSttm, kPcm};

struct HeapSetting {
  std::string dir;
  Layer layer = Layer::kCTx;
  papers::EngineKind engine = papers::EngineKind::kMnemosyne;  // of TX and C-TX
  Memory memory = kDram;
  bool count = false;
  /// BASE and SAFE: how often the heap is saved (checkpointed_memory.h), by CPU time; zero: after each operation.
  std::optional<std::chrono::nanoseconds> checkpoints{};
  /// Of memory that BASE maps, and of a check-pointed heap, which does not grow.
  std::uint64_t bytes = std::uint64_t{1} << 30;
};

}  // namespace perdure::bench::nvheaps
