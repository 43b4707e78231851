// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/generators.h"

#include <algorithm>

namespace perdure::memory {
namespace {

constexpr std::uint64_t kBlock = 64;
constexpr std::uint64_t kWord =
    32;  // the word of a block that is accessed, as in the authors' programs
constexpr std::uint64_t kBlocksOfMegabyte = (1 << 20) / kBlock;
constexpr std::uint64_t kWindow = 16 * kBlocksOfMegabyte;
constexpr std::uint64_t kShift = 2048;
constexpr std::uint64_t kRounds = 2;  // of sliding: pairs for each block of a window
constexpr std::size_t kBatchRecords = 16384;

// What one rand() reads and writes, of lines that always are in the first cache: its state and the stack.
constexpr unsigned kLoadsOfRand = 15, kStoresOfRand = 10;

struct Gaps {
  unsigned load;
  unsigned store;
};
constexpr Gaps gaps_of(Pattern pattern) {
  return pattern == Pattern::kStreaming ? Gaps{59, 2} : Gaps{59, 58};
}

}  // namespace

MicroBenchmark::MicroBenchmark(Pattern pattern, unsigned factor, std::uint64_t seed)
    : sequential_writes_(pattern == Pattern::kStreaming),
      load_gap_(gaps_of(pattern).load),
      store_gap_(gaps_of(pattern).store),
      random_(seed * 2 + 1) {  // Xorshift never leaves 0.
  const std::uint64_t f = factor;
  switch (pattern) {
    case Pattern::kRandom:
      for (std::uint64_t step = 0; step < 32 * f; ++step)
        phases_.push_back({step * kWindow, kWindow, 49'152});
      break;
    case Pattern::kStreaming: {
      const std::uint64_t blocks = 96 * f * kBlocksOfMegabyte;
      phases_.push_back({0, blocks, blocks});
      break;
    }
    case Pattern::kSliding:
      for (std::uint64_t first = 0; first < kWindow; first += kShift)
        phases_.push_back({first, kShift, kShift * kRounds});
      for (std::uint64_t step = 1; step <= 3 * f; ++step)
        phases_.push_back({step * kShift, kWindow, kWindow * kRounds});
      break;
  }
  for (const Phase& phase : phases_)
    array_bytes_ = std::max(array_bytes_, (phase.first_block + phase.blocks) * kBlock);
  batch_.reserve(kBatchRecords + 64);
}

std::uint64_t MicroBenchmark::pairs() const {
  std::uint64_t all = 0;
  for (const Phase& phase : phases_) all += phase.pairs;
  return all;
}

std::uint64_t MicroBenchmark::random_block(const Phase& phase) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return phase.first_block + ((random_ >> 32) * phase.blocks >> 32);
}

// The accesses of rand() itself, where it is called.
void MicroBenchmark::call_rand() {
  for (unsigned i = 0; i < kLoadsOfRand + kStoresOfRand; ++i) {
    const AccessKind kind = i < kLoadsOfRand ? AccessKind::kLoad : AccessKind::kStore;
    batch_.push_back(Access::of(kind, kState + i % 4 * kBlock, 3, 1));
  }
}

std::span<const Access> MicroBenchmark::next() {
  const auto word = [](std::uint64_t block) { return kArray + block * kBlock + kWord; };
  batch_.clear();
  if (!begun_) batch_.push_back(Access::of(AccessKind::kFetch, kCode, 6, 1));
  begun_ = true;
  while (phase_ < phases_.size() && batch_.size() < kBatchRecords) {
    const Phase& phase = phases_[phase_];
    if (pair_ == phase.pairs) {
      ++phase_;
      pair_ = 0;
      continue;
    }
    // Each instruction that accesses memory in rand() is one of the gap.
    constexpr unsigned kInRand = kLoadsOfRand + kStoresOfRand;
    call_rand();
    batch_.push_back(
        Access::of(AccessKind::kLoad, word(random_block(phase)), 3, load_gap_ - kInRand));
    if (sequential_writes_) {
      batch_.push_back(
          Access::of(AccessKind::kStore, word(phase.first_block + pair_), 3, store_gap_));
    } else {
      call_rand();
      batch_.push_back(
          Access::of(AccessKind::kStore, word(random_block(phase)), 3, store_gap_ - kInRand));
    }
    ++pair_;
  }
  return batch_;
}

}  // namespace perdure::memory
