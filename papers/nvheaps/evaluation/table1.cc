// SPDX-License-Identifier: BSD-3-Clause
// Table 1: basic operation latencies.
#include <memory>

#include <fmt/format.h>

#include "papers/nvheaps/evaluation/basic_operations.h"
#include "papers/nvheaps/evaluation/claims.h"
#include "papers/nvheaps/evaluation/paper_nvheaps.h"
#include "papers/nvheaps/evaluation/races.h"
#include "papers/nvheaps/evaluation/sections.h"
#include "papers/pool.h"

namespace perdure::bench::nvheaps {
namespace {

constexpr std::uint64_t kMany = BasicOperations<SafeLayer>::kMostAtOnce;

struct Column {
  std::string name;
  bool transactions;
  bool weak;
  std::function<void(Operation, std::uint64_t at_once)> run;
  std::function<void()> check;
};

template <class L>
Column column(std::string name, const HeapSetting& setting) {
  auto operations = std::make_shared<BasicOperations<L>>(setting);
  return {std::move(name), setting.layer != Layer::kBase && setting.layer != Layer::kSafe,
          setting.layer != Layer::kBase,
          [operations](Operation operation, std::uint64_t at_once) {
            operations->run(operation, at_once);
          },
          [operations] { operations->check(); }};
}

bool has(const Column& column, Operation operation) {
  if (operation == Operation::kWeakRef) return column.weak;
  const bool plain = operation == Operation::kNewDelete || operation == Operation::kHandle ||
                     operation == Operation::kRef;
  return plain || column.transactions;
}

std::vector<Column> columns_of(const Settings& settings) {
  std::vector<Column> columns;
  columns.push_back(column<BaseLayer>("BASE", heap_setting(settings, Layer::kBase, kDram)));
  columns.push_back(column<SafeLayer>("SAFE", heap_setting(settings, Layer::kSafe, kDram)));
  for (const Layer layer : {Layer::kBase, Layer::kSafe}) {
    HeapSetting saved = heap_setting(settings, layer, kDram);
    saved.checkpoints = std::chrono::nanoseconds::zero();
    saved.bytes = std::uint64_t{8} << 20;
    columns.push_back(layer == Layer::kBase
                          ? column<BaseLayer>(check_pointed_each_time("BASE"), saved)
                          : column<SafeLayer>(check_pointed_each_time("SAFE"), saved));
  }
  columns.push_back(column<SafeLayer>("TX", heap_setting(settings, Layer::kTx, kDram)));
  for (const Memory& memory : kMemories)
    columns.push_back(column<SafeLayer>("C-TX " + std::string(memory.name),
                                        heap_setting(settings, Layer::kCTx, memory)));
  columns.push_back(column<SafeLayer>("NoDur", heap_setting(settings, Layer::kNoDur, kDram)));
  for (const Memory& memory : kMemories)
    columns.push_back(column<SafeLayer>(
        "C-TX " + std::string(memory.name) + ", undo-objects",
        heap_setting(settings, Layer::kCTx, memory, papers::EngineKind::kUndoObjects)));
  return columns;
}

std::string of_many(const std::string& name) { return fmt::format("{}, of {}", name, kMany); }

}  // namespace

Section measure_operations(const Settings& settings) {
  Section section;
  section.id = "table1";
  section.title = "Table 1: basic operation latency";
  section.method = fmt::format(
      "CPU time of an operation in a transaction of its own and, \"of {0}\", as a part of one that "
      "does it on {0} objects. new/delete, NV-to-NV and weak pointers take two transactions: one "
      "that makes or assigns, one that sets null. V-to-NV is a handle, made and dropped. Log for "
      "read and for write: the first access of an object of 24 bytes, with the transaction. C-TX: "
      "another thread is in a transaction all the time, so that isolation is paid for; TX is "
      "alone, and runs without. \"undo-objects\" is the paper's log (whole objects, changed in "
      "place), the others our default (words, redo). \"check-pointed each time\": what BASE and "
      "SAFE "
      "changed is saved behind each of what are transactions elsewhere, in the same time. The "
      "paper's <0.1 stands as 0.1.",
      kMany);
  section.x_name =
      "1 new/delete, 2 V-to-NV ptr, 3 NV-to-NV ptr, 4 weak NV-to-NV ptr, 5 nop tx, 6 log for read, "
      "7 log for write";
  for (std::size_t i = 0; i < kAllOperations.size(); ++i)
    section.x.push_back(static_cast<double>(i + 1));
  section.places = {"new/delete", "V-to-NV ptr",  "NV-to-NV ptr", "weak NV-to-NV ptr",
                    "nop tx",     "log for read", "log for write"};
  section.log_y = true;

  const std::vector<Column> columns = columns_of(settings);
  RaceRules rules = settings.rules;
  rules.seconds /= 5;
  for (const std::uint64_t at_once : {std::uint64_t{1}, kMany}) {
    std::vector<std::vector<std::optional<Spread>>> us(
        columns.size(), std::vector<std::optional<Spread>>(kAllOperations.size()));
    for (std::size_t place = 0; place < kAllOperations.size(); ++place) {
      const Operation operation = kAllOperations[place];
      if (at_once > 1 && operation == Operation::kNop) continue;
      reproduce::tell_progress("table 1", place, kAllOperations.size());
      std::vector<Run> runs;
      std::vector<std::size_t> whose;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        if (!has(columns[i], operation)) continue;
        whose.push_back(i);
        runs.push_back([&, i, operation, at_once](std::uint64_t count, unsigned) {
          for (std::uint64_t done = 0; done < count; done += at_once)
            columns[i].run(operation, at_once);
        });
      }
      const std::vector<Spread> rates = race_rates(runs, 1, rules);
      for (std::size_t i = 0; i < rates.size(); ++i)
        us[whose[i]][place] = Spread{1e6 / rates[i].median, 1e6 / rates[i].max, 1e6 / rates[i].min};
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      auto& series = section.add(at_once == 1 ? columns[i].name : of_many(columns[i].name), "us",
                                 Origin::kPerdure);
      series.values = std::move(us[i]);
      series.charted = at_once == 1;
    }
  }
  for (const Column& column : columns) column.check();
  for (const paper::Column& column : paper::kTable1)
    section.add_values("paper: " + std::string(column.name), "us", Origin::kPaper,
                       {column.us.begin(), column.us.end()});
  judge_operations(section);
  return section;
}

}  // namespace perdure::bench::nvheaps
