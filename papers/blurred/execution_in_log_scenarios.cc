// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstring>
#include <thread>

#include "papers/scenarios.h"
#include "perdure/api/pool_core.h"

namespace perdure::papers {
namespace {

using crash::root_of;
using crash::Scenario;
using crash::subject_of;

using Words = std::array<std::uint64_t, 64>;

/// Each step writes `count` words in one transaction, which `body` may do more in, after what `before` does.
Scenario words(std::string name, std::string claim, std::uint64_t steps, std::uint64_t count) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.engine = explored<Blurred>();
  s.setup = [](Pool& pool) { pool.root<Words>("words"); };
  s.step = [count](Pool& pool, std::uint64_t step) {
    Words& words = root_of<Words>(pool, "words");
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < count; ++i) tx.store(words[i], step);
    });
  };
  s.check = [count](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Words& words = root_of<Words>(pool, "words");
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      const std::uint64_t expected = i < count ? step : 0;
      if (words[i] != expected)
        return "word " + std::to_string(i) + " is " + std::to_string(words[i]);
    }
    return std::nullopt;
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return s;
}

/// A transaction of `count` words that is thrown out of.
void give_up(Pool& pool, std::uint64_t count) {
  struct GiveUp {};
  Words& words = root_of<Words>(pool, "words");
  try {
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < count; ++i) tx.store(words[i], 999999);
      throw GiveUp{};
    });
  } catch (const GiveUp&) {
  }
}

/// Holes of whole lines, over several laps of the ring, which sometimes fills while one is being made.
Scenario holes(std::string name, std::string claim, Truncation truncation) {
  Scenario s = words(std::move(name), std::move(claim), 28, 5);
  s.step = [step = s.step](Pool& pool, std::uint64_t number) {
    if (number % 2 == 0) {
      give_up(pool, 9 + number % 40);
      give_up(pool, 2);
    }
    step(pool, number);
  };
  s.truncation = truncation;
  s.resume_steps = 14;
  return s;
}

/// On files a log is written page by page, as the page stands at the fence. So a hole keeps the lap before only at the end
/// of a page whose last commit was durable before the hole was made (laps of one kind), and it looks written on the next
/// lap only to a commit that begins in it and reaches the page behind, if nothing else of the page was written before (laps of
/// the other kind).
Scenario holes_between_pages() {
  using Many = std::array<std::uint64_t, 300>;
  struct GiveUp {};
  constexpr std::uint64_t kPerPage = kPageBytes / xil::kRecordBytes;
  constexpr std::uint64_t kHole = 30;  // records: less than a sector
  constexpr std::uint64_t kStep = 60;  // more than that
  Scenario s;
  s.name = "in-log-pages";
  s.claim = "what was given up at the end of one page of a log is bridged, and never replayed";
  s.steps = 24;
  s.engine = explored<Blurred>();
  s.memory = false;
  s.geometry.ring_bytes = 4 * kPageBytes;  // three of them are for execution in log
  s.resume_steps = 9;
  s.setup = [](Pool& pool) {
    pool.root<Many>("many");
    pool.root<Many>("filler");
  };
  s.step = [](Pool& pool, std::uint64_t step) {
    Many& many = root_of<Many>(pool, "many");
    Many& filler = root_of<Many>(pool, "filler");
    const auto commit = [&](Many& to, std::uint64_t count) {
      pool.atomically([&](Tx& tx) {
        for (std::uint64_t i = 0; i < count; ++i) tx.store(to[i], step);
      });
    };
    const auto give_up = [&](std::uint64_t count) {
      try {
        pool.atomically([&](Tx& tx) {
          for (std::uint64_t i = 0; i < count; ++i) tx.store(many[i], 999999);
          throw GiveUp{};
        });
      } catch (const GiveUp&) {
      }
    };
    // Each closes with a record of its own.
    if (const auto& log = blurred::XilSideLog::of(core_of(pool).logs().slot(0)).log()) {
      const auto left = [&] { return kPerPage - log->begin() % kPerPage; };
      if (log->begin() / log->capacity_records() % 2 == 0) {
        if (left() > kHole + 2) commit(filler, left() - kHole - 1);
        // Now and then it ends with the page, and the commit behind must reach back to it.
        give_up(step % 4 == 0 ? left() - 1 : left() + 20);
      } else {
        if (left() > 1) give_up(left() - 1);
        give_up(kPerPage - kHole - 1);
      }
    }
    commit(many, kStep);
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Many& many = root_of<Many>(pool, "many");
    for (std::uint64_t i = 0; i < many.size(); ++i) {
      if (many[i] != (i < kStep ? step : 0))
        return "word " + std::to_string(i) + " is " + std::to_string(many[i]);
    }
    return std::nullopt;
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return s;
}

/// The thread that gave up is gone when another commits in the same log.
Scenario given_up_by_another() {
  Scenario s = words("in-log-handed-over",
                     "a commit counts behind what a thread that has ended gave up", 8, 3);
  s.step = [step = s.step](Pool& pool, std::uint64_t number) {
    std::thread([&] { give_up(pool, 12); }).join();
    std::thread([&] { step(pool, number); }).join();
  };
  return s;
}

/// A word rewritten in place, and moved when its record has counted enough rewrites.
Scenario rewritten() {
  Scenario s =
      words("in-log-rewritten",
            "of a word that a transaction rewrites in the log the last value counts", 5, 2);
  s.step = [](Pool& pool, std::uint64_t step) {
    Words& words = root_of<Words>(pool, "words");
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < 4 * step; ++i) tx.store(words[0], 1000 + i);
      tx.store(words[1], 7);
      tx.store(words[0], step);
      tx.store(words[1], step);
    });
  };
  return s;
}

