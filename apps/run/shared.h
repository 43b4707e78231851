// SPDX-License-Identifier: BSD-3-Clause
// What the runtime, in the program, and the supervisor share: one memory file of these, another with the
// image (layout.h) as the last epoch that ended left it, the shadow.
//
// One epoch, seen from here:
//   1. the runtime waits until `committed` is `staged`
//   2. the program's threads stand still; what changed is copied to the shadow, and `changes` says where
//   3. `epoch` is one more; the threads go on; `staged` is one more
//   4. the supervisor commits the changes, from the shadow, which nobody touches meanwhile
//   5. `committed` is `staged`
// The program may be killed anywhere: until 3 the epoch has not been; after it the supervisor commits it.
// What the runtime had copied to the shadow by then is of no use to anybody.
#pragma once

#include <atomic>
#include <cstdint>

namespace perdure::run {

/// As checkpoint::Change.
struct SlotChange {
  std::uint32_t slot;
  std::uint32_t zeros;
  std::uint64_t mask;
};

// How much of what was written is recorded.
enum class Recording : std::uint32_t {
  kAuto = 0,     // blocks or pages, as ThyNVM decides
  kPages = 1,    // whole pages
  kNothing = 2,  // what watching alone costs; nothing can be resumed
};

inline constexpr int kOutputs = 2;  // standard output and error, or one of both
// The memory files; where the runtime's own messages go; the pipes of held output.
inline constexpr int kGivenShared = 0, kGivenShadow = 1, kGivenErrors = 2, kGivenOutputs = 3;
inline constexpr int kGiven = kGivenOutputs + kOutputs;
inline constexpr std::uint32_t kMostNameless = 256;
inline constexpr std::uint32_t kMostChanges = 1 << 24;
inline constexpr std::uint32_t kMostPauses = 1 << 14;

struct Shared {
  // Set before the program starts.
  std::uint64_t capacity_slots;
  std::uint64_t period_ns;          // from epoch to epoch; 0: as the budget allows
  std::uint64_t budget_millionths;  // of the program's time
  Recording recording;
  std::uint32_t full_only;  // 1: as on kernels that cannot track writes
  char directory[4096];

  // Futexes. Every one only grows; a value is what was counted modulo 2^32.
  std::atomic<std::uint32_t> staged, committed;
  std::atomic<std::uint32_t>
      wanted;  // epochs that the supervisor asked for: one more is one at once
  std::atomic<std::uint32_t> refused;  // epochs that could not end

  std::atomic<std::uint64_t> epoch;     // that the program is in: 1 is the first
  std::atomic<std::uint32_t> poisoned;  // 1: the image cannot be written any more
  std::atomic<std::uint32_t>
      execs;  // that the program has tried: within a second it is another, or goes on
  std::atomic<std::uint32_t> stopping;  // 1: threads are being stopped, or are
  std::atomic<std::uint32_t> live;      // 1: the runtime has taken over, after exec or a resume
  std::atomic<std::uint64_t>
      supervisor_cpu_ns;  // that the supervisor has worked, up to the last commit

  // Of the program's epochs since the supervisor started; written by the runtime.
  std::uint64_t ended, late, dirty_pages, whole_pages, blocks, fault_ns, pause_total_ns;
  std::uint64_t stop_cpu_ns;  // that the runtime worked in the pauses
  std::uint64_t tracked;      // 1: the kernel tells what was written
  std::uint64_t pauses;       // of which the last are in pause_ns, a ring
  std::uint32_t pause_ns[kMostPauses];

  // Descriptors that the supervisor gives the program when it begins, and the runtime takes away; -1: none.
  std::int32_t given[kGiven];

  // Held output (held_output.h), counted from the program's beginning. `drained` is what the supervisor has read
  // from the pipe; `draining` is odd while it reads.
  std::atomic<std::uint64_t> drained[kOutputs];
  std::atomic<std::uint32_t> draining[kOutputs];
  std::uint64_t output_end[kOutputs];  // what the program had written when the staged epoch ended

  // Files without a name that were open when the staged epoch ended.
  std::uint32_t nameless_count;
  struct {
    std::uint64_t device, inode;
  } nameless[kMostNameless];

  std::uint32_t memory_slots;  // ImageHead has it, too
  std::uint32_t change_count;
  SlotChange changes[kMostChanges];
};

}  // namespace perdure::run
