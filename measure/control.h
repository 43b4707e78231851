// SPDX-License-Identifier: BSD-3-Clause
// The control measurement: a fixed piece of work, timed again and again before and after an experiment, and what other programs
// used of the CPUs in between. Where the machine was not the same all the time, or not ours, an experiment's numbers say nothing of
// the paper.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "measure/measure.h"

namespace perdure::bench {

/// By which clock an experiment measures, and so what can spoil it.
enum class MeasuredBy : unsigned char {
  kSimulatedTime,  // nothing can
  kOwnTime,        // CPU time, or wall time without what others took: a CPU that changes its pace
  kWallTime,       // others that have the CPU, too
};

class Control {
 public:
  /// The middle half of the control's CPU times may differ by so much, and its wall time be so much longer than its CPU time.
  static constexpr double kMostPace = 1.5;
  static constexpr double kMostWaiting = 1.5;
  /// Others may keep so large a part of the CPUs busy.
  static constexpr double kMostOthers = 0.25;

  /// Takes some 60 ms.
  void sample();
  /// Why the experiment between the samples says nothing; empty if it does.
  std::string unsteady(MeasuredBy clock) const;
  /// For tests: as if a sample had taken so long.
  void add(double cpu_ns, double wall_ns);
  void set_others(double part) { others_ = part; }

 private:
  /// CPU time since some point: of all programs, and of this one with its children.
  struct Used {
    double all_s = 0;
    double own_s = 0;
    std::chrono::steady_clock::time_point at;
  };
  static Used used();

  std::optional<Used> begin_;
  double others_ = 0;  // from the first sample to the last, of all CPUs
  std::vector<double> cpu_ns_;
  double all_cpu_ns_ = 0;
  double all_wall_ns_ = 0;
};

}  // namespace perdure::bench
