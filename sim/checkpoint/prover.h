// SPDX-License-Identifier: BSD-3-Clause
// Proves the checkpointing protocol (perdure/checkpoint/protocol.h) by looking at every state that a small
// memory can get into: every order of stores, ends of epochs, steps of checkpoints, power cuts and
// recoveries. What is kept of a memory is for each place which block's value it holds, and whether that
// value is the one of now, of the newest ended or of the newest committed epoch; older ones are all the
// same, wrong. That makes the number of states finite, so that the search ends by itself.
//
// A power cut takes DRAM, and everything in NVM that was written since the last drain of the write queue
// becomes wrong: worse than any order, any loss and any tearing of those writes.
//
// In every state: each block's visible version is the one stored last; the protocol's own invariants
// hold. After a cut in any state: recovery finds the newest committed epoch, whole; a second recovery,
// after a cut in the first, finds the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perdure/checkpoint/protocol.h"

namespace perdure::prover {

/// Something left out or done in the wrong place, which must be noticed: a rule of the protocol, or a
/// step of who drives it.
enum class Mutant : std::uint8_t {
  kNone,
  // The two steps that were published and are not safe.
  kExchangeWhileCheckpointing,
  kReuseGivenUpSlots,
  // Rules of the protocol left out.
  kStoreInPlaceWhileCheckpointing,
  kStoreToFrozenPages,
  kWritePagesBackInPlace,
  kForgetBlocksOfNewPages,
  kForgetLeavingPages,
  kKeepLoans,
  kStoreInLastSlot,
  kLookInPagesAtOnce,
  kKeepFillsAcrossEpochs,
  kSaveIncompletePages,
  // Steps of a checkpoint and of a recovery left out or swapped.
  kSkipBlockCopies,
  kSkipBlockTable,
  kSkipPageCopies,
  kSkipPageTable,
  kSkipDrain,
  kCompleteBeforeDrain,
  kCommitBeforeComplete,
  kSaveOverNewestBackup,
  kUnfreezeBeforeCopy,
  kSkipMerges,
  kSkipFills,
  kSkipReplacementCopies,
  kRecoverOldest,
  kSkipFillOnRecovery,
  kFillOverStores,
};
inline constexpr int kMutants = int(Mutant::kFillOverStores) + 1;
const char* mutant_name(Mutant mutant);
/// What goes wrong without it, in a sentence.
const char* mutant_story(Mutant mutant);

struct Setting {
  std::string name;
  checkpoint::Geometry geometry;
  std::uint32_t blocks = 2;  // of the whole memory, which is a whole number of pages
};
/// The memories that are searched, each to its end.
const std::vector<Setting>& settings();

struct Proof {
  std::string setting;
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint64_t cuts = 0;  // states in which power was cut and memory recovered and compared
  unsigned depth = 0;      // of the state that needs the most steps
  bool complete = false;   // every reachable state was looked at
  std::string violation;   // the first one found; empty: none
  std::vector<std::string> story;  // the shortest way to it
};

/// Searches until the end, a violation, or `most_states`.
Proof prove(const Setting& setting, Mutant mutant, std::uint64_t most_states);

}  // namespace perdure::prover
