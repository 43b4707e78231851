// SPDX-License-Identifier: BSD-3-Clause
// Objects that a thread frees while others still read them, in every order: whoever found an object
// never takes for it what is written there later.
#include <array>
#include <set>

#include "sim/interleaved/interleaved_test.h"

namespace perdure::interleaved {
namespace {

using ObjectsInterleaved = Interleaved;

/// Two words in two lines: the free of an object gives its first line a new version anyway.
struct Node {
  Word first;
  std::array<Word, kLineBytes / kWordBytes - 1> between;
  Word second;
};
constexpr std::uint64_t kSmall = 2 * kLineBytes;

/// Where the object stands; 0: nowhere.
Word& head(World& world) { return world.cell(0); }
Word& other_head(World& world) { return world.cell(1); }

/// An object of `bytes` bytes that holds `value` twice, and that `from` leads to.
void put_object(World& world, std::size_t thread, Word& from, std::uint64_t bytes, Word value) {
  world.update(thread, [&](Tx& tx) {
    auto* node = static_cast<Node*>(tx.allocate(bytes));
    tx.store(node->first, value);
    tx.store(node->second, value);
    tx.store(from, tx.link_to(node).offset);
  });
}
void free_object(World& world, std::size_t thread) {
  world.update(thread, [&](Tx& tx) {
    tx.free(tx.at(pptr<Node>{tx.load(head(world))}));
    tx.store(head(world), 0);
  });
}
/// Looks for both objects: what leads to the first leads to sevens, what leads to the other to
/// eights.
void look_for_objects(World& world, std::size_t thread, bool updates) {
  world.transact(thread, {.read_only = !updates}, [&](Tx& tx) {
    for (const Word value : {7, 8}) {
      const Node* node = tx.at(pptr<Node>{tx.load(value == 7 ? head(world) : other_head(world))});
      if (tx.link_to(node).offset == 0) continue;
      require(tx.load(node->first) == value, "another object's bytes");
      require(tx.load(node->second) == value, "another object's bytes");
    }
    if (updates) tx.store(world.cell(2), 1);
  });
}

/// What takes the place of the object that is freed.
enum class Next : std::uint8_t {
  kObject,    // another object
  kGivenUp,   // another object whose transaction gives up; then another again
  kOwnBytes,  // what is written outside transactions, as the engine does
};

struct Setting {
  Bias bias = Bias::kEnded;
  std::uint64_t bytes = kSmall;  // from kInPlaceBytes on objects are initialised in place
  Next next = Next::kObject;
  bool updates = false;     // whoever looks
  bool by_another = false;  // another thread than the one that frees it allocates it again
};

Report reuse(const Setting& setting, const Limits& limits) {
  return explore(
      setting.bias,
      [=](World& world) {
        const std::size_t allocator = setting.by_another ? 2 : 0;
        put_object(world, allocator, head(world), setting.bytes, 7);
        const auto give_up = [&world, setting] {
          struct GivesUp {};
          try {
            world.update(0, [&](Tx& tx) {
              auto* node = static_cast<Node*>(tx.allocate(setting.bytes));
              tx.store(node->first, 9);
              tx.store(node->second, 9);
              throw GivesUp{};
            });
          } catch (const GivesUp&) {
          }
        };
        const auto write_own_bytes = [&world, setting] {
          world.update(0, [&](Tx& tx) {
            const Offset space = tx.reserve(setting.bytes);
            struct Cancel {
              ~Cancel() { heap->cancel(space); }
              Heap* heap;
              Offset space;
            } cancel{&world.heap(), space};
            tx.outdate(space, setting.bytes);
            Node* const node = tx.at(pptr<Node>{space});
            world.engine().store(&node->first, 9);
            world.engine().store(&node->second, 9);
          });
        };
        Threads all;
        all.bodies.emplace_back([=, &world] {
          free_object(world, 0);
          if (setting.by_another) return world.tx(0).give_back();
          if (setting.next == Next::kOwnBytes) return write_own_bytes();
          if (setting.next == Next::kGivenUp) give_up();
          put_object(world, 0, other_head(world), setting.bytes, 8);
        });
        all.bodies.emplace_back([=, &world] { look_for_objects(world, 1, setting.updates); });
        if (setting.by_another) {
          all.bodies.emplace_back(
              [=, &world] { put_object(world, 2, other_head(world), setting.bytes, 8); });
        }
        return all;
      },
      limits);
}

TEST_F(ObjectsInterleaved, WhatIsAllocatedAgainIsNeverTakenForWhatWasFreed) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded, Bias::kToFirst}) {
    for (const std::uint64_t bytes : {kSmall, std::uint64_t{kInPlaceBytes}}) {
      for (const bool updates : {false, true}) {
        const Setting setting = {.bias = bias, .bytes = bytes, .updates = updates};
        expect_sound(reuse(setting, {}));
      }
    }
  }
}

TEST_F(ObjectsInterleaved, NorByAnotherThreadThanFreedIt) {
  expect_sound(reuse({.by_another = true}, {.preemptions = 2}));
  expect_sound(reuse({.bytes = kInPlaceBytes, .by_another = true}, {.preemptions = 2}));
}

