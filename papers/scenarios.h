// SPDX-License-Identifier: BSD-3-Clause
// The crash explorer's scenarios: the library's, and those of the papers' engines.
#pragma once

#include <vector>

#include "papers/engines.h"
#include "sim/crash/scenarios.h"

namespace perdure::papers {

/// All there are. Names are unique.
std::vector<crash::Subject> scenarios();

/// With which everything happens soon: small tables, and an adaptive engine without a clock.
LabOptions eventful();

/// The scenario on the engine E, with those options; tables are retired by whoever finds one full. Its name and claim say so.
template <class E>
crash::Scenario on(crash::Scenario scenario);

/// How the explorer gets the engine E.
template <class E>
std::function<EngineSource(crash::Lab&)> explored(const LabOptions& options = {});

std::vector<crash::Subject> xil_scenarios();               // the bare log of execution in log
std::vector<crash::Subject> execution_in_log_scenarios();  // an engine that executes in such logs
std::vector<crash::Subject> table_scenarios();             // tables of words that are not home yet

template <class E>
std::function<EngineSource(crash::Lab&)> explored(const LabOptions& options) {
  return [options](crash::Lab& lab) {
    return EngineSource{[&lab, options](const EngineParts& parts) {
                          return std::unique_ptr<Engine>(E::make(parts, lab.domain(), options));
                        },
                        &blurred::kXilFormat};
  };
}

}  // namespace perdure::papers
