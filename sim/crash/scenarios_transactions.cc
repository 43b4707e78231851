// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <vector>

#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

using Words = std::array<std::uint64_t, 512>;

/// What word `index` holds after `step` steps of a scenario in which every step writes every word.
std::uint64_t pattern(std::uint64_t step, std::uint64_t index) {
  return step == 0 ? 0 : step * 1000 + index;
}

/// Each step writes `count` words, `stride` words apart, in one transaction.
Scenario cells(std::string name, std::string claim, std::uint64_t steps, std::uint64_t count,
               std::uint64_t stride) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.setup = [](Pool& pool) { pool.root<Words>("cells"); };
  s.step = [count, stride](Pool& pool, std::uint64_t step) {
    Words& words = root_of<Words>(pool, "cells");
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < count; ++i) tx.store(words[i * stride], pattern(step, i));
    });
  };
  s.check = [count, stride](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Words& words = root_of<Words>(pool, "cells");
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t found = tx.load(words[i * stride]);
        if (found != pattern(step, i))
          return "word " + std::to_string(i) + " is " + std::to_string(found);
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return s;
}

Scenario laps() {
  Scenario s = cells("laps", "records of 40 words wrap the ring and are truncated", 30, 40, 1);
  s.resume_steps = 14;  // more than a lap of the ring after each recovery
  return s;
}

/// The same where a log is emptied in other ways than the default.
Scenario laps_truncated(std::string name, std::string claim, Truncation truncation) {
  Scenario s = laps();
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = 16;
  s.truncation = truncation;
  s.file = truncation != Truncation::kWhenFull;  // there it is the default
  return s;
}

/// A record of many lines, of which a line log streams all but the first. A commit that is built in
/// the ring does not, so this is one of another truncation.
Scenario streamed() {
  Scenario s = cells("streamed", "a record of many lines is whole or not seen", 6, 450, 1);
  s.geometry.ring_bytes = 16 << 10;
  s.truncation = Truncation::kWhenFull;
  s.resume_steps = 4;
  s.file = false;
  return s;
}

/// On memory in torn-bit logs, as in pools of earlier releases.
Scenario in_tornbit_logs(Scenario s) {
  s.name = "tornbit-" + s.name;
  s.claim += " (in torn-bit logs)";
  s.tornbit_logs = true;
  s.file = false;
  return s;
}

/// On files a ring is written page by page, and a record may be torn between two.
Scenario two_page_ring() {
  Scenario s = cells(
      "two-page-ring",
      "records that cross from one page of the ring to the next are whole or not seen", 26, 40, 1);
  s.geometry.ring_bytes = 2 * kPageBytes;
  // As many as fill the first page: if recovery left the second as it was, the next joins them.
  s.resume_steps = 14;
  s.memory = false;
  return s;
}

/// Words all over a pool's pages, whose log doubles twice, over the rings of the slots that no thread
/// uses on a file.
Scenario growing_log() {
  struct Table {
    std::array<std::uint64_t, 16 * kPageBytes / kWordBytes> words;
  };
  constexpr std::uint64_t kEach = 24;
  constexpr std::uint64_t kApart = Table{}.words.size() / kEach;
  Scenario s;
  s.name = "growing-log";
  s.claim = "a log that doubles in place keeps what it holds, and finds what is appended then";
  s.steps = 40;
  s.resume_steps = 14;
  s.memory = false;
  s.geometry.log_slots = 4;
  s.log_limit_bytes = 4 * s.geometry.ring_bytes;
  s.step = [](Pool& pool, std::uint64_t step) {
    Table& table = *pool.root<Table>("table");
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < kEach; ++i) tx.store(table.words[i * kApart + step % 8], step);
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Table* table = pool.find_root<Table>("table");
    std::optional<std::string> wrong;
    pool.read_only([&](Tx& tx) {
      for (std::uint64_t i = 0; i < kEach * 8; ++i) {
        const std::uint64_t at = i / 8 * kApart + i % 8;
        const std::uint64_t back = (step + 8 - i % 8) % 8;
        const std::uint64_t expected = back < step ? step - back : 0;
        const std::uint64_t found = table == nullptr ? 0 : tx.load(table->words[at]);
        if (found != expected)
          wrong = "word " + std::to_string(at) + " is " + std::to_string(found) + ", not " +
                  std::to_string(expected);
      }
    });
    return wrong;
  };
  return s;
}

