// SPDX-License-Identifier: BSD-3-Clause
// The evaluations of several papers in one report: first a summary, a line for each clause of a paper, failures first.
#pragma once

#include <string>
#include <vector>

#include "measure/section.h"

namespace perdure::bench::reproduce {

/// The summary alone: the whole reports are as long as five.
std::string text_of(const std::vector<Evaluation>& evaluations);
/// The summary, and the evaluations whole.
std::string json_of(const std::vector<Evaluation>& evaluations);
std::string html_of(const std::vector<Evaluation>& evaluations);

}  // namespace perdure::bench::reproduce
