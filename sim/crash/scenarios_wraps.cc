// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "perdure/api/pool_core.h"
#include "perdure/wraps.h"
#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

struct Story {
  std::array<std::uint64_t, 16> words;
  pptr<std::uint64_t> object;
};
constexpr std::uint64_t kCommitted = 5;  // of the words; what stands behind them was never closed
constexpr std::uint64_t kObjectWords = 20;  // enough for shadow pages

/// Each step is a wrap that stores words and an extent, allocates, and frees what the last one allocated, while another
/// thread has one open that is aborted later.
Scenario story() {
  Scenario s;
  s.name = "wraps";
  s.claim = "a wrap is there whole or not at all, and of one that never closed nothing is";
  s.steps = 4;
  s.setup = [](Pool& pool) { pool.root<Story>("story"); };
  s.step = [](Pool& pool, std::uint64_t step) {
    Story& story = root_of<Story>(pool, "story");
    Wraps wraps(pool, {{32, 16, 64}, 8, std::chrono::milliseconds(0)});
    on_second_thread([&] {
      wraps.open();
      for (std::uint64_t i = kCommitted; i < story.words.size(); ++i)
        wraps.store(story.words[i], 99);
      (void)wraps.allocate(64);
    });
    wraps.run([&] {
      for (std::uint64_t i = 0; i < kCommitted; ++i) wraps.store(story.words[i], step);
      wraps.run([&] {
        const Offset old = wraps.load(story.object.offset);
        auto* object = static_cast<std::uint64_t*>(wraps.allocate(kObjectWords * kWordBytes));
        std::array<std::uint64_t, kObjectWords> content;
        content.fill(step);
        wraps.write(object, content.data(), sizeof(content));
        auto* base = core_of(pool).region().base();
        wraps.store(story.object.offset,
                    static_cast<Offset>(reinterpret_cast<std::byte*>(object) - base));
        if (old != 0) wraps.free(base + old);
      });
    });
    // What was just committed is stored again, while its record may go home.
    on_second_thread([&] { wraps.store(story.words[0], 99); });
    wraps.run([&] { wraps.store(story.words[1], step); });
    on_second_thread([&] {
      wraps.abort();
      try {
        wraps.close();
      } catch (const Exception&) {  // says so
      }
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Story& story = root_of<Story>(pool, "story");
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      for (std::uint64_t i = 0; i < story.words.size(); ++i) {
        const std::uint64_t word = tx.load(story.words[i]);
        if (word != (i < kCommitted ? step : 0))
          return "word " + std::to_string(i) + " is " + std::to_string(word);
      }
      const auto object = tx.load(story.object);
      if (static_cast<bool>(object) != (step > 0)) return "an object too many, or too few";
      for (std::uint64_t i = 0; step > 0 && i < kObjectWords; ++i) {
        if (tx.load(tx.at(object)[i]) != step)
          return "word " + std::to_string(i) + " of the object is another";
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      if (const auto object = tx.load(root_of<Story>(pool, "story").object)) visit(tx.at(object));
    });
  };
  return s;
}

}  // namespace

std::vector<Scenario> wrap_scenarios() {
  // Pages are given back whenever one may be, while wraps have others open.
  Scenario without_room = in_private_pages(story());
  without_room.private_pages = 0;
  return {story(), without_room};
}

}  // namespace perdure::crash
