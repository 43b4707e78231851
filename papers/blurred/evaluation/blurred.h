// SPDX-License-Identifier: BSD-3-Clause
// What the sections of Blurred Persistence's evaluation share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measure/settings.h"
#include "papers/blurred/evaluation/job_race.h"
#include "papers/blurred/evaluation/paper_blurred.h"

namespace perdure::bench::reproduce {

JobOptions job_options(const Settings& settings);

/// Without values yet. All but Table II's figures are in pictures, and said to be missing.
Section begin_section(std::string id, std::string title, std::string x_name, std::string method);

/// Races the systems at each place of the section's x and adds a series for each: transactions a second, times
/// `scale(place)` in `unit`. `prefix` stands before each name.
void race_along(Section& section, const std::vector<PaperSystem>& systems, Work work,
                const Settings& settings, const std::string& prefix, const std::string& unit,
                const std::function<void(std::size_t place, JobOptions&)>& set,
                const std::function<double(std::size_t place)>& scale = nullptr,
                std::uint64_t warm_up = 300);

/// What BPPM gains over BASE in a section that has both and NP, in percent: the overhead that it removes, which is the paper's
/// measure, and the throughput that is more.
void add_effects(Section& section, const std::string& prefix);

}  // namespace perdure::bench::reproduce
