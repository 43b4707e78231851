// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/scenarios.h"

#include <algorithm>
#include <iterator>

#include "perdure/base/check.h"

namespace perdure::crash {

std::vector<Scenario> pool_scenarios() {
  std::vector<Scenario> all;
  for (auto room : {transaction_scenarios, heap_scenarios, thread_scenarios, wrap_scenarios,
                    container_scenarios, append_log_scenarios, object_scenarios, limit_scenarios,
                    page_sum_scenarios}) {
    std::vector<Scenario> scenarios = room();
    std::move(scenarios.begin(), scenarios.end(), std::back_inserter(all));
  }
  return all;
}

Scenario pool_scenario(std::string_view name) {
  for (Scenario& scenario : pool_scenarios()) {
    if (scenario.name == name) return std::move(scenario);
  }
  PERDURE_CHECK(false, "no scenario of that name");
}

std::vector<Subject> registry() {
  std::vector<Subject> all;
  for (const Scenario& scenario : pool_scenarios()) all.push_back(subject_of(scenario));
  for (auto room : {log_scenarios, space_scenarios, frame_scenarios}) {
    std::vector<Subject> subjects = room();
    std::move(subjects.begin(), subjects.end(), std::back_inserter(all));
  }
  return all;
}

Scenario in_private_pages(Scenario s) {
  s.name = "private-pages-" + s.name;
  s.claim += " (words go home from private pages)";
  s.placement = Placement::kPrivatePages;
  s.truncation = Truncation::kWhenFull;
  s.file = false;
  return s;
}

}  // namespace perdure::crash
