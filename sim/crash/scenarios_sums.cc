// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>

#include "perdure/api/pool_core.h"
#include "perdure/api/raise_limits.h"
#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

constexpr std::uint64_t kPages = 3;
using Pages = std::array<std::array<std::uint64_t, kPageBytes / kWordBytes>, kPages>;
constexpr std::array<const char*, 4> kRoots = {"north", "east", "south", "west"};

/// Each step writes to several pages, and all but the first to an area that was at rest.
Scenario summed() {
  Scenario s;
  s.name = "page-sums";
  s.claim =
      "every page that has a sum agrees with it, whenever a program that opens, writes and closes "
      "is cut";
  s.memory = false;
  s.page_sums = true;
  s.steps = 4;
  s.setup = [](Pool& pool) { pool.root<Pages>("pages"); };
  s.step = [](Pool& pool, std::uint64_t step) {
    Pages& pages = root_of<Pages>(pool, "pages");
    pool.atomically([&](Tx& tx) {
      for (auto& page : pages) tx.store(page[step], step);
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Pages& pages = root_of<Pages>(pool, "pages");
    for (const auto& page : pages) {
      for (std::uint64_t i = 1; i <= step + 1; ++i) {
        const std::uint64_t found = committed(pool, page[i]);
        if (found != (i <= step ? i : 0))
          return "word " + std::to_string(i) + " is " + std::to_string(found);
      }
    }
    return std::nullopt;
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return s;
}

/// A record that stands in the heap until it is home; its space is written without a record.
Scenario summed_spilled() {
  Scenario s = summed();
  s.name = "spilled-page-sums";
  s.claim += " (with records in the heap)";
  s.steps = 3;
  s.step = [](Pool& pool, std::uint64_t step) {
    Pages& pages = root_of<Pages>(pool, "pages");
    pool.atomically([&](Tx& tx) {
      for (auto& page : pages) {
        for (auto& word : page) tx.store(word, step);
      }
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Pages& pages = root_of<Pages>(pool, "pages");
    for (const auto& page : pages) {
      if (committed(pool, page.front()) != step || committed(pool, page.back()) != step)
        return "a page holds something else";
    }
    return std::nullopt;
  };
  return s;
}

/// Areas that come to rest while the pool is open, and are written again.
Scenario summed_quiet() {
  Scenario s = summed();
  s.name = "quiet-page-sums";
  s.claim += " (and lets rest what is quiet)";
  s.steps = 3;
  s.step = [step_of = s.step](Pool& pool, std::uint64_t step) {
    constexpr std::size_t kUnchecked = 500;
    Pages& pages = root_of<Pages>(pool, "pages");
    PageSums& sums = *core_of(pool).region().sums();
    pool.atomically([&](Tx& tx) { tx.store(pages[1][kUnchecked], step); });
    pool.checkpoint();
    sums.rest_quiet(64);
    sums.rest_quiet(64);
    step_of(pool, step);
  };
  return s;
}

/// Steps that write to the table of roots alone.
Scenario summed_roots() {
  Scenario s = summed();
  s.name = "root-sums";
  s.claim += " (and takes roots away)";
  s.steps = 3;
  s.setup = [](Pool& pool) {
    for (const char* name : kRoots) pool.root<std::uint64_t>(name);
  };
  s.step = [](Pool& pool, std::uint64_t step) {
    if (step > kRoots.size()) return;  // after recoveries
    pool.atomically([&](Tx& tx) { core_of(pool).remove_root(tx, kRoots[step - 1]); });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const std::size_t found =
        pool.read_only([&](Tx& tx) { return core_of(pool).roots(tx).size(); });
    if (found == kRoots.size() - std::min<std::size_t>(step, kRoots.size())) return std::nullopt;
    return std::to_string(found) + " roots are left";
  };
  s.reach = nullptr;
  return s;
}

/// Tables that come into the heap, and the rings with the sums behind them, where a crash has left
/// something.
Scenario summed_raised() {
  Scenario s = summed();
  s.memory = true;  // its sums are not kept there, but looked at
  s.setup = [setup_of = s.setup](Pool& pool) {
    setup_of(pool);
    Engine& engine = core_of(pool).engine();
    Word* const behind = core_of(pool).region().word(core_of(pool).region().grown_bytes());
    constexpr std::uint64_t kLeft = 8 * kPageBytes;
    for (std::uint64_t i = 0; i < kLeft / kWordBytes; ++i) engine.store(behind + i, ~Word{0});
    engine.flush(behind, kLeft, Site::kUserFlush);
    (void)engine.fence(Site::kUserFence);
  };
  s.name = "raised-page-sums";
  s.claim += " (and raises its limits)";
  s.steps = 3;
  s.raise_to = Limits{2 * s.geometry.capacity_bytes, 4, 70};
  return s;
}

}  // namespace

std::vector<Scenario> page_sum_scenarios() {
  return {summed(), summed_spilled(), summed_quiet(), summed_roots(), summed_raised()};
}

}  // namespace perdure::crash
