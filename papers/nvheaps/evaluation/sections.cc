// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/sections.h"

#include <algorithm>
#include <thread>

#include "papers/nvheaps/evaluation/claims.h"
#include "papers/pool.h"

namespace perdure::bench::nvheaps {

std::vector<unsigned> thread_counts() {
  const unsigned most = std::clamp(std::thread::hardware_concurrency(), 2u, kThreadsOfPaper);
  std::vector<unsigned> counts;
  for (unsigned count = 1; count <= most; count *= 2) counts.push_back(count);
  return counts;
}

HeapSetting heap_setting(const Settings& settings, Layer layer, const Memory& memory,
                         papers::EngineKind engine) {
  HeapSetting setting;
  setting.dir = settings.dir;
  setting.layer = layer;
  setting.memory = memory;
  setting.engine = engine;
  return setting;
}

std::vector<Spread> race_rates(const std::vector<Run>& runs, unsigned threads,
                               const RaceRules& rules) {
  std::vector<Contestant> contestants;
  for (const Run& run : runs) contestants.push_back({{}, run});
  Team team(threads);
  std::vector<Spread> rates;
  for (const Timing& timing : race(team, contestants, rules))
    rates.push_back({threads * 1e9 / timing.cpu_ns.median, threads * 1e9 / timing.slowest_cpu_ns,
                     threads * 1e9 / timing.fastest_cpu_ns});
  return rates;
}

std::vector<Spread> race_rates_by_wall(const std::vector<Run>& runs, unsigned threads,
                                       const RaceRules& rules) {
  Team team(threads, false);
  const auto seconds = [&](const Run& run, std::uint64_t operations) {
    std::vector<double> delays(threads);
    const double wall_ns = team.run([&](unsigned thread) {
                                 const double before = thread_delay_ns();
                                 run(operations, thread);
                                 delays[thread] = thread_delay_ns() - before;
                               })
                               .wall_ns;
    const double others = *std::max_element(delays.begin(), delays.end());
    return std::max(wall_ns - others, wall_ns / 100) / 1e9;
  };
  std::vector<std::uint64_t> operations(runs.size(), 16);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    double took = 0;
    while ((took = seconds(runs[i], operations[i])) < rules.seconds / 5) operations[i] *= 4;
    operations[i] =
        static_cast<std::uint64_t>(static_cast<double>(operations[i]) * rules.seconds / took) + 1;
  }
  std::vector<std::vector<double>> rates(runs.size());
  for (unsigned repetition = 0; repetition < rules.repetitions; ++repetition) {
    for (std::size_t i = 0; i < runs.size(); ++i)
      rates[i].push_back(static_cast<double>(operations[i] * threads) /
                         seconds(runs[i], operations[i]));
  }
  std::vector<Spread> spreads;
  for (std::vector<double>& of : rates) spreads.push_back(spread_of(std::move(of)));
  return spreads;
}

}  // namespace perdure::bench::nvheaps
