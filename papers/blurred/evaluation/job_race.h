// SPDX-License-Identifier: BSD-3-Clause
// Races the systems of Blurred Persistence's evaluation on one of its workloads.
#pragma once

#include <span>
#include <vector>

#include "measure/measure.h"
#include "papers/blurred/evaluation/paper_jobs.h"
#include "papers/pool.h"

namespace perdure::bench::reproduce {

/// What the paper gives a name: two policies.
struct PaperSystem {
  std::string_view name;
  papers::EngineKind engine;
  Truncation truncation;
  bool in_place = false;  // large new objects
  /// So many bytes of a ring for one of the log that the paper has: the first quarter of a ring in which transactions execute
  /// is a log of torn bits.
  double ring_per_log = 1;
};
inline constexpr PaperSystem kBaseSystem{"BASE", papers::EngineKind::kBase,
                                         Truncation::kEachCommit};
/// Not in the paper: BASE and the first half of what makes it MNE, a log that is written past the cache. Torn bits are the other.
inline constexpr PaperSystem kBaseStream{"BASE+stream", papers::EngineKind::kBaseStream,
                                         Truncation::kEachCommit};
inline constexpr PaperSystem kMne{"MNE", papers::EngineKind::kMnemosyne, Truncation::kEachCommit};
inline constexpr PaperSystem kMneAsync{"MNE-ASYNC", papers::EngineKind::kMnemosyne,
                                       Truncation::kBackground};
inline constexpr PaperSystem kXil{"BP(XIL)", papers::EngineKind::kBlurred, Truncation::kEachCommit,
                                  false, 4.0 / 3};
inline constexpr PaperSystem kVcbp{"BP(VCBP)", papers::EngineKind::kMnemosyne,
                                   Truncation::kWhenFull};
inline constexpr PaperSystem kBppm{"BPPM", papers::EngineKind::kBlurred, Truncation::kWhenFull,
                                   false, 4.0 / 3};
/// Its buffered mode has the quarter to itself, which is to be no less than BP(VCBP)'s log.
inline constexpr PaperSystem kBppmA{"BPPM-A", papers::EngineKind::kAdaptive, Truncation::kWhenFull,
                                    false, 4};
inline constexpr PaperSystem kNp{"NP", papers::EngineKind::kVolatile, Truncation::kAuto};
/// Not in the paper: what a pool does if nothing is asked for.
inline constexpr PaperSystem kOurDefault{"our default", papers::EngineKind::kMnemosyne,
                                         Truncation::kAuto, true};

struct JobResult {
  Spread transactions_per_s;  // of all threads
  double abort_part = 0;
  double warm_up_ms = 0;  // of the first 10,000 transactions, where they were asked for
};

/// What `system` runs with: `options`, but for its engine and its ring.
JobOptions options_of(const PaperSystem& system, const JobOptions& options);

/// For each run, by turns: makes and fills a pool for each system, warms it up, measures it, and checks what it holds. Time is
/// that of the wall clock, without what other jobs of the machine took while every thread has a CPU to itself.
/// `warm_up`: transactions before the measurement, timed.
/// Errors: throws Exception kCorrupt when a structure is not what it has to be; those of Pool::create.
std::vector<JobResult> race_jobs(std::span<const PaperSystem> systems, Work work,
                                 const JobOptions& options, const RaceRules& rules,
                                 std::uint64_t warm_up = 300);

}  // namespace perdure::bench::reproduce