/// The same, doubled by a thread that appends nothing then.
Scenario growing_log_elsewhere() {
  Scenario s = growing_log();
  s.name = "growing-log-elsewhere";
  s.claim = "a log that one thread doubles keeps what another one appends to it";
  s.steps = 34;
  s.step = [step = s.step](Pool& pool, std::uint64_t number) {
    if (number % 20 == 6) on_second_thread([&] { pool.checkpoint(); });
    step(pool, number);
  };
  return s;
}

/// Neighbours in one word, written by different steps.
Scenario bytes() {
  using Bytes = std::array<std::uint8_t, 16>;
  Scenario s;
  s.name = "bytes";
  s.claim = "a transaction that writes bytes keeps their neighbours in the same word";
  s.steps = 6;
  s.step = [](Pool& pool, std::uint64_t step) {
    Bytes& bytes = *pool.root<Bytes>("bytes");
    pool.atomically([&](Tx& tx) {
      tx.store(bytes[step % 16], static_cast<std::uint8_t>(step));
      tx.store(bytes[(step + 9) % 16], static_cast<std::uint8_t>(step + 100));
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    Bytes expected{};
    for (std::uint64_t i = 1; i <= step; ++i) {
      expected[i % 16] = static_cast<std::uint8_t>(i);
      expected[(i + 9) % 16] = static_cast<std::uint8_t>(i + 100);
    }
    const Bytes* bytes = pool.find_root<Bytes>("bytes");
    if ((bytes == nullptr ? Bytes{} : committed(pool, *bytes)) == expected) return std::nullopt;
    return "the bytes are others";
  };
  return s;
}

/// Every other transaction is thrown out of, after stores, an allocation and a free.
Scenario aborts() {
  struct Root {
    std::uint64_t value;
    perdure::pptr<std::uint64_t> object;
  };
  struct GiveUp {};
  Scenario s;
  s.name = "aborts";
  s.claim = "a transaction left by an exception leaves nothing behind, in memory or on the media";
  s.steps = 5;
  s.setup = [](Pool& pool) {
    Root& root = *pool.root<Root>("root");
    pool.atomically([&](Tx& tx) {
      auto* object = static_cast<std::uint64_t*>(tx.allocate(64));
      tx.store(*object, 7);
      tx.store(root.object, tx.link_to(object));
    });
  };
  s.step = [](Pool& pool, std::uint64_t step) {
    Root& root = root_of<Root>(pool, "root");
    try {
      pool.atomically([&](Tx& tx) {
        tx.store(root.value, 999999);
        auto* object = tx.at(tx.load(root.object));
        tx.store(*object, 888888);
        tx.free(object);
        tx.store(root.object, tx.link_to(static_cast<std::uint64_t*>(tx.allocate(48))));
        throw GiveUp{};
      });
    } catch (const GiveUp&) {
    }
    pool.atomically([&](Tx& tx) { tx.store(root.value, step); });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      const Root& root = root_of<Root>(pool, "root");
      if (tx.load(root.value) != step) return "the value is " + std::to_string(tx.load(root.value));
      if (tx.load(*tx.at(tx.load(root.object))) != 7) return std::string("the object was changed");
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    const Root& root = root_of<Root>(pool, "root");
    pool.read_only([&](Tx& tx) { visit(tx.at(tx.load(root.object))); });
  };
  return s;
}

/// Explicit checkpoints between transactions.
Scenario checkpoints() {
  Scenario s =
      cells("checkpoints", "an explicit checkpoint between transactions changes nothing", 6, 3, 9);
  s.step = [step = s.step](Pool& pool, std::uint64_t number) {
    step(pool, number);
    if (number % 2 == 0) pool.checkpoint();
  };
  return s;
}

/// A step that is too large for the ring, between small ones.
Scenario spilled() {
  Scenario s =
      cells("spilled-record", "a transaction larger than half its ring is as atomic as a small one",
            4, 300, 1);
  s.step = [large = s.step](Pool& pool, std::uint64_t step) {
    // A small record of an earlier transaction in the ring, to be retired before the large one.
    Words& words = root_of<Words>(pool, "cells");
    pool.atomically([&](Tx& tx) { tx.store(words[511], step); });
    large(pool, step);
  };
  return s;
}

/// A step that writes its words as one run, some of them once more, between small ones; its record is
/// spilled or not.
Scenario in_bulk(std::string name, std::string claim, std::uint64_t count) {
  Scenario s = cells(std::move(name), std::move(claim), 4, count, 1);
  s.bulk_bytes = 2 * kLineBytes;
  s.step = [count](Pool& pool, std::uint64_t step) {
    Words& words = root_of<Words>(pool, "cells");
    std::vector<std::uint64_t> run(count);
    for (std::uint64_t i = 0; i < count; ++i) run[i] = pattern(step, i);
    pool.atomically([&](Tx& tx) { tx.store(words[511], step); });
    pool.atomically([&](Tx& tx) {
      // What is written before and behind the run has its entries before the run's.
      tx.store(words[3], step);
      tx.store(words[510], step);
      tx.write(&words[1], &run[1], (count - 1) * kWordBytes);
      tx.store(words[5], step);
      tx.store(words[0], run[0]);
      tx.store(words[5], run[5]);
    });
  };
  return s;
}
Scenario written_in_bulk() {
  return in_bulk("bulk", "a run of words that is written at once is there whole or not at all", 40);
}
Scenario spilled_bulk() {
  return in_bulk("spilled-bulk", "and so is one whose record is larger than half its ring", 300);
}

/// One large transaction that also allocates: its own memory and the spilled record's must not
/// collide.
Scenario spilled_object() {
  struct Root {
    perdure::pptr<Words> object;
  };
  Scenario s;
  s.name = "spilled-object";
  s.claim =
      "a large object is filled and linked by one spilled transaction, and its predecessor freed";
  s.steps = 3;
  s.in_place_bytes = ~std::size_t{0};
  s.setup = [](Pool& pool) { pool.root<Root>("root"); };
  s.step = [](Pool& pool, std::uint64_t step) {
    Root& root = root_of<Root>(pool, "root");
    pool.atomically([&](Tx& tx) {
      if (const auto old = tx.load(root.object)) tx.free(tx.at(old));
      auto* words = static_cast<Words*>(tx.allocate(sizeof(Words)));
      for (std::uint64_t i = 0; i < words->size(); ++i) tx.store((*words)[i], pattern(step, i));
      tx.store(root.object, tx.link_to(words));
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      const Root& root = root_of<Root>(pool, "root");
      const perdure::pptr<Words> object = tx.load(root.object);
      if (!object)
        return step == 0 ? std::nullopt : std::optional<std::string>("there is no object");
      for (std::uint64_t i = 0; i < 512; ++i) {
        if (tx.load((*tx.at(object))[i]) != pattern(step, i)) return "word " + std::to_string(i);
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      const perdure::pptr<Words> object = tx.load(root_of<Root>(pool, "root").object);
      if (object) visit(tx.at(object));
    });
  };
  return s;
}

/// An object is made, changed and freed, again and again in the same memory, of which the log still tells.
Scenario in_place() {
  using Object =
      std::array<std::uint64_t, 10>;  // a line, which is written through, and a part of one
  struct Root {
    perdure::pptr<Object> object;
  };
  const auto content = [](std::uint64_t step) {
    Object object;
    for (std::uint64_t i = 0; i < object.size(); ++i) object[i] = pattern(step, i);
    return object;
  };
  Scenario s;
  s.name = "in-place";
  s.claim =
      "an object that is initialised in place is there with the link to it, and is not what the "
      "log "
      "says of its memory";
  s.steps = 9;
  s.file = false;
  s.in_place_bytes = sizeof(Object);
  s.setup = [](Pool& pool) { pool.root<Root>("root"); };
  s.step = [content](Pool& pool, std::uint64_t step) {
    Root& root = root_of<Root>(pool, "root");
    pool.atomically([&](Tx& tx) {
      if (step % 3 == 1) {
        auto* object = static_cast<Object*>(tx.allocate(sizeof(Object)));
        const Object fresh = content(step);
        tx.write(object, fresh.data(), sizeof(fresh));
        tx.store(root.object, tx.link_to(object));
      } else if (step % 3 == 2) {
        const Object changed = content(step);
        tx.write(tx.at(tx.load(root.object)), changed.data(), sizeof(changed));
      } else {
        tx.free(tx.at(tx.load(root.object)));
        tx.store(root.object, {});
      }
    });
  };
  s.check = [content](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      const perdure::pptr<Object> object = tx.load(root_of<Root>(pool, "root").object);
      if (static_cast<bool>(object) != (step % 3 != 0)) return std::string("the link is another");
      if (!object) return std::nullopt;
      Object found;
      tx.read(found.data(), tx.at(object), sizeof(found));
      return found == content(step) ? std::nullopt
                                    : std::optional<std::string>("the object is another");
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      const perdure::pptr<Object> object = tx.load(root_of<Root>(pool, "root").object);
      if (object) visit(tx.at(object));
    });
  };
  return s;
}
/// Two objects in one transaction: the lines of the first are written past the cache, those of the second are flushed.
Scenario in_place_pair() {
  using Object = std::array<std::uint64_t, 10>;
  struct Root {
    std::array<perdure::pptr<Object>, 2> objects;
  };
  Scenario s;
  s.name = "in-place-pair";
  s.claim = "two objects that one transaction initialises in place replace two, both or none";
  s.steps = 3;
  s.file = false;
  s.in_place_bytes = sizeof(Object);
  s.setup = [](Pool& pool) { pool.root<Root>("root"); };
  s.step = [](Pool& pool, std::uint64_t step) {
    Root& root = root_of<Root>(pool, "root");
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t which = 0; which < 2; ++which) {
        if (const auto old = tx.load(root.objects[which])) tx.free(tx.at(old));
        auto* object = static_cast<Object*>(tx.allocate(sizeof(Object)));
        Object fresh;
        for (std::uint64_t i = 0; i < fresh.size(); ++i) fresh[i] = pattern(2 * step + which, i);
        tx.write(object, fresh.data(), sizeof(fresh));
        tx.store(root.objects[which], tx.link_to(object));
      }
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      for (std::uint64_t which = 0; which < 2; ++which) {
        const auto object = tx.load(root_of<Root>(pool, "root").objects[which]);
        if (static_cast<bool>(object) != (step > 0)) return std::string("the link is another");
        if (!object) return std::nullopt;
        for (std::uint64_t i = 0; i < 10; ++i) {
          if (tx.load((*tx.at(object))[i]) != pattern(2 * step + which, i))
            return std::string("the object is another");
        }
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      for (const auto& slot : root_of<Root>(pool, "root").objects) {
        if (const auto object = tx.load(slot)) visit(tx.at(object));
      }
    });
  };
  return s;
}
Scenario in_place_when_full() {
  Scenario s = in_place();
  s.name += "-when-full";
  s.claim += "; home words in bulk";
  s.truncation = Truncation::kWhenFull;
  return s;
}

}  // namespace