/// What is rolled back in part leaves the log, and is committed in the one beside it.
Scenario savepoints() {
  Scenario s = words("in-log-savepoint",
                     "a transaction rolled back in part is there without that part", 6, 12);
  s.step = [whole = s.step](Pool& pool, std::uint64_t step) {
    if (step % 2 == 0) return whole(pool, step);
    Words& words = root_of<Words>(pool, "words");
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < 12; ++i) tx.store(words[i], step);
      const Tx::Savepoint savepoint = tx.save();
      for (std::uint64_t i = 6; i < 20; ++i) tx.store(words[i], 999999);
      tx.roll_back_to(savepoint);
    });
  };
  return s;
}

/// Bits of the heap's bitmaps, which take two records each; superblocks and extents, which are published in the middle.
Scenario objects() {
  struct Root {
    std::array<perdure::pptr<std::uint64_t>, 4> object;
  };
  Scenario s;
  s.name = "in-log-objects";
  s.claim = "objects are allocated, linked and freed by transactions that execute in the log";
  s.steps = 12;
  s.engine = explored<Blurred>();
  s.setup = [](Pool& pool) { pool.root<Root>("root"); };
  s.step = [](Pool& pool, std::uint64_t step) {
    Root& root = root_of<Root>(pool, "root");
    pool.atomically([&](Tx& tx) {
      auto& link = root.object[step % 4];
      if (const auto old = tx.load(link)) tx.free(tx.at(old));
      auto* object = static_cast<std::uint64_t*>(tx.allocate(step % 5 == 4 ? 9000 : 16 * step));
      tx.store(*object, step);
      tx.store(link, tx.link_to(object));
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      const Root& root = root_of<Root>(pool, "root");
      for (std::uint64_t i = 0; i < 4; ++i) {
        const std::uint64_t last = step - (step + 4 - i) % 4;  // that wrote this link
        const auto object = tx.load(root.object[i]);
        const bool expected = last > 0 && last <= step;
        if (static_cast<bool>(object) != expected) return "link " + std::to_string(i);
        if (object && tx.load(*tx.at(object)) != last) return "object " + std::to_string(i);
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      for (const auto& link : root_of<Root>(pool, "root").object) {
        if (const auto object = tx.load(link)) visit(tx.at(object));
      }
    });
  };
  return s;
}

/// Set up in the log; then the torn-bit log gets to a lap on which a ring of zeros, as it is made ready for execution in
/// log, would read as written.
Scenario engines_in_turn() {
  Scenario s = words("engines-in-turn",
                     "each open is by the other engine, which takes over the rings", 28, 40);
  s.engine = [](crash::Lab& lab) {
    // What the first log's head says of the last engine: an image has no other memory of it.
    Superblock super{};
    std::memcpy(&super, lab.base(), sizeof(super));
    const Word head = load_word(reinterpret_cast<const Word*>(lab.base() + super.head_offset));
    return unseal(head, kSaltInLogHead) ? explored<Mnemosyne>()(lab) : explored<Blurred>()(lab);
  };
  s.resume_steps = 3;
  return s;
}

}  // namespace

std::vector<crash::Subject> execution_in_log_scenarios() {
  return {
      subject_of(holes("in-log-holes",
                       "what was given up in an engine's log is never replayed, nor its holes",
                       Truncation::kAuto)),
      subject_of(holes("in-log-holes-each-commit",
                       "the same when home words are forced and records stay",
                       Truncation::kEachCommit)),
      subject_of(holes_between_pages()),
      subject_of(given_up_by_another()),
      subject_of(rewritten()),
      subject_of(savepoints()),
      subject_of(objects()),
      subject_of(engines_in_turn()),
  };
}

}  // namespace perdure::papers
