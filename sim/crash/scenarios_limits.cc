// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "perdure/api/pool_core.h"
#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

constexpr std::uint64_t kBefore = 3;  // roots that the pool has before its limits are raised

std::string name_of(std::uint64_t number) { return "root " + std::to_string(number); }

/// Objects of a size that soon needs another segment, each a root.
struct Large {
  std::array<std::uint64_t, 5 * kPageBytes / kWordBytes> words;
};

void add(Pool& pool, std::uint64_t number) {
  Large* large = pool.root<Large>(name_of(number));
  pool.atomically([&](Tx& tx) {
    tx.store(large->words.front(), number);
    tx.store(large->words.back(), number);
  });
}

/// A pool that is full of roots after the first step. Each adds one, in a thread of its own, so in another log.
Scenario raised(std::string name, std::string claim, const Limits& limits) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.geometry.root_entries = kBefore + 1;
  s.steps = 4;
  s.raise_to = limits;
  s.setup = [](Pool& pool) {
    for (std::uint64_t i = 1; i <= kBefore; ++i) add(pool, i);
  };
  s.step = [](Pool& pool, std::uint64_t step) {
    const auto work = [&] { pool.atomically([&](Tx&) { add(pool, kBefore + step); }); };
    step % 2 == 0 ? on_second_thread(work) : work();
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    for (std::uint64_t i = 1; i <= kBefore + step + 1; ++i) {
      const Large* large = pool.find_root<Large>(name_of(i));
      if ((large != nullptr) != (i <= kBefore + step))
        return name_of(i) + (large != nullptr ? " is there" : " is gone");
      if (large != nullptr &&
          (committed(pool, large->words.front()) != i || committed(pool, large->words.back()) != i))
        return name_of(i) + " holds something else";
    }
    return std::nullopt;
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};  // roots are all that there is
  return s;
}

}  // namespace

std::vector<Scenario> limit_scenarios() {
  const Geometry small = Scenario{}.geometry;
  // A segment table moves, as root tables do, from 64 MiB on: too much to look at so many images of.
  return {
      raised("raised-limits",
             "a pool whose limits are raised has the old ones or the new ones, and all that it had",
             {3 * small.capacity_bytes, 66, 70})};
}

}  // namespace perdure::crash
