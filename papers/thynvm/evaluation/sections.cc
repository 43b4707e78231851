// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/evaluation/sections.h"

#include <cmath>

#include <fmt/format.h>

namespace perdure::bench::thynvm {

std::vector<Setup> both_readings(const std::vector<System>& systems,
                                 const std::function<void(memory::Model&)>& change) {
  std::vector<Setup> setups;
  for (const Reading reading : kReadings) {
    memory::Model model = memory::Model::of(reading);
    if (change) change(model);
    for (const System system : systems) setups.push_back({system, model});
  }
  return setups;
}

ByMachine run(memory::Workload workload, const std::vector<Setup>& setups,
              std::uint64_t most_records) {
  memory::Experiment experiment;
  experiment.most_records = most_records;
  experiment.setups = setups;
  ByMachine by_machine;
  for (memory::Outcome& outcome : memory::run_experiment(experiment, *workload.source))
    by_machine[{outcome.setup.model.reading, outcome.setup.system}] = std::move(outcome.results);
  return by_machine;
}

double paper_bytes(const Results& results) {
  return static_cast<double>(results.traffic.cpu_lines * memory::kLineBytes +
                             results.traffic.checkpoint_bytes + results.traffic.migration_bytes);
}

std::string series_name(Reading reading, System system) {
  return fmt::format("{}: {}", memory::reading_name(reading), memory::system_name(system));
}

double geometric_mean(const std::vector<double>& values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

Order compare_orders(const std::vector<std::vector<double>>& ours,
                     const std::vector<std::vector<double>>& papers,
                     const std::vector<std::string>& places,
                     const std::vector<std::string>& systems) {
  Order order;
  for (std::size_t x = 0; x < papers.size(); ++x) {
    for (std::size_t a = 0; a < systems.size(); ++a) {
      for (std::size_t b = a + 1; b < systems.size(); ++b) {
        const double ratio = papers[x][a] / papers[x][b];
        if (ratio < 1.05 && ratio > 1 / 1.05) continue;
        ++order.pairs;
        if ((ratio > 1) == (ours[x][a] > ours[x][b])) {
          ++order.same;
        } else {
          order.others += fmt::format("{}{}: {} and {}", order.others.empty() ? "" : "; ",
                                      places[x], systems[a], systems[b]);
        }
      }
    }
  }
  return order;
}

}  // namespace perdure::bench::thynvm
