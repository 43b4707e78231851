// SPDX-License-Identifier: BSD-3-Clause
// `perdure run` (docs/RUN.md), ThyNVM's checkpointing in software, measured: unmodified programs under epochs, in wall time, on
// this machine. What is judged are goals of ours; the paper has no such system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/claim.h"
#include "measure/section.h"
#include "measure/settings.h"

namespace perdure::bench::thynvm {

/// Slowdown, pauses, epochs and logs of programs: views of the same runs.
std::vector<reproduce::Section> measure_carried(const reproduce::Settings& settings);
/// Pauses under a load that is said in time.
reproduce::Section measure_steady_load(const reproduce::Settings& settings);
/// From SIGKILL back to life.
reproduce::Section measure_resume(const reproduce::Settings& settings);
/// Checkpoints of the same program by CRIU, where it runs.
reproduce::Section measure_criu(const reproduce::Settings& settings);

void judge_goal(reproduce::Section& section, std::string_view goal, const reproduce::Found& found,
                double most, const std::string& why);

}  // namespace perdure::bench::thynvm
