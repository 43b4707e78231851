// SPDX-License-Identifier: BSD-3-Clause
// Not in the paper: how much its results hang on the length of epochs and on NVM's latency.
#include <fmt/format.h>

#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::thynvm {
namespace {

memory::Workload sliding(const Settings& settings) {
  memory::WorkloadOptions options;
  options.factor = settings.thynvm.factor;
  options.seed = settings.seed;
  return memory::make_workload("sliding", options);
}

constexpr System kConsistent[] = {System::kJournal, System::kShadow, System::kThyNvm};

using Change = std::function<void(memory::Model&, double)>;

// Time of each consistent system, Ideal DRAM 1, by one thing that changes.
Section sweep(const Settings& settings, Section section, Reading reading, const Change& change) {
  std::map<System, std::vector<std::optional<double>>> times;
  for (std::size_t place = 0; place < section.x.size(); ++place) {
    const double x = section.x[place];
    reproduce::tell_progress(section.id, place, section.x.size());
    memory::Model model = memory::Model::of(reading);
    change(model, x);
    std::vector<Setup> setups = {{System::kDram, model}, {System::kNvm, model}};
    for (const System system : kConsistent) setups.push_back({system, model});
    const ByMachine machines = run(sliding(settings), setups, settings.thynvm.records);
    for (const Setup& setup : setups)
      times[setup.system].emplace_back(machines.at({reading, setup.system}).seconds() /
                                       machines.at({reading, System::kDram}).seconds());
  }
  for (const auto& [system, values] : times)
    if (system != System::kDram)
      section.add_values(series_name(reading, system), "x Ideal DRAM", Origin::kPerdure, values);
  return section;
}

}  // namespace

std::vector<Section> measure_sensitivity(const Settings& settings) {
  Section epochs;
  epochs.id = "epoch-length";
  epochs.title = "The length of epochs";
  epochs.method = "Sliding, strict: epochs of at most so many milliseconds (the paper's are 10).";
  epochs.x_name = "ms";
  epochs.x = settings.thynvm.epochs_ms;
  epochs =
      sweep(settings, std::move(epochs), Reading::kStrict,
            [](memory::Model& model, double ms) { model.epoch = memory::cycles_of_us(ms * 1000); });
  Section latency;
  latency.id = "nvm-latency";
  latency.title = "NVM's latency";
  latency.method =
      "Sliding, paper-code: NVM's row misses take so much of the paper's 128 and 368 ns.";
  latency.x_name = "% of the paper's";
  latency.x = settings.thynvm.nvm_percent;
  latency = sweep(
      settings, std::move(latency), Reading::kPaperCode, [](memory::Model& model, double percent) {
        model.nvm.clean_miss = memory::Time(double(model.nvm.clean_miss) * percent / 100);
        model.nvm.dirty_miss = memory::Time(double(model.nvm.dirty_miss) * percent / 100);
      });
  return {std::move(epochs), std::move(latency)};
}

}  // namespace perdure::bench::thynvm
