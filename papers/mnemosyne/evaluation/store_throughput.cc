// SPDX-License-Identifier: BSD-3-Clause
// Table 4, Tokyo Cabinet: a B+ tree in persistent memory against a store that syncs its file after
// every update.
#include <fmt/format.h>

#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/churn.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {

Section measure_store(const Settings& settings) {
  Section section;
  section.id = "table4";
  section.title = "Table 4: update throughput of a key-value store";
  section.method = fmt::format(
      "Inserts and deletes of records in a B+ tree of {} records, one thread: our btree_map in "
      "transactions against Tokyo Cabinet with tcbdbsync after every update. Its emulated device "
      "is "
      "charged the 4 KiB blocks that one update changes, counted beforehand by comparing the file.",
      settings.live);
  section.x_name = "value (bytes)";
  section.missing =
      "The paper's modified Tokyo Cabinet is replaced by our btree_map. The other half of the "
      "table is `openldap`.";
  for (const paper::StoreRow& row : paper::kTable4)
    section.x.push_back(static_cast<double>(row.value_bytes));
  const bool with_peer = peers().tokyo_cabinet != nullptr;
  if (!with_peer) section.missing += " Tokyo Cabinet was not built in (libtokyocabinet-dev).";
  std::vector<ChurnResult> ours;
  std::vector<ChurnResult> theirs;
  for (const paper::StoreRow& row : paper::kTable4) {
    tell_progress(fmt::format("table 4: {} B", row.value_bytes), ours.size(),
                  paper::kTable4.size());
    StoreOptions options;
    options.dir = settings.dir;
    options.memory = settings.memory;
    options.value_bytes = row.value_bytes;
    options.pool = new_pool_options(settings.memory);
    ChurnOptions churn;
    churn.value_bytes = row.value_bytes;
    churn.live = settings.live;
    churn.seed = settings.seed;
    churn.rules = settings.rules;
    std::vector<MakeStore> stores{[&] { return make_tree(options); }};
    if (with_peer) stores.emplace_back([&] { return peers().tokyo_cabinet(options); });
    const std::vector<ChurnResult> results = race_updates(stores, churn);
    ours.push_back(results[0]);
    if (with_peer) theirs.push_back(results[1]);
  }
  Series& perdure = section.add("perdure", "updates/s", Origin::kPerdure);
  for (std::size_t i = 0; i < ours.size(); ++i) perdure.values[i] = ours[i].updates_per_s;
  if (with_peer) {
    Series& tokyo = section.add("Tokyo Cabinet, msync", "updates/s", Origin::kPeer);
    for (std::size_t i = 0; i < theirs.size(); ++i) tokyo.values[i] = theirs[i].updates_per_s;
    section.add_ratio("perdure / Tokyo Cabinet", "perdure", "Tokyo Cabinet, msync");
  }
  std::vector<std::optional<double>> mnemosyne;
  std::vector<std::optional<double>> msync;
  for (const paper::StoreRow& row : paper::kTable4) {
    mnemosyne.emplace_back(row.mnemosyne);
    msync.emplace_back(row.msync_on_pcm_disk);
  }
  section.add_values("paper: Mnemosyne", "updates/s", Origin::kPaper, mnemosyne);
  section.add_values("paper: Tokyo Cabinet, msync", "updates/s", Origin::kPaper, msync);
  paper::judge_store(section);
  return section;
}

}  // namespace perdure::bench::reproduce
