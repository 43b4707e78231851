// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/experiment.h"

#include <algorithm>
#include <memory>
#include <random>

namespace perdure::memory {
namespace {

// A machine, and the power cuts that it has still to take.
class Run {
 public:
  Run(const Setup& setup, const PowerCuts& cuts, std::uint64_t number)
      : setup_(setup),
        can_be_cut_(cuts.wanted != 0 && setup.system != System::kDram &&
                    setup.system != System::kNvm),
        wanted_(cuts.wanted),
        random_(cuts.seed * 1000 + number),
        machine_(setup.system, setup.model, can_be_cut_) {}

  void feed(std::span<const Access> records) {
    if (!can_be_cut_) {
      machine_.run(records);
      return;
    }
    while (!records.empty()) {
      const std::size_t part = std::min<std::size_t>(records.size(), kPart);
      machine_.run(records.first(part));
      records = records.subspan(part);
      seen_ += part;
      if (const auto taken = machine_.cut_taken()) {
        note(*taken);
        set_ = false;
      }
      if (outcome_.cuts >= wanted_ || seen_ < next_) continue;
      next_ = seen_ + gap_ / 2 + random_() % gap_;
      if (outcome_.cuts * 8 / wanted_ > doubled_) {
        gap_ *= 2;
        ++doubled_;
      }
      // Every second cut falls between two records, the others wherever the write of their number falls: one
      // waits for that at a time.
      if (set_ || random_() % 2 == 0) {
        note(machine_.cut_power(random_));
      } else {
        machine_.cut_power_after_writes(1 + random_() % 500, random_());
        set_ = true;
      }
    }
  }

  Outcome finish() {
    machine_.finish();
    if (can_be_cut_) {
      note(machine_.cut_power(random_));
      if (!machine_.wrong().empty()) outcome_.violations.push_back(machine_.wrong());
    }
    outcome_.setup = setup_;
    outcome_.results = machine_.results();
    outcome_.cuts_of_unfinished = machine_.cuts_of_unfinished_checkpoints();
    outcome_.cuts_of_epochs = machine_.cuts_of_epochs();
    return std::move(outcome_);
  }

 private:
  void note(const std::string& violation) {
    ++outcome_.cuts;
    if (!violation.empty()) outcome_.violations.push_back(violation);
  }

  Setup setup_;
  bool can_be_cut_;
  std::uint64_t wanted_;
  std::mt19937_64 random_;
  // How long a run is is not known before its end: every eighth of the cuts, they lie twice as far apart.
  static constexpr std::size_t kPart = 256;
  std::uint64_t seen_ = 0, next_ = 0, gap_ = 2000, doubled_ = 0;
  bool set_ = false;
  Machine machine_;
  Outcome outcome_;
};

}  // namespace

std::vector<Outcome> run_experiment(const Experiment& experiment, AccessSource& source) {
  std::vector<std::unique_ptr<Run>> runs;
  for (const Setup& setup : experiment.setups)
    runs.push_back(std::make_unique<Run>(setup, experiment.cuts, runs.size()));
  std::uint64_t records = 0;
  for (auto batch = source.next(); !batch.empty() && records < experiment.most_records;
       batch = source.next()) {
    if (experiment.record != nullptr) experiment.record->write(batch);
    for (const auto& run : runs) run->feed(batch);
    records += batch.size();
    if (experiment.progress) experiment.progress(records);
  }
  std::vector<Outcome> outcomes;
  outcomes.reserve(runs.size());
  for (const auto& run : runs) outcomes.push_back(run->finish());
  return outcomes;
}

}  // namespace perdure::memory
