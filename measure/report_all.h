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
/// What a page of one evaluation holds, for a page with others: ids of its sections begin with
/// `prefix`.
std::string body_of(const Evaluation& evaluation, const std::string& prefix);

}  // namespace perdure::bench::reproduce
