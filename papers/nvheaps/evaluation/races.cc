// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/races.h"

#include <algorithm>

#include "papers/pool.h"

namespace perdure::bench::nvheaps {
namespace {

std::vector<Way> all_ways(const Settings& settings) {
  const auto on = [&](Layer layer, const Memory& memory,
                      papers::EngineKind engine = papers::EngineKind::kMnemosyne) {
    return heap_setting(settings, layer, memory, engine);
  };
  std::vector<Way> ways = {{"BASE", on(Layer::kBase, kDram), false},
                           {"SAFE", on(Layer::kSafe, kDram), false},
                           {"NoDur", on(Layer::kNoDur, kDram), true}};
  for (const std::size_t plain : {0, 1}) {
    Way saved = ways[plain];
    saved.name = check_pointed(ways[plain].name);
    saved.setting.checkpoints = kCheckpointPeriod;
    ways.push_back(saved);
    saved.name = check_pointed_each_time(ways[plain].name);
    saved.setting.checkpoints = std::chrono::nanoseconds::zero();
    ways.push_back(saved);
  }
  for (const papers::EngineKind engine :
       {papers::EngineKind::kMnemosyne, papers::EngineKind::kUndoObjects}) {
    const auto name = [&](std::string_view way) {
      return engine == papers::EngineKind::kUndoObjects ? undo_of(way) : std::string(way);
    };
    ways.push_back({name("TX"), on(Layer::kTx, kDram, engine), false});
    for (const Memory& memory : kMemories)
      ways.push_back({name(memory.name), on(Layer::kCTx, memory, engine), true});
  }
  return ways;
}

/// Operations that take long enough to count, and not long.
std::uint64_t operations_to_count(const Settings& settings, double per_s) {
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(per_s * settings.rules.seconds), 20,
                                   20'000);
}

Cost cost_of(const Settings& settings, Work work, const Way& way, double per_s) {
  HeapSetting setting = way.setting;
  setting.count = true;
  const auto job = make_job(work, setting, settings.nvheaps.sizes, 1, settings.seed);
  const std::uint64_t operations = operations_to_count(settings, per_s);
  job->run(operations / 4, 0);
  const DomainCounts before = job->counts();
  job->run(operations, 0);
  const DomainCounts counts = job->counts() - before;
  const auto each = [&](std::uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(operations);
  };
  return {each(counts.flushes), each(counts.fences), each(counts.bytes())};
}

CheckpointCost per_checkpoint(const CheckpointCounts& counts) {
  const auto taken = static_cast<double>(std::max<std::uint64_t>(counts.taken, 1));
  return {static_cast<double>(counts.pages) / taken, static_cast<double>(counts.bytes) / taken};
}

}  // namespace

const Races::Outcome& Races::of(Work work, std::string_view way) const {
  const auto at =
      std::find_if(ways.begin(), ways.end(), [&](const Way& one) { return one.name == way; });
  return outcomes.at(static_cast<std::size_t>(work))
      .at(static_cast<std::size_t>(at - ways.begin()));
}

std::vector<std::optional<Spread>> Races::rates(std::string_view way, unsigned threads) const {
  std::vector<std::optional<Spread>> rates;
  for (const Work work : kAllWork) rates.emplace_back(of(work, way).per_s.at(threads));
  return rates;
}

Races race_all(const Settings& settings) {
  Races races;
  races.ways = all_ways(settings);
  const Sizes& sizes = settings.nvheaps.sizes;
  for (const Work work : kAllWork) {
    reproduce::tell_progress("figures 5 and 6: " + std::string(work_name(work)),
                             races.outcomes.size(), kAllWork.size());
    std::vector<Races::Outcome> outcomes(races.ways.size());
    std::vector<std::unique_ptr<Job>> jobs;
    for (const Way& way : races.ways)
      jobs.push_back(make_job(work, way.setting, sizes, way.in_threads ? thread_counts().back() : 1,
                              settings.seed));
    std::vector<CheckpointCounts> filled(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (races.ways[i].setting.checkpoints) filled[i] = jobs[i]->checkpoints();
    }
    for (const unsigned threads : thread_counts()) {
      std::vector<Run> runs;
      std::vector<std::size_t> whose;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (threads > 1 && !races.ways[i].in_threads) continue;
        whose.push_back(i);
        runs.push_back([job = jobs[i].get()](std::uint64_t operations, unsigned thread) {
          job->run(operations, thread);
        });
      }
      const std::vector<Spread> rates = race_rates(runs, threads, settings.rules);
      for (std::size_t i = 0; i < rates.size(); ++i)
        outcomes[whose[i]].per_s.insert_or_assign(threads, rates[i]);
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      jobs[i]->check();
      if (!races.ways[i].setting.checkpoints) continue;
      outcomes[i].checkpoint = per_checkpoint(jobs[i]->checkpoints() - filled[i]);
      jobs[i]->recover();
      jobs[i]->check();
    }
    jobs.clear();
    for (std::size_t i = 0; i < races.ways.size(); ++i) {
      const Way& way = races.ways[i];
      if (way.setting.layer == Layer::kCTx && way.setting.memory.name == kDram.name)
        outcomes[i].cost = cost_of(settings, work, way, outcomes[i].per_s.at(1).median);
    }
    races.outcomes.push_back(std::move(outcomes));
    const auto counted =
        make_counted_job(work, heap_setting(settings, Layer::kBase, kDram), sizes, settings.seed);
    races.lines.push_back(
        counted->touched_lines(operations_to_count(settings, races.rate(work, "BASE")) / 20));
  }
  return races;
}

}  // namespace perdure::bench::nvheaps
