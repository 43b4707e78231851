// SPDX-License-Identifier: BSD-3-Clause
// The experiments of NV-heaps (§5): each measures, puts the paper's values beside what it found, and judges.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/section.h"
#include "measure/settings.h"
#include "papers/nvheaps/evaluation/heap_setting.h"
#include "papers/pool.h"

namespace perdure::bench::nvheaps {

using reproduce::Origin;
using reproduce::Section;
using reproduce::Settings;

/// Table 1: basic operations.
Section measure_operations(const Settings& settings);
/// Figure 4: the size of transactions.
Section measure_transaction_sizes(const Settings& settings);
/// Figures 5 and 6, both engines beside each other, and a bound for slower reads: views of the same runs.
std::vector<Section> measure_benchmarks(const Settings& settings);
/// Figure 7: other systems.
Section measure_other_systems(const Settings& settings);
/// Figure 8: memcached. Built where libmemcached and libevent are.
Section measure_memcached(const Settings& settings);

// ---- what they share ----------------------------------------------------------------------------------------------------------

inline constexpr unsigned kThreadsOfPaper = 8;
/// What a series is called that so many threads made.
inline std::string in_threads(const std::string& way, unsigned threads) {
  return way + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}
/// How many threads race: 1, 2 and so on, doubled, up to the CPUs of the machine and the paper's eight; two at least.
std::vector<unsigned> thread_counts();
HeapSetting heap_setting(const Settings& settings, Layer layer, const Memory& memory,
                         papers::EngineKind engine = papers::EngineKind::kMnemosyne);
/// Operations per second, of all threads together, of those that run by turns: run[i](operations, thread). By CPU time, so that
/// other jobs of the machine cost little.
using Run = std::function<void(std::uint64_t operations, unsigned thread)>;
std::vector<Spread> race_rates(const std::vector<Run>& runs, unsigned threads,
                               const RaceRules& rules);
/// The same where devices and locks are waited for: by the clock, without the time for which others had the CPU.
/// Requires: as many CPUs as threads.
std::vector<Spread> race_rates_by_wall(const std::vector<Run>& runs, unsigned threads,
                                       const RaceRules& rules);

}  // namespace perdure::bench::nvheaps
