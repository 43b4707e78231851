#include <array>

#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

using Words = std::array<std::uint64_t, 320>;

/// Tables that are full after eight words, and change with nearly every step.
Scenario aside(Scenario s) {
  s.engine = EngineKind::kSoftwrap;
  s.truncation = Truncation::kWhenFull;
  s.aliases = {64, 16, 64};
  return s;
}

/// Each step writes its number into `count` words, which lie apart and move on with the steps.
Scenario scattered(
    std::string name, std::string claim, std::uint64_t steps, std::uint64_t count,
    std::function<void(Pool&, std::uint64_t step, const std::function<void()>&)> run =
        [](Pool&, std::uint64_t, const std::function<void()>& work) { work(); }) {
  // Coprime to the number of words: as many of them as there are.
  const auto place = [](std::uint64_t step, std::uint64_t i) {
    return (step * 11 + i * 37) % std::tuple_size_v<Words>;
  };
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.geometry.ring_bytes = 8 << 10;
  s.setup = [](Pool& pool) { pool.root<Words>("words"); };
  s.step = [=, run = std::move(run)](Pool& pool, std::uint64_t step) {
    run(pool, step, [&] {
      Words& words = root_of<Words>(pool, "words");
      pool.atomically([&](Tx& tx) {
        for (std::uint64_t i = 0; i < count; ++i) tx.store(words[place(step, i)], step);
      });
    });
  };
  s.check = [=](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    Words expected{};
    for (std::uint64_t past = 1; past <= step; ++past) {
      for (std::uint64_t i = 0; i < count; ++i) expected[place(past, i)] = past;
    }
    const Words& words = root_of<Words>(pool, "words");
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      for (std::size_t i = 0; i < words.size(); ++i) {
        if (const std::uint64_t word = tx.load(words[i]); word != expected[i])
          return "word " + std::to_string(i) + " is " + std::to_string(word);
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return aside(std::move(s));
}

/// Full, closed, retired and empty again, within the commit that finds the table full.
Scenario tables() {
  Scenario s =
      scattered("softwrap-tables",
                "words go home from a table, and only then does their record leave the log", 14, 5);
  s.resume_steps = 6;
  return s;
}

/// While a transaction of the first thread is open, a table that it may look into is not used again: the other one fills up,
/// commits go home past it, and a full log is emptied although nothing can be closed.
Scenario long_reader() {
  Scenario s = scattered("softwrap-long-reader",
                         "commits go on, durable, while an old reader keeps tables in use", 9, 3,
                         [](Pool& pool, std::uint64_t step, const std::function<void()>& work) {
                           if (step % 3 != 0) return on_second_thread(work);
                           Words& words = root_of<Words>(pool, "words");
                           Words& more = root_of<Words>(pool, "more");
                           pool.read_only([&](Tx& tx) {
                             (void)tx.load(words[0]);
                             on_second_thread([&] {
                               for (std::uint64_t round = 0; round < 30; ++round) {
                                 pool.atomically([&](Tx& other) {
                                   for (std::uint64_t i = 0; i < 4; ++i)
                                     other.store(more[round * 4 + i], step);
                                 });
                               }
                               work();
                             });
                           });
                         });
  s.setup = [](Pool& pool) {
    pool.root<Words>("words");
    pool.root<Words>("more");
  };
  s.resume_steps = 3;
  s.depth = 1;
  return s;
}

/// What the tables, and what the log, have no room for.
Scenario large() {
  Scenario s = scattered("softwrap-large",
                         "what no table has room for goes home at its commit, over older words", 7,
                         4, [](Pool& pool, std::uint64_t step, const std::function<void()>& work) {
                           if (step % 2 != 0) return work();
                           Words& words = root_of<Words>(pool, "words");
                           const std::uint64_t count = step % 4 == 0 ? words.size() : 60;
                           pool.atomically([&](Tx& tx) {
                             for (std::uint64_t i = 0; i < count; ++i) {
                               const std::uint64_t word = tx.load(words[i]);
                               tx.store(words[i], word + 1);
                               tx.store(words[i], word);
                             }
                             work();
                           });
                         });
  s.resume_steps = 4;
  return s;
}

}  // namespace

Scenario softwrap(Scenario s) {
  s.name = "softwrap-" + s.name;
  s.claim += " (words go home from a table)";
  return aside(std::move(s));
}

std::vector<Subject> softwrap_scenarios() {
  return {subject_of(tables()), subject_of(long_reader()), subject_of(large())};
}

}  // namespace perdure::crash
