// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/churn.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/more_sections.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {
namespace {

std::string decrease_name(unsigned idle_percent) {
  return fmt::format("decrease, {} % idle", idle_percent);
}

/// Inserts of one size, the program idle for a part of the time.
struct Truncations {
  ChurnResult synchronous;
  ChurnResult asynchronous;
  std::optional<ChurnResult> berkeley;
};
Truncations measure_truncations(const Settings& settings, const EmulatedMemory& memory,
                                std::uint64_t bytes, unsigned idle, bool with_berkeley,
                                const RamDisk* device) {
  StoreOptions at_once;
  at_once.dir = settings.dir;
  at_once.memory = memory;
  at_once.device = device;
  at_once.value_bytes = bytes;
  at_once.pool = new_pool_options(memory);
  at_once.pool.truncation = Truncation::kEachCommit;
  StoreOptions later = at_once;
  later.pool.truncation = Truncation::kBackground;
  ChurnOptions churn;
  churn.value_bytes = bytes;
  churn.live = settings.live;
  churn.idle_part = idle / 100.0;
  churn.seed = settings.seed;
  churn.rules = settings.rules;
  std::vector<MakeStore> stores{[&] { return make_hash_table(at_once); },
                                [&] { return make_hash_table(later); }};
  if (with_berkeley) stores.emplace_back([&] { return peers().berkeley_db(at_once); });
  const std::vector<ChurnResult> results = race_updates(stores, churn);
  Truncations measured{results[0], results[1], {}};
  if (with_berkeley) measured.berkeley = results[2];
  return measured;
}

constexpr const char* kHowTruncated =
    "Synchronous: Truncation::kEachCommit; asynchronous: kBackground, whose emulated write-back "
    "the truncation thread waits for. Logs of 256 KiB; a commit that finds its log full waits. "
    "Stalled: the part of the program's time spent so.";

}  // namespace

Section measure_truncation(const Settings& settings) {
  Section section;
  section.id = "figure6";
  section.title = "Figure 6: decrease of the write latency by asynchronous truncation";
  section.method = fmt::format(
      "The hash table of Figure 4, one thread, idle after each update for a part of the time: it "
      "spins without a store or a transaction, so that its CPU stays awake and the truncation "
      "thread has the other one. {} "
      "Decrease: (synchronous - asynchronous) / synchronous; below zero it is an increase.",
      kHowTruncated);
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
      const Truncations results =
          measure_truncations(settings, settings.memory, bytes, idle, false, nullptr);
      const Spread& a = results.synchronous.insert_us;
      const Spread& b = results.asynchronous.insert_us;
      synchronous.emplace_back(a);
      asynchronous.emplace_back(b);
      stalled.emplace_back(100 * results.asynchronous.blocked_part);
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

Section measure_slow_truncation(const Settings& settings) {
  // The paper's "under low load (10 percent idle)" contradicts its Figure 6: both are measured.
  const std::vector<unsigned> idle_percent = {10, 90};
  const PeerDisk disk = make_peer_disk(settings.dir);
  Section section;
  section.id = "slow-truncation";
  section.title = "§6.4: asynchronous truncation at 2000 ns";
  section.method = fmt::format(
      "The inserts of Figure 6 on memory of {:.0f} ns, idle 10 % of the time, as the sentence "
      "says, "
      "and 90 %, which is its low load; beside Berkeley DB on the PCM-disk of the same memory, "
      "idle as long. {} {}",
      paper::kSlowTruncationNs, disk.said, kHowTruncated);
  section.x_name = "value (bytes)";
  for (const paper::SlowTruncation& row : paper::kSlowTruncations)
    section.x.push_back(static_cast<double>(row.value_bytes));
  const bool with_berkeley = peers().berkeley_db != nullptr;
  if (!with_berkeley) section.missing = "Berkeley DB was not built in (libdb5.3-dev).";
  EmulatedMemory memory = settings.memory;
  memory.latency_ns = paper::kSlowTruncationNs;
  std::size_t done = 0;
  const std::size_t total = idle_percent.size() * section.x.size();
  for (const unsigned idle : idle_percent) {
    std::vector<std::optional<Spread>> synchronous;
    std::vector<std::optional<Spread>> asynchronous;
    std::vector<std::optional<Spread>> berkeley;
    std::vector<std::optional<double>> stalled;
    for (const paper::SlowTruncation& row : paper::kSlowTruncations) {
      tell_progress(fmt::format("truncation at 2000 ns: {} B, {} % idle", row.value_bytes, idle),
                    done++, total);
      const Truncations results = measure_truncations(settings, memory, row.value_bytes, idle,
                                                      with_berkeley, disk.device.get());
      synchronous.emplace_back(results.synchronous.insert_us);
      asynchronous.emplace_back(results.asynchronous.insert_us);
      stalled.emplace_back(100 * results.asynchronous.blocked_part);
      if (with_berkeley) berkeley.emplace_back(results.berkeley->insert_us);
    }
    const auto named = [&](const char* name) { return fmt::format("{}, {} % idle", name, idle); };
    section.add(named("synchronous"), "us", Origin::kPerdure).values = std::move(synchronous);
    section.add(named("asynchronous"), "us", Origin::kPerdure).values = std::move(asynchronous);
    section.add_values(named("asynchronous stalled"), "% of time", Origin::kPerdure, stalled)
        .charted = false;
    if (with_berkeley)
      section.add(named("Berkeley DB"), "us", Origin::kPeer).values = std::move(berkeley);
  }
  std::vector<std::optional<double>> stated;
  for (const paper::SlowTruncation& row : paper::kSlowTruncations)
    stated.emplace_back(row.less_percent);
  section.add_values("paper: decrease", "%", Origin::kPaper, stated).charted = false;
  paper::judge_slow_truncation(section, idle_percent);
  return section;
}

}  // namespace perdure::bench::reproduce
