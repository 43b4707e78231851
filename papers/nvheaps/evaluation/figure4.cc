// SPDX-License-Identifier: BSD-3-Clause
// Figure 4: throughput and the size of transactions.
#include <map>

#include <fmt/format.h>

#include "papers/nvheaps/evaluation/claims.h"
#include "papers/nvheaps/evaluation/paper_nvheaps.h"
#include "papers/nvheaps/evaluation/raw_layer.h"
#include "papers/nvheaps/evaluation/safe_layer.h"
#include "papers/nvheaps/evaluation/sections.h"
#include "papers/nvheaps/evaluation/updates.h"
#include "papers/pool.h"

namespace perdure::bench::nvheaps {
namespace {

struct Array {
  explicit Array(const HeapSetting& setting, std::uint64_t elements)
      : heap(setting), updates(heap, elements) {}
  SafeHeap<SwapRoot<SafeLayer>> heap;
  Updates<SafeLayer> updates;
  std::atomic<std::uint64_t> expected{0};
};

}  // namespace

Section measure_transaction_sizes(const Settings& settings) {
  Section section;
  section.id = "figure4";
  section.title = "Figure 4: throughput and the size of transactions";
  section.method = fmt::format(
      "Updates of random elements of an array of {} words, some in each transaction; C-TX on DRAM, "
      "updates of all threads together, by CPU time. At the end the array's sum is what was added.",
      settings.nvheaps.elements);
  section.missing =
      "The paper's values are in a picture only; the sentences of its text stand below.";
  section.x_name = "updates in a transaction";
  for (const std::uint64_t updates : settings.nvheaps.updates)
    section.x.push_back(static_cast<double>(updates));
  section.log_y = true;
  const std::array<papers::EngineKind, 2> engines = {papers::EngineKind::kMnemosyne,
                                                     papers::EngineKind::kUndoObjects};
  std::vector<std::unique_ptr<Array>> arrays;
  for (const papers::EngineKind engine : engines)
    arrays.push_back(std::make_unique<Array>(heap_setting(settings, Layer::kCTx, kDram, engine),
                                             settings.nvheaps.elements));
  std::array<std::map<unsigned, std::vector<std::optional<Spread>>>, 2>
      rates;  // by engine and threads
  for (std::size_t place = 0; place < section.x.size(); ++place) {
    reproduce::tell_progress("figure 4", place, section.x.size());
    const std::uint64_t updates = settings.nvheaps.updates[place];
    for (const unsigned threads : thread_counts()) {
      std::vector<Random> lanes;
      for (std::uint64_t lane = 0; lane < threads * engines.size(); ++lane)
        lanes.emplace_back(settings.seed * 1000 + place * 20 + lane);
      std::vector<Run> runs;
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        runs.push_back([&, i](std::uint64_t transactions, unsigned thread) {
          Array& array = *arrays[i];
          for (std::uint64_t done = 0; done < transactions; ++done)
            array.updates.update(lanes[threads * i + thread], updates);
          array.expected.fetch_add(transactions * updates, std::memory_order_relaxed);
        });
      }
      RaceRules rules = settings.rules;
      rules.seconds /= 2;
      const std::vector<Spread> found = race_rates(runs, threads, rules);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const auto each = static_cast<double>(updates);
        rates[i][threads].emplace_back(
            Spread{found[i].median * each, found[i].min * each, found[i].max * each});
      }
    }
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    require(arrays[i]->updates.sum() == arrays[i]->expected, "Figure 4: an update is lost");
    for (const unsigned threads : thread_counts())
      section
          .add(in_threads(std::string(papers::engine_name(engines[i])), threads), "updates/s",
               Origin::kPerdure)
          .values = std::move(rates[i][threads]);
  }
  judge_transaction_sizes(section);
  return section;
}

}  // namespace perdure::bench::nvheaps
