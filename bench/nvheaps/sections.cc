#include "bench/nvheaps/sections.h"

#include <numeric>

#include "bench/nvheaps/paper_nvheaps.h"

namespace perdure::bench::nvheaps {

HeapSetting heap_setting(const Settings& settings, Layer layer, const Memory& memory,
                         EngineKind engine) {
  HeapSetting setting;
  setting.dir = settings.dir;
  setting.layer = layer;
  setting.memory = memory;
  setting.engine = engine;
  return setting;
}

void judge(Section& section, std::string_view claim, std::string found, bool agrees,
           std::string why) {
  section.judgements.push_back(
      {std::string(claim), std::move(found), agrees, agrees ? "" : std::move(why)});
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double loss_percent(double before, double after) { return 100 * (1 - after / before); }

std::vector<Spread> race_rates(const std::vector<Run>& runs, unsigned threads,
                               const RaceRules& rules, bool by_wall) {
  std::vector<Contestant> contestants;
  for (const Run& run : runs) contestants.push_back({{}, run});
  Team team(threads, !by_wall);
  std::vector<Spread> rates;
  for (const Timing& timing : race(team, contestants, rules)) {
    const double all = by_wall ? 1e9 : threads * 1e9;
    rates.push_back(by_wall ? Spread{all / timing.wall_ns.median, all / timing.slowest_wall_ns,
                                     all / timing.fastest_wall_ns}
                            : Spread{all / timing.cpu_ns.median, all / timing.slowest_cpu_ns,
                                     all / timing.fastest_cpu_ns});
  }
  return rates;
}

Section tell_of_memcached(const Settings&) {
  Section section;
  section.id = "figure8";
  section.title = "Figure 8: memcached";
  section.method = std::string(paper::kMemcached) + ".";
  section.missing =
      "Not measured here: `perdure bench memcached` runs a server that speaks memcached's protocol "
      "on an object heap, beside others, and tells throughput and guarantees.";
  return section;
}

}  // namespace perdure::bench::nvheaps
