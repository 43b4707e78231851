// SPDX-License-Identifier: BSD-3-Clause
// How the benchmark measures: CPU time of batches, contestants by turns, quartiles.
//
// CPU time, because other jobs on the machine then cost a little cache and not the whole figure; by
// turns (A B C A B C …), because a drift of the machine then meets every contestant; quartiles,
// because a mean believes outliers.
#pragma once

#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace perdure::bench {

struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};
/// Requires: at least one value.
Quartiles quartiles(std::vector<double> values);

/// The median of the runs, and what was seen at either end.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};
/// Requires: at least one run.
Spread spread_of(std::vector<double> runs);
/// The ratio of the medians, and of the extremes that lie farthest apart.
Spread ratio_of(const Spread& above, const Spread& below);

/// CPU time of the calling thread.
double thread_cpu_ns();

/// Time for which the calling thread could have run but others had the CPU, since it began: what a
/// busy machine adds to its wall time. Waiting for a lock or for a device is none of it. 0 where the
/// kernel does not tell (/proc/thread-self/schedstat).
double thread_delay_ns();

/// A fixed set of threads that run the same function together.
class Team {
 public:
  /// `pin`: each to a CPU of its own, while there are enough of them. Not for threads that wait for
  /// a device: behind a job that hogs its CPU, a pinned thread would wait for the scheduler's tick.
  explicit Team(unsigned threads, bool pin = true);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  struct Spent {
    double cpu_ns = 0;   // of all threads together
    double wall_ns = 0;  // from the first thread's begin to the last one's end
  };
  /// Runs `work(thread)` once on each thread. An exception from any of them is rethrown here.
  Spent run(const std::function<void(unsigned)>& work);
  unsigned threads() const { return static_cast<unsigned>(members_.size()); }
  bool pinned() const { return pinned_; }

 private:
  void serve(unsigned index);
  std::barrier<> start_;
  std::barrier<> finish_;
  const std::function<void(unsigned)>* work_ = nullptr;  // null: the team is dismissed
  struct Stay {                                          // of one thread in `work`
    std::chrono::steady_clock::time_point begin;
    std::chrono::steady_clock::time_point end;
    double cpu_ns = 0;
  };
  std::vector<Stay> stays_;
  std::vector<std::exception_ptr> failures_;
  bool pinned_ = false;
  std::vector<std::jthread> members_;
};

/// One of those that are compared on a row.
struct Contestant {
  /// Not timed, before each batch; may be empty.
  std::function<void(std::uint64_t operations, unsigned thread)> prepare;
  /// Timed.
  std::function<void(std::uint64_t operations, unsigned thread)> run;
  std::uint64_t max_operations = std::uint64_t{1} << 40;  // in one batch
};

struct RaceRules {
  unsigned repetitions = 7;
  double seconds = 0.05;  // of one batch
};

struct Timing {
  Quartiles cpu_ns;   // per operation
  Quartiles wall_ns;  // per operation of the whole team: wall time / operations of all threads
  double fastest_cpu_ns = 0;  // of all repetitions
  double slowest_cpu_ns = 0;
  double fastest_wall_ns = 0;
  double slowest_wall_ns = 0;
  std::uint64_t operations = 0;  // in one batch of one thread
};

/// Calibrates each contestant's batch, which also warms it up, then lets them run by turns.
std::vector<Timing> race(Team& team, const std::vector<Contestant>& contestants,
                         const RaceRules& rules);

}  // namespace perdure::bench