TEST_F(ObjectsInterleaved, NorIsWhatATransactionThatGaveUpHasStoredInPlace) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded, Bias::kToFirst})
    expect_sound(reuse({.bias = bias, .bytes = kInPlaceBytes, .next = Next::kGivenUp}, {}));
}

TEST_F(ObjectsInterleaved, NorIsWhatTheEngineWritesThere) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded, Bias::kToFirst}) {
    for (const bool updates : {false, true})
      expect_sound(reuse({.bias = bias, .next = Next::kOwnBytes, .updates = updates}, {}));
  }
}

TEST_F(ObjectsInterleaved, FreeSpaceNeedsANewVersionBeforeItIsWritten) {
  for (const bool updates : {false, true}) {
    const auto own_bytes = [updates] {
      return reuse({.next = Next::kOwnBytes, .updates = updates}, {});
    };
    expect_noticed({Access::kChange, "Tx::outdate"}, own_bytes);
    const auto given_up = [updates] {
      return reuse({.bytes = kInPlaceBytes, .next = Next::kGivenUp, .updates = updates}, {});
    };
    expect_noticed({Access::kNew, "Tx::roll_back"}, given_up);
    expect_noticed({Access::kChange, "Tx::own"}, given_up);
  }
}

/// Two threads that each take the first object of a list, if there is one, and free it.
Report pop(Bias bias, std::uint64_t bytes, int objects, const Limits& limits) {
  return explore(
      bias,
      [=](World& world) {
        for (int i = 0; i < objects; ++i) {
          world.update(0, [&](Tx& tx) {
            auto* node = static_cast<Node*>(tx.allocate(bytes));
            tx.store(node->first, tx.load(head(world)));
            tx.store(head(world), tx.link_to(node).offset);
          });
        }
        auto popped = std::make_shared<std::set<Word>>();
        Threads all;
        for (std::size_t thread = 0; thread < 2; ++thread) {
          all.bodies.emplace_back([=, &world] {
            Word mine = 0;
            world.update(thread, [&](Tx& tx) {
              mine = tx.load(head(world));
              if (mine == 0) return;
              Node* const node = tx.at(pptr<Node>{mine});
              tx.store(head(world), tx.load(node->first));
              tx.free(node);
            });
            if (mine != 0) require(popped->insert(mine).second, "both have taken it");
          });
        }
        all.after = [=, &world] {
          require(popped->size() == static_cast<std::size_t>(objects), "one was not taken");
          require(head(world) == 0, "the list is not empty");
        };
        return all;
      },
      limits);
}

TEST_F(ObjectsInterleaved, EachObjectOfAListIsTakenAndFreedOnce) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded, Bias::kToFirst}) {
    for (const std::uint64_t bytes : {kSmall, std::uint64_t{kBlockBytes}}) {
      expect_sound(pop(bias, bytes, 1, {.preemptions = bytes == kSmall ? 3u : 2u}));
      expect_sound(pop(bias, bytes, 2, {}));
    }
  }
}

/// Two transactions free the same object, and do nothing else.
Report free_twice(Bias bias, std::uint64_t bytes, const Limits& limits) {
  return explore(
      bias,
      [=](World& world) {
        put_object(world, 0, head(world), bytes, 7);
        auto freed = std::make_shared<int>(0);
        auto refused = std::make_shared<int>(0);
        Threads all;
        for (std::size_t thread = 0; thread < 2; ++thread) {
          all.bodies.emplace_back([=, &world] {
            try {
              world.update(thread, [&](Tx& tx) { tx.free(tx.at(pptr<Node>{head(world)})); });
              ++*freed;
            } catch (const Exception& exception) {
              require(exception.code() == Code::kMisuse, "refused for another reason");
              ++*refused;
            }
          });
        }
        all.after = [=] { require(*freed == 1 && *refused == 1, "not freed by one of them"); };
        return all;
      },
      limits);
}

TEST_F(ObjectsInterleaved, OneOfTwoFreesOfTheSameObjectIsRefused) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded, Bias::kToFirst}) {
    for (const std::uint64_t bytes : {kSmall, std::uint64_t{kBlockBytes}})
      expect_sound(free_twice(bias, bytes, {.preemptions = 3}));
  }
}

TEST_F(ObjectsInterleaved, BecauseTheyMeetAtItsOwnershipRecord) {
  // A Conflict is what it would else be called that the heap knows of a free that is not seen yet.
  expect_noticed({Access::kLoad, "Tx::validate", {}, {}, [] { return !World::is_committing(); }},
                 [] { return pop(Bias::kEnded, kSmall, 1, {}); });
  for (const std::uint64_t bytes : {kSmall, std::uint64_t{kBlockBytes}}) {
    expect_noticed({Access::kChange, "Tx::own"},
                   [bytes] { return free_twice(Bias::kEnded, bytes, {}); });
  }
}

}  // namespace
}  // namespace perdure::interleaved
