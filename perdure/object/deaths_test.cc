// SPDX-License-Identifier: BSD-3-Clause
// The end of objects: destructors, large structures in bounded logs, and ends that a crash
// interrupts.
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/object.h"
#include "tests/object_fixture.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;
using testing::HeapInMemory;
using testing::kSanitized;
using testing::thrown_by;

struct Root;

/// A tree or a list, of which each object tells of its end.
struct Mortal : object<Mortal> {
  field<std::int64_t> id;
  ref<Mortal> left;
  ref<Mortal> right;
  weak_ref<Root> ledger;
  PERDURE_FIELDS(Mortal, id, left, right, ledger);
  ~Mortal();
};
using Row = array<ref<Mortal>>;
using WeakRow = array<weak_ref<Mortal>>;

struct Root : object<Root> {
  ref<Mortal> first;
  weak_ref<Mortal> weak;
  ref<Row> row;
  ref<WeakRow> weak_row;
  ref<array<ref<Row>>> rows;
  field<std::uint64_t> deaths;
  field<std::int64_t> sum;
  PERDURE_FIELDS(Root, first, weak, row, weak_row, rows, deaths, sum);
};

/// What a test has destructors do, beside.
std::function<void(Mortal&)> on_death;

Mortal::~Mortal() {
  if (const local<Root> root = ledger) {
    ++root->deaths;
    root->sum += id;
  }
  if (on_death) on_death(*this);
}

constexpr Geometry kRoomy = {std::uint64_t{256} << 20, std::uint64_t{1} << 20, kPageBytes, 4, 4};

class Deaths : public testing::ObjectTest {
 protected:
  ~Deaths() override { on_death = nullptr; }
  void use(const Geometry& geometry) {
    heap.emplace(GetParam(), geometry);
    (*heap)->atomically([&](auto root) {  // the root's proxy
      auto one = (*heap)->template make<Mortal>();
      one->ledger = root;
    });
    (*heap)->atomically([](auto root) {
      root->deaths = 0;
      root->sum = 0;
    });
    empty = heap->objects();
  }
  void SetUp() override { use(testing::kObjectGeometry); }

  local<Mortal> make(local<Root> root, std::int64_t id) {
    const auto made = (*heap)->make<Mortal>();
    made->id = id;
    made->ledger = root;
    return made;
  }
  void make_list(std::int64_t count) {
    for (std::int64_t done = 0; done < count;) {
      (*heap)->atomically([&](auto root) {
        for (int i = 0; i < 1000 && done < count; ++i, ++done) {
          const auto made = make(root, done);
          made->left = root->first;
          root->first = made;
        }
      });
    }
  }
  /// Number n of a whole tree has the children 2n and 2n + 1.
  void make_tree(int depth) {
    for (std::uint64_t n = 1; n < std::uint64_t{1} << depth; ++n) {
      (*heap)->atomically([&](auto root) {
        const auto made = make(root, static_cast<std::int64_t>(n));
        if (n == 1) {
          root->first = made;
          return;
        }
        local<Mortal> above = root->first;
        for (int bit = static_cast<int>(std::bit_width(n)) - 2; bit > 0; --bit)
          above = (n >> bit & 1) != 0 ? above->right.get() : above->left.get();
        (n % 2 == 0 ? above->left : above->right) = made;
      });
    }
  }
  static std::uint64_t deaths_in(HeapInMemory<Root>& in) {
    return in->read_only([](auto root) { return root->deaths.get(); });
  }
  std::uint64_t deaths() { return deaths_in(*heap); }

  std::optional<HeapInMemory<Root>> heap;
  std::uint64_t empty = 0;
};
PERDURE_ON_ENGINES(Deaths);

