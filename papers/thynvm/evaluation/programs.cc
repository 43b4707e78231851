// SPDX-License-Identifier: BSD-3-Clause
// Figure 11: unmodified programs. SPEC CPU2006 may not be passed on; papers/thynvm/memory/programs.h says what stands for each. Six more
// are of SPEC's other programs, or of daily use.
#include "papers/thynvm/memory/programs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "papers/thynvm/evaluation/claims.h"
#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::thynvm {
namespace {

const paper::Spec* paper_value(std::string_view program) {
  const auto found = std::ranges::find(paper::kFigure11, program, &paper::Spec::program);
  return found == paper::kFigure11.end() ? nullptr : &*found;
}

// IPC of NVM and ThyNVM against Ideal DRAM, of the programs that the paper has, or of the others.
class Programs {
 public:
  Programs(std::string id, std::string title, const Settings& settings) {
    section.id = std::move(id);
    section.title = std::move(title);
    section.method = fmt::format(
        "{} million instructions of each, after its start, under the emulator. IPC, "
        "Ideal DRAM 1.",
        settings.thynvm.instructions / 1'000'000);
  }

  void add(const memory::MeasuredProgram& program, const ByMachine& machines) {
    section.x.push_back(static_cast<double>(section.x.size() + 1));
    section.x_name +=
        fmt::format("{}{} {}", section.x_name.empty() ? "" : ", ", section.x.size(), program.name);
    section.places.emplace_back(program.name);
    section.method +=
        fmt::format(" {}: {} ({}).", program.stands_for.empty() ? program.name : program.stands_for,
                    program.what, memory::version_of(program));
    for (const Reading reading : kReadings)
      for (const System system : {System::kNvm, System::kThyNvm})
        ipc_[{reading, system}].emplace_back(machines.at({reading, system}).ipc() /
                                             machines.at({reading, System::kDram}).ipc());
    const Results& ideal = machines.at({Reading::kPaperCode, System::kDram});
    written_back_.emplace_back(double(ideal.traffic.cpu_lines * memory::kLineBytes) /
                               ideal.seconds() / 1e6);
  }

  void add_series() {
    for (const System system : {System::kNvm, System::kThyNvm})
      for (const Reading reading : kReadings)
        section.add_values(series_name(reading, system), "x Ideal DRAM", Origin::kPerdure,
                           ipc_[{reading, system}]);
    section.add_values("written back with Ideal DRAM", "MB/s", Origin::kPerdure, written_back_)
        .charted = false;
  }

  Section section;

 private:
  std::map<std::pair<Reading, System>, std::vector<std::optional<double>>> ipc_;
  std::vector<std::optional<double>> written_back_;
};

}  // namespace

std::vector<Section> measure_programs(const Settings& settings) {
  Programs of_paper("figure11", "Figure 11: memory-intensive programs", settings);
  Programs others("programs", "More programs", settings);
  std::vector<std::optional<double>> paper_nvm, paper_thynvm;
  memory::WorkloadOptions options;
  options.instructions = settings.thynvm.instructions;
  const auto programs = memory::measured_programs();
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const memory::MeasuredProgram& program = programs[i];
    reproduce::tell_progress(std::string(program.name), i, programs.size());
    const ByMachine machines = run(memory::make_workload(std::string(program.name), options),
                                   both_readings({System::kDram, System::kNvm, System::kThyNvm}));
    const paper::Spec* const spec = paper_value(program.name);
    (spec != nullptr ? of_paper : others).add(program, machines);
    if (spec == nullptr) continue;
    paper_nvm.emplace_back(spec->nvm);
    paper_thynvm.emplace_back(spec->thynvm);
  }
  of_paper.add_series();
  others.add_series();
  Section& section = of_paper.section;
  section.add_values("paper: nvm", "x Ideal DRAM", Origin::kPaper, paper_nvm);
  section.add_values("paper: thynvm", "x Ideal DRAM", Origin::kPaper, paper_thynvm);
  for (const Reading reading : kReadings) judge_programs(section, reading);
  return {std::move(of_paper.section), std::move(others.section)};
}

}  // namespace perdure::bench::thynvm
