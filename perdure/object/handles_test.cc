// SPDX-License-Identifier: BSD-3-Clause
// Handles: what they keep alive, for how long, and what becomes of it when they, the heap or the
// process end.
#include "perdure/object/handles.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/object.h"
#include "tests/object_fixture.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;
using testing::HeapInMemory;
using testing::kSanitized;
using testing::thrown_by;

struct Node : object<Node> {
  field<std::int64_t> value;
  ref<Node> next;
  PERDURE_FIELDS(Node, value, next);
  void init(std::int64_t with) { value = with; }
};
struct Root : object<Root> {
  ref<Node> first;
  weak_ref<Node> weak;
  field<std::int64_t> number;
  PERDURE_FIELDS(Root, first, weak, number);
};

class Handles : public testing::ObjectTest {
 protected:
  handle<Node> make_one(std::int64_t value) {
    return heap->atomically([&] { return handle<Node>(heap->make<Node>(value)); });
  }
  std::int64_t value_of(const handle<Node>& of) {
    return heap->read_only([&] { return of->value.get(); });
  }
  /// Of a heap with room for some orphans.
  std::uint64_t count_objects_with_a_table() {
    make_one(0);
    return heap.objects();
  }
  HeapInMemory<Root> heap{GetParam()};
  const std::uint64_t empty = count_objects_with_a_table();
};
PERDURE_ON_ENGINES(Handles);

TEST_P(Handles, AloneKeepAnObjectAliveAndAllThatItLeadsTo) {
  handle<Node> held = make_one(1);
  heap->atomically([&] { held->next = heap->make<Node>(2); });
  EXPECT_EQ(heap.objects(), empty + 2);
  EXPECT_EQ(value_of(held), 1);
  handle<Node> copy = held;
  held = nullptr;
  EXPECT_EQ(heap.objects(), empty + 2);
  EXPECT_EQ(heap->read_only([&] { return copy->next->value.get(); }), 2);
  copy = nullptr;
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Handles, OnTheSameObjectAreEqual) {
  const handle<Node> held = make_one(1);
  heap->atomically([&](auto root) { root->first = held; });
  const auto again = heap->read_only([](auto root) { return handle<Node>(root->first); });
  EXPECT_TRUE(held == again);
  EXPECT_FALSE(held == make_one(2));
  EXPECT_FALSE(held == nullptr);
  EXPECT_TRUE(handle<Node>() == nullptr);
  EXPECT_TRUE(heap->read_only([](auto root) { return handle<Node>(root->weak); }) == nullptr);
}

