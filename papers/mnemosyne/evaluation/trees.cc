// SPDX-License-Identifier: BSD-3-Clause
// Table 5: inserting into a red-black tree in persistent memory against serialising a whole one.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "bench/system.h"
#include "bench/workload.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "papers/pool.h"
#include "perdure/container/rb_map.h"

namespace perdure::bench::reproduce {
namespace {

using Tree = rb_map<std::uint64_t, TreeValue>;

TreeValue value_of(std::uint64_t key) {
  TreeValue value{};
  value.words.fill(key);
  return value;
}

/// Different keys in random order; the same for both sides.
std::vector<std::uint64_t> shuffled_keys(std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> keys(count);
  std::iota(keys.begin(), keys.end(), std::uint64_t{1});
  Random random(seed);
  for (std::uint64_t i = count; i > 1; --i) std::swap(keys[i - 1], keys[random.below(i)]);
  return keys;
}

/// Inserts into a tree of `nodes`, made anew for each run.
Spread insert_us(const Settings& settings, std::uint64_t nodes) {
  const std::uint64_t inserts = std::min(settings.tree_inserts, nodes);
  const std::vector<std::uint64_t> keys = shuffled_keys(nodes + inserts, settings.seed);
  std::vector<double> runs;
  for (unsigned run = 0; run < settings.rules.repetitions; ++run) {
    const ScratchFile file(settings.dir, "tree");
    Pool pool = papers::create(file.path(), new_pool_options(settings.memory)).value();
    auto* tree = pool.root<Tree>("tree");
    const auto put = [&](std::uint64_t key) {
      pool.atomically([&](Tx& tx) { tree->put(tx, key, value_of(key)); });
    };
    for (std::uint64_t i = 0; i < nodes; ++i) put(keys[i]);
    const double start = thread_cpu_ns();
    for (std::uint64_t i = nodes; i < keys.size(); ++i) put(keys[i]);
    runs.push_back((thread_cpu_ns() - start) / 1e3 / static_cast<double>(inserts));
    const std::uint64_t size = pool.read_only([&](Tx& tx) { return tree->size(tx); });
    if (size != keys.size())
      throw Exception(Code::kCorrupt, file.path() + ": the tree holds " + std::to_string(size) +
                                          " nodes instead of " + std::to_string(keys.size()));
  }
  return spread_of(std::move(runs));
}

struct Serialization {
  Spread us;
  double device_us;
};
Serialization serialize_us(const Settings& settings, std::uint64_t nodes) {
  const ScratchFile file(settings.dir, "archive");
  VolatileTree tree;
  for (const std::uint64_t key : shuffled_keys(nodes, settings.seed)) tree[key] = value_of(key);
  PcmDisk disk(settings.memory);
  std::vector<double> runs;
  for (unsigned run = 0; run <= settings.rules.repetitions; ++run) {
    const double start = thread_cpu_ns();
    const std::uint64_t bytes = peers().serialize(tree, file.path());
    const std::uint64_t blocks = (bytes + PcmDisk::kBlockBytes - 1) / PcmDisk::kBlockBytes;
    disk.sync_blocks(static_cast<double>(blocks));
    if (run > 0) runs.push_back((thread_cpu_ns() - start) / 1e3);
  }
  if (peers().load(file.path()) != tree)
    throw Exception(Code::kCorrupt, file.path() + ": another tree came back than was written");
  return {spread_of(std::move(runs)), disk.busy_ns() / 1e3 / (settings.rules.repetitions + 1)};
}

}  // namespace

Section measure_trees(const Settings& settings) {
  Section section;
  section.id = "table5";
  section.title = "Table 5: updating a red-black tree against serialising it";
  section.method = fmt::format(
      "Inserts of new keys into our rb_map (nodes of 128 bytes: links, colour, key, 96 bytes of "
      "value), {} in a run, each a durable transaction; against a std::map of the same keys and "
      "values, written by Boost.Serialization (binary archive) into a file on the PCM-disk. CPU "
      "time.",
      settings.tree_inserts);
  section.x_name = "nodes";
  section.log_y = true;
  for (const std::uint64_t nodes : settings.tree_nodes)
    section.x.push_back(static_cast<double>(nodes));
  const bool with_peer = peers().serialize != nullptr;
  if (!with_peer)
    section.missing = "Boost.Serialization was not built in (libboost-serialization1.81-dev).";
  std::vector<std::optional<Spread>> inserts;
  std::vector<std::optional<Spread>> serialization;
  std::vector<std::optional<double>> device;
  for (const std::uint64_t nodes : settings.tree_nodes) {
    tell_progress(fmt::format("table 5: {} nodes", nodes), inserts.size(),
                  settings.tree_nodes.size());
    inserts.emplace_back(insert_us(settings, nodes));
    if (!with_peer) continue;
    const Serialization whole = serialize_us(settings, nodes);
    serialization.emplace_back(whole.us);
    device.emplace_back(whole.device_us);
  }
  section.add("insert", "us", Origin::kPerdure).values = std::move(inserts);
  if (with_peer) {
    section.add("serialize", "us", Origin::kPeer).values = std::move(serialization);
    section.add_values("serialize: device", "us", Origin::kDerived, device);
    section.add_ratio("inserts per serialization", "serialize", "insert");
  }
  const auto add_paper = [&](const std::string& name, const std::string& unit, auto value) {
    std::vector<std::optional<double>> values(section.x.size());
    for (std::size_t i = 0; i < section.x.size(); ++i) {
      for (const paper::TreeRow& row : paper::kTable5) {
        if (row.nodes == settings.tree_nodes[i]) values[i] = value(row);
      }
    }
    section.add_values("paper: " + name, unit, Origin::kPaper, values);
  };
  add_paper("insert", "us", [](const paper::TreeRow& row) { return row.insert_us; });
  add_paper("serialize", "us", [](const paper::TreeRow& row) { return row.serialize_us; });
  add_paper("inserts per serialization", "x",
            [](const paper::TreeRow& row) { return row.inserts_per_serialization; });
  paper::judge_trees(section);
  return section;
}

}  // namespace perdure::bench::reproduce
