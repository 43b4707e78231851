// SPDX-License-Identifier: BSD-3-Clause
// WrapJob: what SoftWrAP's evaluation runs (§V-C): wraps of random stores into a large array, which arrive at a rate.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/system.h"
#include "measure/measure.h"
#include "papers/pool.h"
#include "perdure/wraps.h"

namespace perdure::bench::reproduce {

/// What the paper compares, by the name that it has there, beside ours. SoftWrAP is the paper's face, which leaves isolation to
/// the caller; isolated it is a transaction, as everything else here is.
struct WrapSystem {
  std::string_view name;
  papers::EngineKind engine;
  bool by_wraps = false;  // through perdure/wraps.h, else as transactions
};
inline constexpr WrapSystem kNonAtomic{"Non-Atomic", papers::EngineKind::kNonatomic};
inline constexpr WrapSystem kUndoLog{"Undo Log", papers::EngineKind::kUndo};
inline constexpr WrapSystem kSoftWrap{"SoftWrAP", papers::EngineKind::kSoftwrapTables, true};
inline constexpr WrapSystem kIsolated{"SoftWrAP, isolated", papers::EngineKind::kSoftwrapTables};
inline constexpr WrapSystem kPages{"private pages", papers::EngineKind::kSoftwrap, true};
inline constexpr WrapSystem kPagesIsolated{"private pages, isolated",
                                           papers::EngineKind::kSoftwrap};
inline constexpr WrapSystem kDefault{"our default", papers::EngineKind::kMnemosyne};

struct WrapLoad {
  std::string dir;
  papers::EngineKind engine = papers::EngineKind::kSoftwrapTables;
  bool by_wraps = false;
  double line_ns = 1000;  // T_w
  double wait_ns = 220;   // T_s
  unsigned stores = 10;   // in a wrap
  unsigned threads = 1;   // each with an array of its own
  std::uint64_t alias_words = 8192;
  std::uint64_t log_bytes = std::uint64_t{1} << 20;  // of each thread
  std::uint64_t least_wraps = 0;  // of each run and thread, however long it takes
  unsigned reuse_percent = 0;     // of the stores that go to a word of the last wraps
  std::uint64_t array_words = std::uint64_t{1} << 22;
  std::uint64_t seed = 1;
  bool count = false;
  bool trace = false;
};

class WrapJob {
 public:
  /// Errors: those of Pool::create, thrown.
  explicit WrapJob(const WrapLoad& options);
  ~WrapJob();
  WrapJob(const WrapJob&) = delete;
  WrapJob& operator=(const WrapJob&) = delete;

  struct Answer {
    double at_us;  // when the wrap arrived, since the run began
    double response_us;
  };
  struct Done {
    std::uint64_t wraps = 0;
    double response_us = 0;  // mean, from a wrap's arrival to its end
    double per_s = 0;
    std::vector<Answer> trace;  // WrapLoad::trace, of the first thread
  };
  /// Each thread's wraps arrive `per_s` times a second (0: when the one before has ended), for so long; at least one does.
  Done run(double seconds, double per_s);
  /// Requires: WrapLoad::count.
  DomainCounts counts() const;

 private:
  struct Thread;
  void warm_up(std::uint64_t* array);
  void run_thread(Thread& thread, double seconds, double per_s);
  WrapLoad options_;
  ScratchFile file_;
  papers::LabPool pool_;
  Wraps wraps_;
  std::vector<std::unique_ptr<Thread>> threads_;
  Team team_;
};

struct WrapResult {
  Spread response_us;
  Spread per_s;
};
/// What a wrap asks of memory: fences, and lines of 64 bytes.
struct WrapCounts {
  double fences;
  double lines;
};
/// Of `system`, as fast as its wraps go, retirement included.
WrapCounts counts_of(const WrapSystem& system, WrapLoad options, double seconds);

/// Each system by turns, in a pool of its own each time, warmed up.
std::vector<WrapResult> race_wraps(std::span<const WrapSystem> systems, const WrapLoad& options,
                                   double arrivals_per_s, const RaceRules& rules);

}  // namespace perdure::bench::reproduce