TEST_P(Handles, WhatTheyHoldIsUnlinkedAndLinkedAgain) {
  heap->atomically([&](auto root) {
    root->first = heap->make<Node>(3);
    root->weak = root->first;
  });
  handle<Node> held = heap->read_only([](auto root) { return handle<Node>(root->first); });
  for (int i = 0; i < 3; ++i) {
    heap->atomically([](auto root) { root->first = nullptr; });
    EXPECT_TRUE(heap->read_only([](auto root) { return root->weak->value == 3; }));
    heap->atomically([&](auto root) { root->first = held; });
  }
  heap->atomically([&](auto root) {  // and all of it at once
    root->first = nullptr;
    root->first = held;
    root->first = nullptr;
  });
  heap->atomically([&](auto root) { root->first = root->weak; });
  held = nullptr;
  EXPECT_EQ(heap.objects(), empty + 2);
  heap->atomically([](auto root) { root->first = nullptr; });
  heap->atomically([](auto root) { root->weak = nullptr; });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Handles, TheLastOneMayGoInATransactionOfAnyKind) {
  handle<Node> held = make_one(1);
  heap->atomically([&] { held = nullptr; });
  EXPECT_EQ(heap.objects(), empty);
  held = make_one(2);
  heap->read_only([&] { held = nullptr; });
  EXPECT_EQ(heap.objects(), empty);
  held = make_one(3);
  EXPECT_THROW(heap->atomically([&] {
    held = nullptr;
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_EQ(heap.objects(), empty);
  held = make_one(4);
  HeapInMemory<Root> other(GetParam());
  other->atomically([&](auto root) {
    root->number = 1;
    held = nullptr;
  });
  heap->read_only([] {});  // the next transaction on the heap ends it
  EXPECT_EQ(heap.objects(), empty);
  held = make_one(5);
  heap.pool().atomically([&](Tx&) { held = nullptr; });
  heap->read_only([] {});
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Handles, OneThatComesAndGoesInTheTransactionThatMakesTheObjectChangesNothing) {
  heap->atomically([&](auto root) {
    const auto node = heap->make<Node>(1);
    {
      const handle<Node> held(node);
    }
    EXPECT_EQ(node->value, 1);
    root->first = node;
  });
  EXPECT_EQ(heap.objects(), empty + 1);
  heap->atomically([&](auto root) {
    const handle<Node> held(root->first);
    root->first = nullptr;
  });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Handles, OfATransactionThatCameToNothingLeadNowhere) {
  handle<Node> held;
  EXPECT_THROW(heap->atomically([&] {
    held = heap->make<Node>(1);
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_EQ(heap.objects(), empty);
  const handle<Node> other = make_one(2);  // where the first one stood
  EXPECT_THAT(thrown_by([&] { value_of(held); }), HasSubstr("came to nothing"));
  EXPECT_THAT(thrown_by([&] { heap->atomically([&](auto root) { root->first = held; }); }),
              HasSubstr("came to nothing"));
  EXPECT_FALSE(held == other);
  const handle<Node> copy = held;
  held = nullptr;
  EXPECT_EQ(value_of(other), 2);
}

TEST_P(Handles, OfAnAttemptThatMetAConflictLeadNowhereButThoseOfTheNextDo) {
  std::vector<handle<Node>> held;
  heap->atomically([&](auto root) {
    held.emplace_back(heap->make<Node>(static_cast<std::int64_t>(held.size())));
    root->number = 1;
    if (held.size() == 1) throw Conflict{};
  });
  ASSERT_EQ(held.size(), 2u);
  EXPECT_THAT(thrown_by([&] { value_of(held[0]); }), HasSubstr("came to nothing"));
  EXPECT_EQ(value_of(held[1]), 1);
  EXPECT_EQ(heap.objects(), empty + 1);
  held.clear();
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Handles, OnWhatWasThereBeforeStayGoodWhenATransactionComesToNothing) {
  heap->atomically([&](auto root) { root->first = heap->make<Node>(1); });
  handle<Node> held;
  EXPECT_THROW(heap->atomically([&](auto root) {
    held = root->first;
    root->first = nullptr;
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_EQ(value_of(held), 1);
  heap->atomically([&](auto root) { root->first = nullptr; });
  EXPECT_EQ(value_of(held), 1);
  held = nullptr;
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Handles, OutliveTheHeapAndSayThatItWasClosed) {
  handle<Node> held = make_one(1);
  handle<Node> copy = held;
  const std::uint64_t before = heap.objects();
  heap.close();
  EXPECT_THAT(thrown_by([&] { held->value = 1; }), HasSubstr("closed"));
  copy = nullptr;
  heap.open();
  EXPECT_EQ(heap->recovery().orphans, 1u);
  EXPECT_EQ(heap->recovery().ended, 1u);
  EXPECT_EQ(heap.objects(), before - 1);
  EXPECT_THAT(thrown_by([&] { value_of(held); }), HasSubstr("closed"));
  EXPECT_THAT(thrown_by([&] { heap->atomically([&](auto root) { root->first = held; }); }),
              HasSubstr("closed"));
  copy = held;
  held = make_one(7);
  EXPECT_EQ(value_of(held), 7);
}

TEST_P(Handles, OutliveTheirThread) {
  std::optional<handle<Node>> held;
  std::thread([&] { held = make_one(4); }).join();
  EXPECT_EQ(value_of(*held), 4);
  std::thread([&] { held.reset(); }).join();
  EXPECT_EQ(heap.objects(), empty);
}

/// The thread's place in the pool is given back before what was constructed earlier.
TEST_P(Handles, OfAThreadThatEndsAreSafeAtItsVeryEnd) {
  std::thread([&] {
    thread_local handle<Node> last;
    last = nullptr;
    last = make_one(1);
  }).join();
  EXPECT_EQ(value_of(make_one(2)), 2);
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Handles, OrphansOfAKilledProcessAreReclaimed) {
  for (const int count : {1, 63, 64, 200, 500}) {
    std::vector<handle<Node>> held;
    for (int i = 0; i < count; ++i) held.push_back(make_one(i));
    heap->atomically([&](auto root) {
      root->first = held[0];
      root->weak = held.back();
    });
    heap->atomically([&] {
      for (std::size_t i = 0; i < held.size(); i += 2) held[i]->next = heap->make<Node>(-1);
    });
    for (std::size_t i = 0; i < held.size(); ++i)
      EXPECT_EQ(value_of(held[i]), static_cast<std::int64_t>(i));
    heap.kill();
    const auto others = static_cast<std::uint64_t>(count) - 1;  // one is referred to
    EXPECT_EQ(heap->recovery().orphans, others);
    EXPECT_EQ(heap->recovery().lists, 0u);
    EXPECT_EQ(heap->recovery().ended, others + others / 2);
    heap->atomically([&](auto root) {
      EXPECT_EQ(root->first->value, 0);
      root->first = nullptr;
      root->weak = nullptr;
    });
    const auto tables = static_cast<std::uint64_t>(count + 62) / 63;
    EXPECT_EQ(heap.objects(), empty + tables - 1);
    heap.kill();
    EXPECT_EQ(heap->recovery().orphans, 0u);
    EXPECT_EQ(heap->recovery().ended, 0u);
  }
}

TEST_P(Handles, ManyInOneTransactionAndPlacesAreUsedAgain) {
  std::vector<handle<Node>> held;
  for (int round = 0; round < 3; ++round) {
    heap->atomically([&] {
      held.clear();
      for (int i = 0; i < 300; ++i) held.emplace_back(heap->make<Node>(i));
    });
    EXPECT_EQ(value_of(held[299]), 299);
    held.clear();
    EXPECT_EQ(heap.objects(), empty + 7);  // of tables there are 8 now, for 300: they double
  }
}

TEST_P(Handles, AMillionCopiesAreOneEntry) {
  const handle<Node> held = make_one(1);
  {
    const std::vector<handle<Node>> copies(1'000'000, held);
    EXPECT_EQ(value_of(copies.back()), 1);
  }
  EXPECT_EQ(value_of(held), 1);
}

TEST_P(Handles, AreTakenPassedAndDroppedByManyThreads) {
  constexpr int kRounds = kSanitized ? 200 : 2000;
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      handle<Node> held;
      for (int i = 0; i < kRounds; ++i) {
        const int what = (i + t) % 4;
        if (what == 0) {
          heap->atomically([&](auto root) {
            root->first = heap->make<Node>(42);
            root->weak = root->first;
          });
        } else if (what == 1) {
          held = heap->read_only([](auto root) { return handle<Node>(root->weak); });
        } else if (what == 2) {
          heap->atomically([](auto root) { root->first = nullptr; });
        } else if (held) {
          if (value_of(held) != 42) ++bad;
          heap->atomically([&](auto root) { root->first = held; });
          handle<Node> passed = held;
          held = nullptr;
          std::thread([&, mine = std::move(passed)]() mutable {
            if (value_of(mine) != 42) ++bad;
          }).join();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  heap->atomically([](auto root) {
    root->first = nullptr;
    root->weak = nullptr;
  });
  EXPECT_EQ(heap.objects(), empty);
}

/// Tables that several threads add at the same time have the same places after a restart.
TEST_P(Handles, OrphansOfManyThreadsFindTheirPlacesAgain) {
  for (int round = 0; round < (kSanitized ? 5 : 30); ++round) {
    HeapInMemory<Root> crowd(GetParam());
    const std::uint64_t before = crowd.objects();
    std::vector<std::vector<handle<Node>>> held(3);
    std::vector<std::thread> threads;
    for (auto& mine : held) {
      threads.emplace_back([&] {
        for (int i = 0; i < 130; ++i)
          mine.push_back(crowd->atomically([&] { return handle<Node>(crowd->make<Node>(i)); }));
      });
    }
    for (std::thread& thread : threads) thread.join();
    crowd.kill();
    ASSERT_EQ(crowd->recovery().orphans, 390u);
    ASSERT_EQ(crowd->recovery().ended, 390u);
    ASSERT_LE(crowd.objects(), before + 16);  // seven tables are needed; they double
  }
}

/// Both hold what the other one's thread lets go of, in the middle of a transaction of its own.
TEST_P(Handles, OfTwoHeapsDoNotWaitForEachOther) {
  HeapInMemory<Root> other(GetParam());
  const auto cross = [&](HeapInMemory<Root>& mine, HeapInMemory<Root>& theirs, std::atomic<int>& at,
                         std::atomic<int>& there) {
    handle<Node> held = theirs->atomically([&](auto root) {
      root->first = theirs->make<Node>(1);
      return handle<Node>(root->first);
    });
    ++at;
    while (there < 1) std::this_thread::yield();
    bool waited = false;
    mine->atomically([&](auto root) {
      root->first->value = 2;  // owns what the other thread lets go
      ++at;
      while (!waited && there < 2) std::this_thread::yield();
      waited = true;
      held = nullptr;
    });
  };
  std::atomic<int> a{0};
  std::atomic<int> b{0};
  std::thread one([&] { cross(heap, other, a, b); });
  cross(other, heap, b, a);
  one.join();
  EXPECT_EQ(heap->read_only([](auto root) { return root->first->value.get(); }), 2);
}

/// Whoever drops one while the heap is being closed meets it open or closed, nothing between.
TEST_P(Handles, AreDroppedWhileTheHeapCloses) {
  for (int round = 0; round < (kSanitized ? 20 : 100); ++round) {
    std::vector<handle<Node>> held;
    for (int i = 0; i < 20; ++i) held.push_back(make_one(i));
    std::atomic<bool> go{false};
    std::thread dropper([&] {
      make_one(0);
      go = true;
      held.clear();
    });
    while (!go) std::this_thread::yield();
    heap.close();
    dropper.join();
    heap.open();
    ASSERT_LE(heap.objects(), empty + 1);
  }
}

}  // namespace
}  // namespace perdure
