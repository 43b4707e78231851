// SPDX-License-Identifier: BSD-3-Clause
// Table 4, Tokyo Cabinet: a B+ tree in persistent memory against a store that syncs its file after
// every update; with one thread, and what more threads make of both.
#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/churn.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/more_sections.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {
namespace {

using paper::of_threads;
constexpr const char* kMsync = "Tokyo Cabinet, msync";
constexpr const char* kMsyncOnTmpfs = "Tokyo Cabinet, msync, without a file system";

/// Updates a second of both, with values of so many bytes.
struct StoreRates {
  Spread ours;
  std::optional<Spread> theirs;         // nothing where Tokyo Cabinet was not built in
  std::optional<Spread> without_files;  // the same on tmpfs, if it is on a device
};
StoreRates rates_of_stores(const Settings& settings, std::uint64_t value_bytes, unsigned threads,
                           const RamDisk* device) {
  StoreOptions options;
  options.dir = settings.dir;
  options.memory = settings.memory;
  options.value_bytes = value_bytes;
  options.threads = threads;
  options.pool = new_pool_options(settings.memory);
  ChurnOptions churn;
  churn.threads = threads;
  churn.value_bytes = value_bytes;
  churn.live = settings.live;
  churn.seed = settings.seed;
  churn.rules = settings.rules;
  std::vector<MakeStore> stores{[&] { return make_tree(options); }};
  const bool with_peer = peers().tokyo_cabinet != nullptr;
  StoreOptions on_device = options;
  on_device.device = device;
  if (with_peer) stores.emplace_back([&] { return peers().tokyo_cabinet(on_device); });
  const bool with_both = with_peer && threads == 1 && device != nullptr;
  if (with_both) stores.emplace_back([&] { return peers().tokyo_cabinet(options); });
  const std::vector<ChurnResult> results = race_updates(stores, churn);
  StoreRates rates{results[0].updates_per_s, {}, {}};
  if (with_peer) rates.theirs = results[1].updates_per_s;
  if (with_both) rates.without_files = results[2].updates_per_s;
  return rates;
}

/// The rows of Table 4 with so many threads, as series of the section.
void add_rates(Section& section, const Settings& settings, unsigned threads,
               const RamDisk* device) {
  const std::string ours = threads == 1 ? "perdure" : of_threads("perdure", threads);
  const std::string theirs = threads == 1 ? kMsync : of_threads(kMsync, threads);
  std::vector<std::optional<Spread>> perdure;
  std::vector<std::optional<Spread>> tokyo;
  std::vector<std::optional<Spread>> on_tmpfs;
  for (const paper::StoreRow& row : paper::kTable4) {
    tell_progress(fmt::format("table 4: {} B, {} threads", row.value_bytes, threads),
                  perdure.size(), paper::kTable4.size());
    const StoreRates rates = rates_of_stores(settings, row.value_bytes, threads, device);
    perdure.emplace_back(rates.ours);
    tokyo.push_back(rates.theirs);
    on_tmpfs.push_back(rates.without_files);
  }
  section.add(ours, "updates/s", Origin::kPerdure).values = std::move(perdure);
  if (peers().tokyo_cabinet != nullptr)
    section.add(theirs, "updates/s", Origin::kPeer).values = std::move(tokyo);
  else
    section.missing += " Tokyo Cabinet was not built in (libtokyocabinet-dev).";
  if (on_tmpfs.front())
    section.add(kMsyncOnTmpfs, "updates/s", Origin::kPeer).values = std::move(on_tmpfs);
}

}  // namespace

Section measure_store(const Settings& settings) {
  const PeerDisk disk = make_peer_disk(settings.dir);
  Section section;
  section.id = "table4";
  section.title = "Table 4: update throughput of a key-value store";
  section.method = fmt::format(
      "Inserts and deletes of records in a B+ tree of {} records, one thread: our btree_map in "
      "transactions against Tokyo Cabinet with tcbdbsync after every update. {}",
      settings.live, disk.said);
  section.x_name = "value (bytes)";
  section.missing =
      "The paper's modified Tokyo Cabinet is replaced by our btree_map. The other half of the "
      "table is `openldap`.";
  for (const paper::StoreRow& row : paper::kTable4)
    section.x.push_back(static_cast<double>(row.value_bytes));
  add_rates(section, settings, 1, disk.device.get());
  if (section.find(kMsync) != nullptr)
    section.add_ratio("perdure / Tokyo Cabinet", "perdure", kMsync);
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

Section measure_store_threads(const Settings& settings) {
  const PeerDisk disk = make_peer_disk(settings.dir);
  const unsigned cpus = std::thread::hardware_concurrency();
  const unsigned threads = std::clamp(cpus, 1u, 4u);  // the paper's machine has four
  Section section;
  section.id = "table4-threads";
  section.title = "§6.2: the stores of Table 4 with several threads";
  section.method = fmt::format(
      "The runs of Table 4 with one and with {} threads, which have keys of their own in one tree "
      "of {} records each. Tokyo Cabinet has a lock for its calls; the emulated device takes the "
      "syncs of several threads at the same time. {}",
      threads, settings.live, disk.said);
  section.x_name = "value (bytes)";
  section.missing = "The paper does not say how many threads it had.";
  for (const paper::StoreRow& row : paper::kTable4)
    section.x.push_back(static_cast<double>(row.value_bytes));
  add_rates(section, settings, 1, disk.device.get());
  if (threads > 1) add_rates(section, settings, threads, disk.device.get());
  paper::judge_store_threads(section, threads, cpus);
  return section;
}

}  // namespace perdure::bench::reproduce
