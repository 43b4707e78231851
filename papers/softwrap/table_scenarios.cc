// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "papers/scenarios.h"

namespace perdure::papers {
namespace {

using crash::on_second_thread;
using crash::root_of;
using crash::Scenario;
using crash::subject_of;

using Words = std::array<std::uint64_t, 320>;

/// Tables that are full after eight words, and change with nearly every step.
Scenario in_tables(Scenario s) {
  LabOptions options;
  options.tables.limits = {64, 16, 64};
  s.engine = explored<Tables>(options);
  s.truncation = Truncation::kWhenFull;
  return s;
}

/// Nothing, or which word is another.
std::optional<std::string> difference(Pool& pool, const Words& expected) {
  const Words& words = root_of<Words>(pool, "words");
  return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (const std::uint64_t word = tx.load(words[i]); word != expected[i])
        return "word " + std::to_string(i) + " is " + std::to_string(word);
    }
    return std::nullopt;
  });
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
    return difference(pool, expected);
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return in_tables(std::move(s));
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
                               for (std::uint64_t round = 0; round < 10; ++round) {
                                 pool.atomically([&](Tx& other) {
                                   for (std::uint64_t i = 0; i < 28; ++i)
                                     other.store(more[(round * 7 + i * 11) % more.size()], step);
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
  s.geometry.ring_bytes = 4 << 10;
  s.resume_steps = 1;
  s.depth = 1;
  return s;
}

/// Because of an old reader the same words stand in both tables when the older one closes; before that, `rounds` commits of others
/// fill a log, which is emptied.
Scenario overtaken(std::string name, std::string claim, int rounds) {
  constexpr std::uint64_t kCount = 8;
  const auto store = [](Pool& pool, std::size_t from, std::size_t count, std::uint64_t value) {
    Words& words = root_of<Words>(pool, "words");
    pool.atomically([&](Tx& tx) {
      for (std::size_t i = 0; i < count; ++i) tx.store(words[from + i], value);
    });
  };
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = 2;
  s.resume_steps = 0;
  s.depth = 1;
  s.setup = [](Pool& pool) { pool.root<Words>("words"); };
  s.step = [=](Pool& pool, std::uint64_t step) {
    const Words& words = root_of<Words>(pool, "words");
    pool.read_only([&](Tx& tx) {
      (void)tx.load(words[0]);
      on_second_thread([&] {
        store(pool, 0, kCount, step - 1);
        store(pool, 0, kCount, step);
        for (int round = 0; round < rounds; ++round) store(pool, 100, 24, step);
      });
    });
    store(pool, 200, kCount, step);
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Words& words = root_of<Words>(pool, "words");
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      for (std::uint64_t i = 0; i < kCount; ++i) {
        if (const std::uint64_t word = tx.load(words[i]); word != step)
          return "word " + std::to_string(i) + " is " + std::to_string(word);
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return in_tables(std::move(s));
}

/// A table knows a word of an object of whole segments, which is freed; the heap formats one of them, for more objects of half a
/// block than another segment takes; then the table goes home.
Scenario becomes_metadata() {
  struct Holder {
    std::array<perdure::pptr<std::uint64_t>, 1 + kMinSegmentBytes / 4096> objects;
    std::array<std::uint64_t, 8> words;
  };
  Scenario s;
  s.name = "softwrap-metadata";
  s.claim = "words of a freed object do not go home over what the heap made of its space";
  s.steps = 8;
  s.resume_steps = 4;
  s.geometry.capacity_bytes = 6 * kMinSegmentBytes;
  s.setup = [](Pool& pool) { pool.root<Holder>("holder"); };
  s.step = [](Pool& pool, std::uint64_t step) {
    Holder& holder = root_of<Holder>(pool, "holder");
    pool.atomically([&](Tx& tx) {
      const auto fill = [&](std::size_t count, std::size_t bytes) {
        for (std::size_t i = 0; i < count; ++i) {
          auto* object = static_cast<std::uint64_t*>(tx.allocate(bytes));
          tx.store(object[0], step);
          tx.store(holder.objects[i], tx.link_to(object));
        }
      };
      const auto clear = [&] {
        for (auto& object : holder.objects) {
          const auto link = tx.load(object);
          if (!link) continue;
          tx.free(tx.at(link));
          tx.store(object, {});
        }
      };
      switch (step % 4) {
        case 1: return fill(1, kMinSegmentBytes + 4096);
        case 2: return clear();
        case 3: return fill(holder.objects.size(), 4096);
        default: clear();
      }
      // Now a table is full.
      for (auto& word : holder.words) tx.store(word, step);
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Holder& holder = root_of<Holder>(pool, "holder");
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      const std::size_t count = step % 4 == 1 ? 1 : step % 4 == 3 ? holder.objects.size() : 0;
      for (std::size_t i = 0; i < holder.objects.size(); ++i) {
        const auto object = tx.load(holder.objects[i]);
        if (static_cast<bool>(object) != (i < count)) return "an object too few or too many";
        if (object && tx.load(*tx.at(object)) != step) return "an object of another step";
      }
      if (tx.load(holder.words[7]) != step / 4 * 4) return "words of another step";
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      for (const auto& object : root_of<Holder>(pool, "holder").objects) {
        if (const auto link = tx.load(object)) visit(tx.at(link));
      }
    });
  };
  return in_tables(std::move(s));
}

/// Every other step is of more words than a table takes, those of the step before among them, which a table still has.
Scenario large() {
  const auto place = [](std::uint64_t step, std::uint64_t i) { return (step * 11 + i * 37) % 320; };
  Scenario s;
  s.name = "softwrap-large";
  s.claim = "what no table has room for goes home at its commit, over older words";
  s.steps = 7;
  s.resume_steps = 4;
  s.geometry.ring_bytes = 8 << 10;
  s.setup = [](Pool& pool) { pool.root<Words>("words"); };
  const auto each = [place](std::uint64_t step, auto set) {
    for (std::uint64_t i = 0; i < 4; ++i) set(place(step, i));
    if (step % 2 != 0) return;
    for (std::uint64_t i = 0; i < 60; ++i) set(i);
    for (std::uint64_t i = 0; i < 4; ++i) set(place(step - 1, i));
  };
  s.step = [each](Pool& pool, std::uint64_t step) {
    Words& words = root_of<Words>(pool, "words");
    pool.atomically(
        [&](Tx& tx) { each(step, [&](std::uint64_t at) { tx.store(words[at], step); }); });
  };
  s.check = [each](Pool& pool, std::uint64_t step) {
    Words expected{};
    for (std::uint64_t past = 1; past <= step; ++past)
      each(past, [&](std::uint64_t at) { expected[at] = past; });
    return difference(pool, expected);
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return in_tables(std::move(s));
}

/// A table knows a word of an object that was freed, and whose space then takes a record that no log has room for.
Scenario spilled_over() {
  constexpr std::size_t kBytes = sizeof(Words) + 64;  // of the record's class
  using Holder = perdure::pptr<std::uint64_t>;
  Scenario s;
  s.name = "softwrap-spilled";
  s.claim = "words of a freed object do not go home over a record that was spilled there";
  s.steps = 6;
  s.resume_steps = 3;
  s.setup = [](Pool& pool) {
    pool.root<Words>("words");
    pool.root<Holder>("holder");
  };
  s.step = [](Pool& pool, std::uint64_t step) {
    Words& words = root_of<Words>(pool, "words");
    Holder& holder = root_of<Holder>(pool, "holder");
    pool.atomically([&](Tx& tx) {
      tx.store(words[0], step);
      switch (step % 3) {
        case 1: {
          auto* object = static_cast<std::uint64_t*>(tx.allocate(kBytes));
          tx.store(object[100], step);
          return tx.store(holder, tx.link_to(object));
        }
        case 2: tx.free(tx.at(tx.load(holder))); return tx.store(holder, {});
        default:
          for (std::size_t i = 1; i < words.size(); ++i) tx.store(words[i], step);
      }
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) {
    Words expected;
    expected.fill(step / 3 * 3);
    expected[0] = step;
    return difference(pool, expected);
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      if (const auto link = tx.load(root_of<Holder>(pool, "holder"))) visit(tx.at(link));
    });
  };
  return in_tables(std::move(s));
}

}  // namespace

std::vector<crash::Subject> table_scenarios() {
  return {
      subject_of(tables()), subject_of(long_reader()),
      subject_of(
          overtaken("softwrap-two-tables", "with one table only what it holds leaves the logs", 0)),
      // Eleven words of log each, which has 512.
      subject_of(overtaken("softwrap-overtaken",
                           "a table does not go home over what a newer one has brought there", 40)),
      subject_of(becomes_metadata()), subject_of(large()), subject_of(spilled_over())};
}

}  // namespace perdure::papers