std::vector<Scenario> transaction_scenarios() {
  return {
      cells("word", "one word, one transaction a step", 6, 1, 1),
      cells("lines", "one transaction over six lines is there whole or not at all", 4, 6, 9),
      cells("run", "one transaction over neighbours in two lines", 4, 12, 1),
      bytes(),
      aborts(),
      checkpoints(),
      laps(),
      laps_truncated("each-commit",
                     "home words are forced and the record dropped within the commit",
                     Truncation::kEachCommit),
      laps_truncated("when-full", "logs are emptied only when full, in bulk",
                     Truncation::kWhenFull),
      cells("small-laps", "many small records fill the ring and wrap it", 140, 1, 1),
      streamed(),
      in_tornbit_logs(laps()),
      in_tornbit_logs(
          cells("lines", "one transaction over six lines is there whole or not at all", 4, 6, 9)),
      in_tornbit_logs(spilled()),
      in_tornbit_logs(written_in_bulk()),
      two_page_ring(),
      growing_log(),
      growing_log_elsewhere(),
      spilled(),
      spilled_object(),
      written_in_bulk(),
      spilled_bulk(),
      in_place(),
      in_place_when_full(),
      in_place_pair(),
      in_private_pages(bytes()),
      in_private_pages(aborts()),
      in_private_pages(laps()),
      in_private_pages(spilled()),
      in_private_pages(spilled_object()),
      in_private_pages(written_in_bulk()),
      in_private_pages(spilled_bulk()),
  };
}

}  // namespace perdure::crash
