// SPDX-License-Identifier: BSD-3-Clause
// Not in the paper: how much its results hang on the length of epochs, on NVM's latency, and on what the paper does not say of
// banks and write queues.
#include <fmt/format.h>

#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::thynvm {
namespace {

memory::Workload pattern(const Settings& settings, const std::string& name) {
  memory::WorkloadOptions options;
  options.factor = settings.thynvm.factor;
  options.seed = settings.seed;
  return memory::make_workload(name, options);
}

constexpr System kConsistent[] = {System::kJournal, System::kShadow, System::kThyNvm,
                                  System::kThyNvmOverlap};

using Change = std::function<void(memory::Model&, double)>;

// Time of each consistent system, Ideal DRAM 1, by one thing that changes.
Section sweep(const Settings& settings, Section section, Reading reading, const Change& change,
              const std::string& of_pattern = "sliding") {
  std::map<System, std::vector<std::optional<double>>> times;
  for (std::size_t place = 0; place < section.x.size(); ++place) {
    const double x = section.x[place];
    reproduce::tell_progress(section.id, place, section.x.size());
    memory::Model model = memory::Model::of(reading);
    change(model, x);
    std::vector<Setup> setups = {{System::kDram, model}, {System::kNvm, model}};
    for (const System system : kConsistent) setups.push_back({system, model});
    const ByMachine machines = run(pattern(settings, of_pattern), setups, settings.thynvm.records);
    for (const Setup& setup : setups)
      times[setup.system].emplace_back(machines.at({reading, setup.system}).seconds() /
                                       machines.at({reading, System::kDram}).seconds());
  }
  for (const auto& [system, values] : times)
    if (system != System::kDram)
      section.add_values(series_name(reading, system), "x Ideal DRAM", Origin::kPerdure, values);
  return section;
}

// What becomes of an access whose bank is busy, and which bank that is.
struct Banks {
  const char* name;
  bool waits;
  memory::BankMapping mapping;
  bool queue;
};
constexpr Banks kBanks[] = {
    {"nobody waits", false, memory::BankMapping::kRowsInTurn, false},
    {"rows in turn", true, memory::BankMapping::kRowsInTurn, false},
    {"lines in turn", true, memory::BankMapping::kLinesInTurn, false},
    {"hashed", true, memory::BankMapping::kHashed, false},
    {"rows in turn, queue", true, memory::BankMapping::kRowsInTurn, true},
};

void set_banks(memory::Model& model, const Banks& banks) {
  const memory::DeviceTiming with_queue = memory::Model::of(Reading::kStrict).nvm;
  for (memory::DeviceTiming* device : {&model.dram, &model.nvm}) {
    device->waits_for_bank = banks.waits;
    device->mapping = banks.mapping;
    if (!banks.queue) continue;
    device->queue = with_queue.queue;
    device->high = with_queue.high;
    device->low = with_queue.low;
  }
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

Section measure_banks(const Settings& settings) {
  Section section;
  section.id = "banks";
  section.title = "Banks and write queues";
  section.method =
      "Streaming, paper-code, whose accesses wait for no bank, as in the published code: what "
      "becomes of them when they do, with addresses as row | rank | bank | column (rows in turn), "
      "row | column | rank | bank (lines in turn), the first with the row's low bits folded in "
      "(hashed), and with strict's queue of writes, which lets reads go first.";
  section.x_name = "machine";
  for (const Banks& banks : kBanks) {
    section.x.push_back(double(section.x.size() + 1));
    section.places.emplace_back(banks.name);
  }
  return sweep(
      settings, std::move(section), Reading::kPaperCode,
      [](memory::Model& model, double x) { set_banks(model, kBanks[std::size_t(x) - 1]); },
      "streaming");
}

}  // namespace perdure::bench::thynvm
