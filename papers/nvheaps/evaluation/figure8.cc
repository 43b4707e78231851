// SPDX-License-Identifier: BSD-3-Clause
// Figure 8: memcached. Every server is a process of its own; all are filled, and then asked by turns.
#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "bench/memcached/servers.h"
#include "papers/nvheaps/evaluation/claims.h"
#include "papers/nvheaps/evaluation/sections.h"

namespace perdure::bench::nvheaps {
namespace {

constexpr unsigned kConnections = 4;
constexpr double kLonger = 4;  // than an experiment within one process, which others disturb less

/// What the section calls those that `bench memcached` measures, too.
std::string name_in_figure(const std::string& name) {
  if (name == "BDB safe tmpfs") return "Berkeley DB, synced";
  if (name == "BDB fast tmpfs") return "Berkeley DB, not synced";
  return name;
}

std::vector<memcached::ServerKind> kinds_of_figure(bool offline) {
  std::vector<memcached::ServerKind> kinds;
  for (memcached::ServerKind& kind : memcached::server_kinds("", offline)) {
    const std::string name = name_in_figure(kind.name);
    if (name != "memcached" && name == kind.name) continue;
    kind.name = name;
    kinds.push_back(std::move(kind));
  }
  for (memcached::ServerKind& kind : memcached::object_server_kinds())
    kinds.push_back(std::move(kind));
  return kinds;
}

}  // namespace

Section measure_memcached(const Settings& settings) {
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  memcached::LoadOptions load;
  load.connections = kConnections;
  load.seed = settings.seed;
  Section section;
  section.id = "figure8";
  section.title = "Figure 8: memcached";
  section.method = fmt::format(
      "Insertions and deletions, two operations each, of {}-byte keys and {}-byte values beside {} "
      "items, by {} connections of libmemcached on a Unix socket; {} threads in each server, on "
      "the "
      "CPUs of the clients. Ours and Berkeley DB's hash table (in the place of Memcachedb) answer "
      "through the front end of `perdure serve`. Berkeley DB's files are on {}, which is not "
      "slowed down.",
      load.key_bytes, load.value_bytes, load.keys, kConnections, threads, settings.dir);
  section.x_name = "insertions and deletions";
  section.x = {1};
  section.log_y = true;
  std::vector<memcached::RunningServer> servers;
  for (const memcached::ServerKind& kind : kinds_of_figure(settings.name == "quick"))
    servers.emplace_back(kind, settings.dir, threads, std::uint16_t{0}, load);
  std::vector<std::vector<double>> rates(servers.size());
  const unsigned turns = settings.rules.repetitions + 1;
  for (unsigned turn = 0; turn < turns; ++turn) {
    reproduce::tell_progress("figure 8", turn, turns);
    for (std::size_t i = 0; i < servers.size(); ++i) {
      servers[i].load.seed = settings.seed + turn;
      const double rate =
          run_load(servers[i].load, memcached::Mix::kInsertDelete, kLonger * settings.rules.seconds)
              .per_second;
      if (turn > 0) rates[i].push_back(rate);  // the first warms up
    }
  }
  bool original = false;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const std::string& name = servers[i].kind.name;
    const bool ours = name.starts_with("NV-heap");
    original = original || name == "memcached";
    section.add(name, "operations/s", ours ? Origin::kPerdure : Origin::kPeer).values = {
        spread_of(rates[i])};
  }
  section.missing = "The paper's values are in a picture only; its text's stand below.";
  if (!original)
    section.missing += " memcached is not installed; `perdure-lab bench memcached` fetches it.";
  judge_memcached(section);
  return section;
}

}  // namespace perdure::bench::nvheaps