TEST_P(Deaths, DestructorsRunOnceForEachEndThatIsCommitted) {
  make_list(10);
  EXPECT_EQ(deaths(), 0u);
  EXPECT_THROW((*heap)->atomically([](auto root) {
    root->first = nullptr;
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_EQ(deaths(), 0u);
  int attempts = 0;
  (*heap)->atomically([&](auto root) {
    root->first = nullptr;
    if (++attempts < 3) throw Conflict{};
  });
  EXPECT_EQ(deaths(), 10u);
  EXPECT_EQ(heap->objects(), empty);
  (*heap)->atomically([&](auto root) { make(root, 1); });  // never linked
  EXPECT_EQ(deaths(), 11u);
}

TEST_P(Deaths, TheLastOnesReferencesAreThereInTheDestructor) {
  (*heap)->atomically([&](auto root) {
    root->first = make(root, 1);
    root->first->left = make(root, 2);
    root->first->left->right = root->first->left->left;
    root->weak = root->first->left;
  });
  std::vector<std::int64_t> order;
  on_death = [&](Mortal& dying) {
    order.push_back(dying.id);
    if (dying.id == 1) {
      EXPECT_EQ(dying.left->id, 2);
    }
  };
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2));
  EXPECT_FALSE((*heap)->read_only([](auto root) { return static_cast<bool>(root->weak); }));
}

TEST_P(Deaths, AChildIsSavedByItsParentsDestructor) {
  (*heap)->atomically([&](auto root) {
    root->first = make(root, 1);
    root->first->left = make(root, 2);
  });
  on_death = [&](Mortal& dying) { dying.ledger->first = dying.left; };
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_EQ(deaths(), 1u);
  EXPECT_EQ((*heap)->read_only([](auto root) { return root->first->id.get(); }), 2);
  on_death = nullptr;
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_EQ(heap->objects(), empty);
}

TEST_P(Deaths, NothingComesBackFromItsDestructor) {
  (*heap)->atomically([&](auto root) { root->first = make(root, 1); });
  handle<Mortal> held;
  const auto try_it = [&](auto what) {
    on_death = what;
    const std::string thrown =
        thrown_by([&] { (*heap)->atomically([](auto root) { root->first = nullptr; }); });
    on_death = nullptr;
    EXPECT_THAT(thrown, HasSubstr("misuse"));
    EXPECT_THAT(thrown, HasSubstr("end has begun"));
    EXPECT_EQ((*heap)->read_only([](auto root) { return root->first->id.get(); }), 1);
  };
  try_it([](Mortal& dying) { dying.ledger->first = dying.self(); });
  try_it([](Mortal& dying) { dying.ledger->weak = dying.self(); });
  try_it([&](Mortal& dying) { held = dying.self(); });
  EXPECT_EQ(deaths(), 0u);
  EXPECT_FALSE(held);
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_EQ(heap->objects(), empty);
}

TEST_P(Deaths, DestructorsMakeObjects) {
  make_list(3);
  on_death = [&](Mortal& dying) {
    if (dying.id >= 100) return;
    const auto heir = (*heap)->make<Mortal>();
    heir->id = dying.id + 100;
    if (dying.id == 1) {
      heir->ledger = dying.ledger;
      dying.ledger->row = (*heap)->make_array<ref<Mortal>>(1);
      dying.ledger->row.get()[0] = heir;
    }
  };
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_EQ(deaths(), 3u);
  EXPECT_EQ(heap->objects(), empty + 2);
  EXPECT_EQ((*heap)->read_only([](auto root) { return root->row.get()[0]->id.get(); }), 101);
  (*heap)->atomically([](auto root) { root->row = nullptr; });
  EXPECT_EQ(heap->objects(), empty);
}

TEST_P(Deaths, AnExceptionOfADestructorEndsTheTransaction) {
  make_list(20);
  on_death = [](Mortal& dying) {
    if (dying.id == 7) throw std::runtime_error("seven");
  };
  EXPECT_THROW((*heap)->atomically([](auto root) { root->first = nullptr; }), std::runtime_error);
  on_death = nullptr;
  EXPECT_EQ(deaths(), 0u);
  EXPECT_EQ(heap->objects(), empty + 20);
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_EQ(deaths(), 20u);
  EXPECT_EQ(heap->objects(), empty);
}

TEST_P(Deaths, OfAMillionInARowNeedNoRoom) {
  const std::int64_t count = kSanitized                             ? 20'000
                             : GetParam() == EngineKind::kMnemosyne ? 1'000'000
                                                                    : 100'000;
  use(kRoomy);
  make_list(count);
  ASSERT_EQ(heap->objects(), empty + count);
  const std::uint64_t segments = core_of(heap->pool()).heap().usage().segments;
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_EQ(deaths(), static_cast<std::uint64_t>(count));
  EXPECT_EQ(heap->objects(), empty);
  EXPECT_EQ(core_of(heap->pool()).heap().usage().segments, segments);
  EXPECT_EQ((*heap)->read_only([](auto root) { return root->sum.get(); }), count * (count - 1) / 2);
}

TEST_P(Deaths, OfATree) {
  make_tree(kSanitized ? 10 : 14);
  const std::uint64_t count = heap->objects() - empty;
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_EQ(deaths(), count);
  EXPECT_EQ(heap->objects(), empty);
}

/// Some of its elements are the same, some live on, some have weak references.
TEST_P(Deaths, OfALongArray) {
  const std::uint64_t count = kSanitized ? 5'000 : 100'000;
  use(kRoomy);
  (*heap)->atomically([&](auto root) {
    root->row = (*heap)->make_array<ref<Mortal>>(count);
    root->weak_row = (*heap)->make_array<weak_ref<Mortal>>(count);
  });
  for (std::uint64_t done = 0; done < count;) {
    (*heap)->atomically([&](auto root) {
      for (int i = 0; i < 500 && done < count; ++i, ++done) {
        root->row.get()[done] = done % 10 == 9 ? root->row.get()[done - 1].get() : make(root, 1);
        if (done % 3 == 0) root->weak_row.get()[done] = root->row.get()[done];
      }
      root->first = root->row.get()[0];
    });
  }
  const std::uint64_t ends = count - count / 10 - 1;  // the first one lives on
  (*heap)->atomically([](auto root) { root->row = nullptr; });
  EXPECT_EQ(deaths(), ends);
  (*heap)->read_only([&](auto root) {
    EXPECT_TRUE(root->weak_row.get()[0] == root->first);
    for (std::uint64_t i = 1; i < count; ++i) ASSERT_FALSE(root->weak_row.get()[i]);
  });
  (*heap)->atomically([](auto root) {
    root->first = nullptr;
    root->weak_row = nullptr;
  });
  EXPECT_EQ(heap->objects(), empty);
}

TEST_P(Deaths, OfArraysOfArrays) {
  use(kRoomy);
  const std::uint64_t rows = kSanitized ? 70 : 300;
  (*heap)->atomically([&](auto root) { root->rows = (*heap)->make_array<ref<Row>>(rows); });
  for (std::uint64_t r = 0; r < rows; ++r) {
    (*heap)->atomically([&](auto root) {
      root->rows.get()[r] = (*heap)->make_array<ref<Mortal>>(r % 2 == 0 ? 256 : 257);
      const local<Row> row = root->rows.get()[r];
      for (std::uint64_t i = 0; i < row->size(); ++i) row[i] = make(root, 1);
    });
  }
  const std::uint64_t count = heap->objects() - empty - rows - 1;
  (*heap)->atomically([](auto root) { root->rows = nullptr; });
  EXPECT_EQ(deaths(), count);
  EXPECT_EQ(heap->objects(), empty);
}

TEST_P(Deaths, WaitForHandlesInTheMiddle) {
  make_list(300);
  handle<Mortal> held = (*heap)->read_only([](auto root) {
    local<Mortal> at = root->first;
    for (int i = 0; i < 200; ++i) at = at->left;
    return handle<Mortal>(at);
  });
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_EQ(deaths(), 200u);
  EXPECT_EQ((*heap)->read_only([&] { return held->left->id.get(); }), 98);
  held = nullptr;
  EXPECT_EQ(deaths(), 300u);
  EXPECT_LE(heap->objects(), empty + 1);  // a table of orphans
}

/// The process dies in the destructor of the n-th object: before the commit nothing has happened;
/// later, the next open ends what is left, and each end is counted once.
TEST_P(Deaths, InterruptedAnywhereAreGoneOnWithAtTheNextOpen) {
  constexpr int kCount = 300;
  for (const int crash_at : {1, 30, 64, 65, 66, 127, 128, 129, 130, 192, 193, 257, 299, 300}) {
    use(testing::kObjectGeometry);
    make_list(kCount);
    int ended = 0;
    std::optional<testing::Image> left;
    on_death = [&](Mortal&) {
      if (++ended == crash_at) left.emplace(heap->image());
    };
    (*heap)->atomically([](auto root) { root->first = nullptr; });
    on_death = nullptr;
    EXPECT_EQ(heap->objects(), empty);
    ASSERT_TRUE(left.has_value());
    HeapInMemory<Root> next(GetParam(), *left);
    const bool begun = crash_at > 64;
    EXPECT_EQ(next->recovery().lists, begun ? 1u : 0u) << crash_at;
    EXPECT_EQ(next->recovery().orphans, 0u);
    const int committed = (crash_at - 1) / 64 * 64;
    EXPECT_EQ(next->recovery().ended, begun ? kCount - committed : 0) << crash_at;
    EXPECT_EQ(deaths_in(next), begun ? kCount : 0) << crash_at;
    EXPECT_EQ(next->read_only([](auto root) { return static_cast<bool>(root->first); }), !begun);
    next->atomically([](auto root) { root->first = nullptr; });
    EXPECT_EQ(next.objects(), empty) << crash_at;
    EXPECT_EQ(deaths_in(next), kCount) << crash_at;
  }
}

TEST_P(Deaths, OfAnInterruptedArrayAreGoneOnWith) {
  constexpr std::uint64_t kCount = 1000;
  for (const int crash_at : {1, 64, 65, 300, 600, 999}) {
    use(testing::kObjectGeometry);
    (*heap)->atomically([&](auto root) {
      root->row = (*heap)->make_array<ref<Mortal>>(kCount);
      for (std::uint64_t i = 0; i < kCount; ++i) root->row.get()[i] = make(root, 1);
    });
    int ended = 0;
    std::optional<testing::Image> left;
    on_death = [&](Mortal&) {
      if (++ended == crash_at) left.emplace(heap->image());
    };
    (*heap)->atomically([](auto root) { root->row = nullptr; });
    on_death = nullptr;
    ASSERT_TRUE(left.has_value());
    HeapInMemory<Root> next(GetParam(), *left);
    next->atomically([](auto root) { root->row = nullptr; });
    EXPECT_EQ(next.objects(), empty) << crash_at;
    EXPECT_EQ(deaths_in(next), kCount) << crash_at;
    EXPECT_EQ(heap->objects(), empty) << crash_at;
  }
}

/// What a destructor refuses after the commit waits for the next open; if that meets it, too, it is
/// left to the one after.
TEST_P(Deaths, ADestructorThatThrowsAfterTheCommitLeavesTheRestToTheNextOpen) {
  make_list(300);
  on_death = [](Mortal& dying) {
    if (dying.id == 100) throw std::runtime_error("not yet");
  };
  (*heap)->atomically([](auto root) { root->first = nullptr; });
  EXPECT_GT(deaths(), 64u);
  EXPECT_LT(deaths(), 200u);
  const testing::Image left(heap->image());
  {
    testing::Image image(left);
    Pool pool = image.pool(GetParam()).value();
    Result<object_heap<Root>> opened = object_heap<Root>::in_pool(pool);
    ASSERT_TRUE(opened) << "a destructor keeps nobody from the data";
    EXPECT_EQ(opened.value().recovery().failed, 1u);
    EXPECT_EQ(opened.value().recovery().lists, 1u);
  }
  on_death = nullptr;
  HeapInMemory<Root> next(GetParam(), left);
  EXPECT_EQ(next->recovery().lists, 1u);
  EXPECT_EQ(deaths_in(next), 300u);
  EXPECT_EQ(next.objects(), empty);
}

TEST_P(Deaths, RecoveryCountsObjectsAndNothingElse) {
  handle<Mortal> held = (*heap)->atomically([&](auto root) {
    const auto made = make(root, 1);
    root->weak = made;  // with a proxy
    root->weak = nullptr;
    return handle<Mortal>(made);
  });
  heap->kill();
  EXPECT_EQ((*heap)->recovery().orphans, 1u);
  EXPECT_EQ((*heap)->recovery().ended, 1u);
}

}  // namespace
}  // namespace perdure
