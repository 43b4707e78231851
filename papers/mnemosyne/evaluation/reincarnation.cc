// SPDX-License-Identifier: BSD-3-Clause
#include "papers/mnemosyne/evaluation/reincarnation.h"

#include <unistd.h>

#include <chrono>
#include <csignal>

#include <fmt/format.h>

#include "bench/system.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "perdure/container/hash_map.h"
#include "tools/child.h"

namespace perdure::bench::reproduce {
namespace {

using Table = hash_map<std::uint64_t, bytes>;
constexpr std::size_t kValueBytes = 64;

/// Logs that hold every transaction to be replayed.
papers::LabOptions with_large_logs(papers::LabOptions options) {
  options.domain = DomainKind::kAdr;
  options.ring_bytes = std::uint64_t{4} << 20;
  options.log_slots = 2;
  return options;
}

struct Opening {
  double words;  // replayed, of each transaction
  double whole_ms;
  double replay_ms;
  double heap_ms;
};

Opening kill_and_open(const Settings& settings, std::uint64_t transactions) {
  const ScratchFile file(settings.dir, "killed");
  tools::Child child({"reproduce-worker", file.path(), "--objects",
                      std::to_string(settings.heap_objects), "--transactions",
                      std::to_string(transactions)});
  if (!child.receive())
    throw Exception(Code::kIo, file.path() + ": the process to be killed ended before that");
  child.kill();
  if (const int end = child.wait(); end != -SIGKILL)
    throw Exception(Code::kIo, file.path() + ": the process to be killed ended by itself");

  const auto start = std::chrono::steady_clock::now();
  Pool pool = papers::open(file.path(), with_large_logs(new_pool_options(settings.memory))).value();
  const std::chrono::duration<double, std::milli> whole = std::chrono::steady_clock::now() - start;
  if (pool.recovery().records_replayed < transactions)
    throw Exception(Code::kCorrupt, file.path() + ": fewer records were replayed than committed");
  const auto* table = pool.find_root<Table>("table");
  const std::uint64_t size = pool.read_only([&](Tx& tx) { return table->size(tx); });
  if (size != settings.heap_objects + transactions)
    throw Exception(Code::kCorrupt,
                    file.path() + ": " + std::to_string(size) + " records after recovery");
  const double words = transactions == 0
                           ? 0
                           : static_cast<double>(pool.recovery().words_replayed) /
                                 static_cast<double>(pool.recovery().records_replayed);
  return {words, whole.count(), static_cast<double>(pool.recovery().nanoseconds) / 1e6,
          static_cast<double>(core_of(pool).heap_rebuild_nanoseconds()) / 1e6};
}

}  // namespace

void work_until_killed(const std::string& path, std::uint64_t objects, std::uint64_t transactions) {
  Pool pool = papers::create(path, with_large_logs({})).value();
  auto* table = pool.root<Table>("table");
  const std::string value(kValueBytes, 'v');
  constexpr std::uint64_t kBatch = 64;
  for (std::uint64_t i = 0; i < objects; i += kBatch) {
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t key = i; key < std::min(i + kBatch, objects); ++key)
        table->put(tx, key, value);
    });
  }
  pool.checkpoint();
  for (std::uint64_t i = 0; i < transactions; ++i) {
    pool.atomically([&](Tx& tx) { table->put(tx, objects + i, value); });
  }
  tools::send_to_parent({1, transactions});
  for (;;) ::pause();
}

Section measure_reincarnation(const Settings& settings) {
  const papers::LabOptions options = with_large_logs({});
  Section section;
  section.id = "reincarnation";
  section.title = "§6.3.2: reincarnation of a heap and its transactions";
  section.method = fmt::format(
      "A process with {} records of 64 B at home commits n inserts and is killed; then the pool is "
      "opened. Replay reads the logs ({:.0f} MiB) and makes them durable; of each transaction: "
      "(all - that of none) / n. Map and check: what is neither replay nor heap.",
      settings.heap_objects,
      static_cast<double>(options.ring_bytes * options.log_slots) / (1 << 20));
  section.x_name = "transactions to replay";
  for (const std::uint64_t n : settings.replayed) section.x.push_back(static_cast<double>(n));
  std::vector<std::optional<Spread>> open;
  std::vector<std::optional<Spread>> map;
  std::vector<std::optional<Spread>> replay;
  std::vector<std::optional<Spread>> heap;
  std::vector<std::optional<Spread>> each;
  std::vector<std::optional<Spread>> words;
  Spread none;  // what replaying nothing takes
  for (const std::uint64_t n : settings.replayed) {
    tell_progress(fmt::format("reincarnation: {} transactions", n), open.size(),
                  settings.replayed.size());
    std::vector<double> runs_open;
    std::vector<double> runs_map;
    std::vector<double> runs_replay;
    std::vector<double> runs_heap;
    double words_each = 0;
    for (unsigned run = 0; run < settings.rules.repetitions; ++run) {
      const Opening opening = kill_and_open(settings, n);
      runs_open.push_back(opening.whole_ms);
      runs_map.push_back(opening.whole_ms - opening.replay_ms - opening.heap_ms);
      runs_replay.push_back(opening.replay_ms);
      runs_heap.push_back(opening.heap_ms);
      words_each = opening.words;
    }
    open.emplace_back(spread_of(runs_open));
    map.emplace_back(spread_of(runs_map));
    replay.emplace_back(spread_of(runs_replay));
    heap.emplace_back(spread_of(runs_heap));
    if (n == 0) none = *replay.back();
    const Spread& all = *replay.back();
    const auto share = [&](double ms) { return (ms - none.median) * 1e3 / static_cast<double>(n); };
    // What is not more than the spread of nothing cannot be told from it.
    const bool seen_at_all = all.median - none.median > none.max - none.min;
    each.push_back(seen_at_all
                       ? std::optional(Spread{share(all.median), share(all.min), share(all.max)})
                       : std::nullopt);
    words.emplace_back(Spread{words_each, words_each, words_each});
  }
  section.add("open", "ms", Origin::kPerdure).values = std::move(open);
  section.add("map and check", "ms", Origin::kPerdure).values = std::move(map);
  section.add("heap rebuild", "ms", Origin::kPerdure).values = std::move(heap);
  section.add("replay", "ms", Origin::kPerdure).values = std::move(replay);
  section.add("replay, each transaction", "us", Origin::kDerived).values = std::move(each);
  section.add("words, each transaction", "words", Origin::kPerdure).values = std::move(words);
  section.series.back().charted = false;
  const auto add_paper = [&](const std::string& name, double ms) {
    section.add_values("paper: " + name, "ms", Origin::kPaper,
                       std::vector<std::optional<double>>(section.x.size(), ms));
  };
  add_paper("remap", paper::kRemapMs);
  add_paper("scavenge the heap", paper::kScavengeMs);
  paper::judge_reincarnation(section);
  return section;
}

}  // namespace perdure::bench::reproduce
