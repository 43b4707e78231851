// WrapJob: what SoftWrAP's evaluation runs (§V-C): wraps of random stores into a large array, which arrive at a rate.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure.h"
#include "bench/system.h"
#include "perdure/pool.h"

namespace perdure::bench::reproduce {

/// What the paper compares, by the name that it has there; and our default.
struct WrapSystem {
  std::string_view name;
  EngineKind engine;
};
inline constexpr WrapSystem kNonAtomic{"Non-Atomic", EngineKind::kNonatomic};
inline constexpr WrapSystem kUndoLog{"Undo Log", EngineKind::kUndo};
inline constexpr WrapSystem kSoftWrap{"SoftWrAP", EngineKind::kSoftwrap};
inline constexpr WrapSystem kDefault{"our default", EngineKind::kMnemosyne};

/// The paper's emulated memory: a write-combining buffer of 8 lines, T_w a line, T_s for what a wait itself takes.
LatencyModel write_buffer(double line_ns, double wait_ns);

struct WrapOptions {
  std::string dir;
  EngineKind engine = EngineKind::kSoftwrap;
  double line_ns = 1000;  // T_w
  double wait_ns = 220;   // T_s
  unsigned stores = 10;   // in a wrap
  unsigned threads = 1;   // each with an array of its own
  std::uint64_t alias_words = 8192;
  unsigned reuse_percent = 0;  // of the stores that go to a word of the last wraps
  std::uint64_t array_words = std::uint64_t{1} << 22;
  std::uint64_t seed = 1;
  bool count = false;
};

class WrapJob {
 public:
  /// Errors: those of Pool::create, thrown.
  explicit WrapJob(const WrapOptions& options);
  ~WrapJob();
  WrapJob(const WrapJob&) = delete;
  WrapJob& operator=(const WrapJob&) = delete;

  struct Done {
    std::uint64_t wraps = 0;
    double response_us = 0;  // mean, from a wrap's arrival to its end
    double per_s = 0;
  };
  /// Each thread's wraps arrive `per_s` times a second (0: when the one before has ended), for so long; at least one does.
  Done run(double seconds, double per_s);
  /// Requires: WrapOptions::count.
  DomainCounts counts() const;

 private:
  struct Thread;
  void run_thread(Thread& thread, double seconds, double per_s);
  WrapOptions options_;
  ScratchFile file_;
  Pool pool_;
  std::vector<std::unique_ptr<Thread>> threads_;
  Team team_;
};

struct WrapResult {
  Spread response_us;
  Spread per_s;
};
/// Each system by turns, in a pool of its own each time, warmed up.
std::vector<WrapResult> race_wraps(std::span<const WrapSystem> systems, const WrapOptions& options,
                                   double arrivals_per_s, const RaceRules& rules);

}  // namespace perdure::bench::reproduce
