// Figure 11: unmodified programs. SPEC CPU2006 may not be passed on; sim/memory/programs.h says what stands for each.
#include "sim/memory/programs.h"

#include <fmt/format.h>

#include "bench/thynvm/sections.h"

namespace perdure::bench::thynvm {

Section measure_programs(const Settings& settings) {
  Section section;
  section.id = "figure11";
  section.title = "Figure 11: memory-intensive programs";
  section.method = fmt::format(
      "{} million instructions of each, after its start, under the emulator. IPC, "
      "Ideal DRAM 1. ",
      settings.thynvm.instructions / 1'000'000);
  std::map<std::pair<Reading, System>, std::vector<std::optional<double>>> ipc;
  std::vector<std::optional<double>> paper_nvm, paper_thynvm;
  memory::WorkloadOptions options;
  options.instructions = settings.thynvm.instructions;
  for (const paper::Spec& spec : paper::kFigure11) {
    reproduce::tell_progress(std::string(spec.program), section.x.size(), paper::kFigure11.size());
    const memory::MeasuredProgram& program = memory::measured_program(spec.program);
    section.x.push_back(static_cast<double>(section.x.size() + 1));
    section.x_name +=
        fmt::format("{}{} {}", section.x_name.empty() ? "" : ", ", section.x.size(), spec.program);
    section.method +=
        fmt::format("{}: {} ({}). ", program.stands_for, program.what, memory::version_of(program));
    const ByMachine machines = run(memory::make_workload(std::string(spec.program), options),
                                   both_readings({System::kDram, System::kNvm, System::kThyNvm}));
    for (const Reading reading : kReadings) {
      for (const System system : {System::kNvm, System::kThyNvm})
        ipc[{reading, system}].emplace_back(machines.at({reading, system}).ipc() /
                                            machines.at({reading, System::kDram}).ipc());
    }
    paper_nvm.emplace_back(spec.nvm);
    paper_thynvm.emplace_back(spec.thynvm);
  }
  for (const System system : {System::kNvm, System::kThyNvm}) {
    for (const Reading reading : kReadings)
      section.add_values(series_name(reading, system), "x Ideal DRAM", Origin::kPerdure,
                         ipc[{reading, system}]);
    section.add_values(fmt::format("paper: {}", memory::system_name(system)), "x Ideal DRAM",
                       Origin::kPaper, system == System::kNvm ? paper_nvm : paper_thynvm);
  }
  for (const Reading reading : kReadings) {
    const auto mean = [&](System system) {
      std::vector<double> values;
      for (const auto& value : ipc[{reading, system}]) values.push_back(*value);
      return geometric_mean(values);
    };
    const double nvm = mean(System::kNvm), thynvm = mean(System::kThyNvm);
    judge(section, fmt::format("{} ({})", paper::kSpecText, memory::reading_name(reading)),
          fmt::format("{:.1f} % of Ideal DRAM, {:+.1f} % against Ideal NVM", 100 * thynvm,
                      100 * (thynvm / nvm - 1)),
          thynvm > paper::kSpecMean - .05 && thynvm > nvm,
          "These programs and inputs write back more than the paper's: each table of 2,048 blocks "
          "is an epoch.");
  }
  return section;
}

}  // namespace perdure::bench::thynvm
