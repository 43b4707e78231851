// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/churn.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {
namespace {

std::string decrease_name(unsigned idle_percent) {
  return fmt::format("decrease, {} % idle", idle_percent);
}

}  // namespace

Section measure_truncation(const Settings& settings) {
  Section section;
  section.id = "figure6";
  section.title = "Figure 6: decrease of the write latency by asynchronous truncation";
  section.method =
      "The hash table of Figure 4, one thread, idle after each update for a part of the time: it "
      "spins without a store or a transaction, so that its CPU stays awake and the truncation "
      "thread has the other one. Synchronous: Truncation::kEachCommit; asynchronous: kBackground, "
      "whose emulated write-back the truncation thread waits for. Logs of 256 KiB; a commit that "
      "finds its log full waits. Stalled: the part of the program's time spent so. "
      "Decrease: (synchronous - asynchronous) / synchronous; below zero it is an increase.";
  section.x_name = "value (bytes)";
  section.missing =
      "The paper's bars are in a picture only; the sentences of its text stand below.";
  for (const std::uint64_t bytes : settings.value_bytes)
    section.x.push_back(static_cast<double>(bytes));
  std::size_t done = 0;
  const std::size_t total = settings.idle_percent.size() * settings.value_bytes.size();
  for (const unsigned idle : settings.idle_percent) {
    std::vector<std::optional<Spread>> synchronous;
    std::vector<std::optional<Spread>> asynchronous;
    std::vector<std::optional<Spread>> decrease;
    std::vector<std::optional<double>> stalled;
    for (const std::uint64_t bytes : settings.value_bytes) {
      tell_progress(fmt::format("figure 6: {} % idle, {} B", idle, bytes), done++, total);
      StoreOptions at_once;
      at_once.dir = settings.dir;
      at_once.memory = settings.memory;
      at_once.value_bytes = bytes;
      at_once.pool = new_pool_options(settings.memory);
      at_once.pool.truncation = Truncation::kEachCommit;
      StoreOptions later = at_once;
      later.pool.truncation = Truncation::kBackground;
      ChurnOptions churn;
      churn.value_bytes = bytes;
      churn.live = settings.live;
      churn.idle_part = idle / 100.0;
      churn.seed = settings.seed;
      churn.rules = settings.rules;
      const std::vector<ChurnResult> results = race_updates(
          {[&] { return make_hash_table(at_once); }, [&] { return make_hash_table(later); }},
          churn);
      const Spread& a = results[0].insert_us;
      const Spread& b = results[1].insert_us;
      synchronous.emplace_back(a);
      asynchronous.emplace_back(b);
      stalled.emplace_back(100 * results[1].blocked_part);
      decrease.emplace_back(Spread{(1 - b.median / a.median) * 100, (1 - b.max / a.min) * 100,
                                   (1 - b.min / a.max) * 100});
    }
    section.add(fmt::format("synchronous, {} % idle", idle), "us", Origin::kPerdure).values =
        std::move(synchronous);
    section.add(fmt::format("asynchronous, {} % idle", idle), "us", Origin::kPerdure).values =
        std::move(asynchronous);
    section.add(decrease_name(idle), "%", Origin::kDerived).values = std::move(decrease);
    section
        .add_values(fmt::format("asynchronous stalled, {} % idle", idle), "% of time",
                    Origin::kPerdure, stalled)
        .charted = false;
  }
  const std::vector<std::optional<double>> from(section.x.size(), paper::kTruncationGain.low);
  const std::vector<std::optional<double>> to(section.x.size(), paper::kTruncationGain.high);
  section.add_values("paper: from (50 and 90 % idle)", "%", Origin::kPaper, from);
  section.add_values("paper: to (50 and 90 % idle)", "%", Origin::kPaper, to);
  paper::judge_truncation(section, settings.idle_percent);
  return section;
}

}  // namespace perdure::bench::reproduce
