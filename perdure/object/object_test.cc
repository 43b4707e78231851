// SPDX-License-Identifier: BSD-3-Clause
// Objects, their fields and references, and what a transaction on them promises.
#include "perdure/object.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "tests/object_fixture.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;
using testing::HeapInMemory;
using testing::thrown_by;

enum class Colour : std::uint8_t { kRed, kGreen };
struct Triple {
  std::int16_t a;
  std::int16_t b;
  std::int16_t c;
  bool operator==(const Triple&) const = default;
};
struct Wide {
  std::array<std::uint64_t, 9> words;
  bool operator==(const Wide&) const = default;
};

struct Kinds : object<Kinds> {
  field<bool> flag;
  field<char> letter;
  field<std::int8_t> tiny;
  field<Colour> colour;
  field<std::uint16_t> small;
  field<std::int32_t> middle;
  field<float> single;
  field<double> real;
  field<std::uint64_t> large;
  field<Triple> triple;
  field<Wide> wide;
  field<std::array<char, 3>> letters;
  std::array<field<std::uint8_t>, 5> bytes;
  std::array<field<double>, 3> reals;
  PERDURE_FIELDS(Kinds, flag, letter, tiny, colour, small, middle, single, real, large, triple,
                 wide, letters, bytes, reals);
};

struct Node : object<Node> {
  field<std::int64_t> value;
  ref<Node> next;
  weak_ref<Node> back;
  PERDURE_FIELDS(Node, value, next, back);
  void init(std::int64_t with) { value = with; }
};

struct Root : object<Root> {
  ref<Kinds> kinds;
  ref<Node> first;
  ref<Node> second;
  weak_ref<Node> weak;
  weak_ref<Node> weak_too;
  std::array<ref<Node>, 3> row;
  field<std::int64_t> number;
  ref<Root> self_ref;
  ref<array<field<char>>> characters;
  ref<array<ref<Node>>> nodes;
  PERDURE_FIELDS(Root, kinds, first, second, weak, weak_too, row, number, self_ref, characters,
                 nodes);
};

class Object : public testing::ObjectTest {
 protected:
  HeapInMemory<Root> heap{GetParam()};
  const std::uint64_t empty = heap.objects();
};
PERDURE_ON_ENGINES(Object);

TEST_P(Object, BeginsZeroed) {
  heap->atomically([&](auto root) {
    const auto kinds = heap->make<Kinds>();
    EXPECT_FALSE(kinds->flag);
    EXPECT_EQ(kinds->real, 0.0);
    EXPECT_EQ(kinds->wide.get(), Wide{});
    EXPECT_EQ(kinds->bytes[4], 0);
    EXPECT_EQ(root->first.get(), nullptr);
    EXPECT_EQ(root->weak.get(), nullptr);
    EXPECT_FALSE(root->row[2]);
  });
}

TEST_P(Object, FieldsOfAllKindsAndSizesKeepWhatIsAssigned) {
  heap->atomically([&](auto root) {
    const auto kinds = heap->make<Kinds>();
    root->kinds = kinds;
    kinds->flag = true;
    kinds->letter = 'x';
    kinds->tiny = std::int8_t{-7};
    kinds->colour = Colour::kGreen;
    kinds->small = std::uint16_t{65'535};
    kinds->middle = std::numeric_limits<std::int32_t>::min();
    kinds->single = 0.5f;
    kinds->real = -1e300;
    kinds->large = ~std::uint64_t{0};
    kinds->triple = Triple{1, -2, 3};
    kinds->wide = Wide{{1, 2, 3, 4, 5, 6, 7, 8, 9}};
    kinds->letters = std::array<char, 3>{'a', 'b', 'c'};
    for (std::size_t i = 0; i < 5; ++i) kinds->bytes[i] = static_cast<std::uint8_t>(i + 1);
    for (std::size_t i = 0; i < 3; ++i) kinds->reals[i] = 0.25 * static_cast<double>(i);
  });
  heap.kill();
  heap->read_only([&](auto root) {
    const local<Kinds> kinds = root->kinds;
    EXPECT_TRUE(kinds->flag);
    EXPECT_EQ(kinds->letter, 'x');
    EXPECT_EQ(kinds->tiny, -7);
    EXPECT_EQ(kinds->colour, Colour::kGreen);
    EXPECT_EQ(kinds->small, 65'535);
    EXPECT_EQ(kinds->middle, std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(kinds->single, 0.5f);
    EXPECT_EQ(kinds->real, -1e300);
    EXPECT_EQ(kinds->large, ~std::uint64_t{0});
    EXPECT_EQ(kinds->triple.get(), (Triple{1, -2, 3}));
    EXPECT_EQ(kinds->wide.get(), (Wide{{1, 2, 3, 4, 5, 6, 7, 8, 9}}));
    EXPECT_EQ(kinds->letters.get(), (std::array<char, 3>{'a', 'b', 'c'}));
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(kinds->bytes[i], i + 1);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(kinds->reals[i], 0.25 * static_cast<double>(i));
  });
}

TEST_P(Object, FieldsAreCountedUpAndDownAndAssignedToEachOther) {
  heap->atomically([&](auto root) {
    root->number = 5;
    EXPECT_EQ(++root->number, 6);
    EXPECT_EQ(root->number++, 6);
    EXPECT_EQ(--root->number, 6);
    EXPECT_EQ(root->number--, 6);
    root->number += 10;
    root->number -= 1;
    EXPECT_EQ(root->number, 14);
    root->first = heap->make<Node>(3);
    root->first->value = root->number;
    root->number = root->number;
    EXPECT_EQ(root->first->value, 14);
    EXPECT_EQ(root->number, 14);
    const auto kinds = heap->make<Kinds>();
    kinds->tiny = std::int8_t{127};
    ++kinds->tiny;
    EXPECT_EQ(kinds->tiny, -128);
    EXPECT_EQ(kinds->bytes[0], 0);
  });
}

TEST_P(Object, ReferencesAreCountedThroughAssignmentsOfEveryKind) {
  heap->atomically([&](auto root) {
    root->first = heap->make<Node>(1);
    root->second = root->first;
    root->row[0] = root->first.get();
    root->first = root->first;  // itself
    root->first = root->second;
  });
  EXPECT_EQ(heap.objects(), empty + 1);
  heap->atomically([&](auto root) {
    root->first = nullptr;
    root->second = local<Node>(nullptr);
  });
  EXPECT_EQ(heap.objects(), empty + 1);
  heap->atomically([&](auto root) { EXPECT_EQ(root->row[0]->value, 1); });
  heap->atomically([&](auto root) { root->row[0] = root->row[1]; });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Object, OneIsLastReferredToAndFirstAgainInTheSameTransaction) {
  heap->atomically([&](auto root) { root->first = heap->make<Node>(1); });
  heap->atomically([&](auto root) {
    const local<Node> node = root->first;
    root->first = nullptr;
    root->second = node;
    root->second = nullptr;
    root->row[2] = node;
  });
  EXPECT_EQ(heap.objects(), empty + 1);
  heap->atomically([&](auto root) {
    EXPECT_EQ(root->row[2]->value, 1);
    root->row[2] = nullptr;
  });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Object, ANewOneThatNothingLeadsToIsGoneAfterTheCommit) {
  heap->atomically([&] {
    const auto node = heap->make<Node>(1);
    node->next = heap->make<Node>(2);
    heap->make_array<ref<Node>>(100);
  });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Object, ACircleStaysAndWeakReferencesAvoidIt) {
  heap->atomically([&](auto root) {
    root->first = heap->make<Node>(1);
    root->first->next = root->first;
  });
  heap->atomically([&](auto root) {
    root->first->next = nullptr;
    root->first->back = root->first;
    root->first = nullptr;
  });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Object, TheRootMayBeReferredToAndOutlivesIt) {
  heap->atomically([&](auto root) {
    root->self_ref = root;
    root->number = 9;
  });
  heap->atomically([&](auto root) { root->self_ref = nullptr; });
  heap.kill();
  heap->atomically([&](auto root) { EXPECT_EQ(root->number, 9); });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Object, WeakReferencesAreNullFromTheEndOn) {
  heap->atomically([&](auto root) {
    root->first = heap->make<Node>(1);
    root->weak = root->first;
    root->weak_too = root->weak;
    root->first->back = root->first;
  });
  EXPECT_EQ(heap.objects(), empty + 2);  // and a proxy
  heap->atomically([&](auto root) {
    EXPECT_EQ(root->weak->value, 1);
    EXPECT_TRUE(root->weak == root->first);
    root->first = nullptr;
  });
  heap->read_only([&](auto root) {
    EXPECT_FALSE(root->weak);
    EXPECT_TRUE(root->weak == nullptr);
    EXPECT_EQ(root->weak_too.get(), nullptr);
  });
  EXPECT_EQ(heap.objects(), empty + 1);
  heap->atomically([&](auto root) { root->weak = nullptr; });
  EXPECT_EQ(heap.objects(), empty + 1);
  heap->atomically([&](auto root) { root->weak_too = root->weak_too; });  // of a dead one: null
  EXPECT_EQ(heap.objects(), empty);
}

/// Each of the orders in which two weak references and the object may go.
TEST_P(Object, ProxiesGoInEveryOrder) {
  std::array<int, 3> order{0, 1, 2};
  do {
    for (const bool at_once : {false, true}) {
      heap->atomically([&](auto root) {
        root->first = heap->make<Node>(1);
        root->weak = root->first;
        root->weak_too = root->first;
      });
      const auto drop = [&](local<Root> root, int what) {
        if (what == 0) root->first = nullptr;
        if (what == 1) root->weak = nullptr;
        if (what == 2) root->weak_too = nullptr;
      };
      if (at_once) {
        heap->atomically([&](auto root) {
          for (const int what : order) drop(root, what);
        });
      } else {
        for (const int what : order) heap->atomically([&](auto root) { drop(root, what); });
      }
      EXPECT_EQ(heap.objects(), empty) << order[0] << order[1] << order[2] << at_once;
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(Object, AWeakReferenceIsMovedFromObjectToObject) {
  heap->atomically([&](auto root) {
    root->first = heap->make<Node>(1);
    root->second = heap->make<Node>(2);
    root->weak = root->first;
    root->weak = root->second;
    root->weak = root->first;
    root->weak_too = root->second;
  });
  heap->atomically([&](auto root) { root->first = nullptr; });
  heap->atomically([&](auto root) {
    EXPECT_FALSE(root->weak);
    EXPECT_EQ(root->weak_too->value, 2);
    root->weak = root->second;
    root->second = nullptr;
  });
  heap->atomically([&](auto root) {
    EXPECT_FALSE(root->weak);
    root->weak = nullptr;
    root->weak_too = nullptr;
  });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Object, AnExceptionLeavesEverythingAsItWas) {
  heap->atomically([&](auto root) {
    root->first = heap->make<Node>(1);
    root->weak = root->first;
    root->number = 7;
  });
  const std::uint64_t before = heap.objects();
  EXPECT_THROW(heap->atomically([&](auto root) {
    root->second = heap->make<Node>(2);
    root->weak = root->second;
    root->first = nullptr;
    root->number = 8;
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  for (int killed = 0; killed < 2; ++killed) {
    EXPECT_EQ(heap.objects(), before);
    heap->atomically([&](auto root) {
      EXPECT_EQ(root->number, 7);
      EXPECT_EQ(root->weak->value, 1);
      EXPECT_TRUE(root->weak == root->first);
      EXPECT_FALSE(root->second);
    });
    heap.kill();
  }
}

TEST_P(Object, NestedTransactionsAreOne) {
  EXPECT_THROW(heap->atomically([&](auto root) {
    root->number = 1;
    heap->atomically([&](auto again) { again->first = heap->make<Node>(4); });
    EXPECT_EQ(heap->read_only([&](auto again) { return std::int64_t{again->first->value}; }), 4);
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_EQ(heap.objects(), empty);
  heap->atomically([&](auto root) {
    const local<Node> node = heap->make<Node>(5);
    heap->atomically([&](auto again) { again->first = node; });  // a local is good in both
    root->second = node;
  });
  EXPECT_EQ(heap.objects(), empty + 1);
}

TEST_P(Object, PointersOfAllKindsAreComparedWithEachOther) {
  heap->atomically([&](auto root) {
    const local<Node> node = heap->make<Node>(1);
    const handle<Node> held(node);
    root->first = node;
    root->second = node;
    root->weak = node;
    EXPECT_TRUE(root->first == root->second);
    EXPECT_TRUE(root->first == node && node == root->first);
    EXPECT_TRUE(root->first == held && held == root->first);
    EXPECT_TRUE(root->first == root->weak && root->weak == root->first);
    EXPECT_TRUE(root->weak == held && held == root->weak);
    EXPECT_TRUE(held == node && node == held);
    EXPECT_TRUE(held == handle<Node>(node));
    EXPECT_FALSE(root->row[0] == root->first || root->row[0] == node || node == nullptr);
    EXPECT_TRUE(root->row[0] == nullptr && nullptr == root->row[0] && root->row[0] == root->row[1]);
  });
}

TEST_P(Object, ValuesLeaveATransaction) {
  EXPECT_EQ(heap->atomically([&](auto root) {
    root->number = 3;
    return std::string(static_cast<std::size_t>(std::int64_t{root->number}), 'x');
  }),
            "xxx");
  EXPECT_EQ(heap->read_only([] { return 4; }), 4);
}

// ---- wrong use ----------------------------------------------------------------------------------

TEST_P(Object, NothingIsReachedOutsideATransaction) {
  local<Root> kept = nullptr;
  heap->atomically([&](auto root) { kept = root; });
  EXPECT_THAT(thrown_by([&] { kept->number = 1; }), HasSubstr("outside"));
  EXPECT_THAT(thrown_by([&] { heap->make<Node>(1); }), HasSubstr("outside"));
  EXPECT_THAT(thrown_by([&] { make<Node>(1); }), HasSubstr("outside"));
  EXPECT_THAT(thrown_by([&] { make_text("x"); }), HasSubstr("outside"));
  EXPECT_THAT(thrown_by([&] { heap->root(); }), HasSubstr("outside"));
}

TEST_P(Object, AFieldThatIsRememberedIsRefusedOutsideATransaction) {
  field<std::int64_t>* number = nullptr;
  ref<Node>* first = nullptr;
  weak_ref<Node>* weak = nullptr;
  heap->atomically([&](auto root) {
    number = std::addressof(root->number);
    first = std::addressof(root->first);
    weak = std::addressof(root->weak);
  });
  EXPECT_THAT(thrown_by([&] { *number = 1; }), HasSubstr("outside a transaction"));
  EXPECT_THAT(thrown_by([&] { static_cast<void>(number->get()); }), HasSubstr("outside"));
  EXPECT_THAT(thrown_by([&] { *first = nullptr; }), HasSubstr("outside"));
  EXPECT_THAT(thrown_by([&] { static_cast<void>(static_cast<bool>(*first)); }), HasSubstr("outs"));
  EXPECT_THAT(thrown_by([&] { static_cast<void>(weak->get()); }), HasSubstr("outside"));
  EXPECT_THAT(thrown_by([&] { *weak = nullptr; }), HasSubstr("outside"));
}

TEST_P(Object, ALocalOfAnEarlierTransactionIsRefused) {
  local<Node> kept = nullptr;
  heap->atomically([&](auto root) {
    kept = heap->make<Node>(1);
    root->first = kept;
  });
  heap->atomically([&](auto root) {
    EXPECT_THAT(thrown_by([&] { kept->value = 2; }), HasSubstr("misuse"));
    EXPECT_THAT(thrown_by([&] { root->second = kept; }), HasSubstr("handle instead"));
    EXPECT_THAT(thrown_by([&] { root->weak = kept; }), HasSubstr("handle instead"));
    EXPECT_THAT(thrown_by([&] { const handle<Node> held(kept); }), HasSubstr("handle instead"));
    EXPECT_FALSE(root->second);
  });
}

TEST_P(Object, AHandleIsNotMadeOutsideATransaction) {
  local<Node> kept = nullptr;
  heap->atomically([&](auto root) {
    kept = heap->make<Node>(1);
    root->first = kept;
  });
  EXPECT_THAT(thrown_by([&] { const handle<Node> held(kept); }), HasSubstr("misuse"));
}

TEST_P(Object, NullIsNotFollowed) {
  heap->atomically([&](auto root) {
    EXPECT_THAT(thrown_by([&] { root->first->value = 1; }), HasSubstr("null reference"));
    EXPECT_THAT(thrown_by([&] { root->weak->value = 1; }), HasSubstr("null reference"));
    EXPECT_THAT(thrown_by([&] { local<Node>(nullptr)->value = 1; }), HasSubstr("null"));
    EXPECT_THAT(thrown_by([&] { handle<Node>()->value = 1; }), HasSubstr("null reference"));
    EXPECT_THAT(thrown_by([&] { local<chars>(nullptr)[0] = 'x'; }), HasSubstr("null"));
    root->number = 1;  // what was refused did not end the transaction
  });
  EXPECT_EQ(heap->read_only([](auto root) { return root->number.get(); }), 1);
}

TEST_P(Object, ReadersStoreNothing) {
  heap->atomically([&](auto root) { root->first = heap->make<Node>(1); });
  const auto refuse = [&](auto body) {
    EXPECT_THAT(thrown_by([&] { heap->read_only(body); }), HasSubstr("read_only"));
  };
  refuse([&](local<Root> root) { root->number = 1; });
  refuse([&](local<Root> root) { root->first = nullptr; });
  refuse([&](local<Root> root) { root->second = root->first; });
  refuse([&](local<Root> root) { root->weak = root->first; });
  refuse([&](local<Root>) { heap->make<Node>(1); });
  refuse([&](local<Root>) { heap->make_text("x"); });
  heap->read_only([&](auto root) {
    EXPECT_EQ(root->first->value, 1);
    EXPECT_FALSE(root->weak);
  });
  EXPECT_EQ(heap.objects(), empty + 1);
}

TEST_P(Object, TwoHeapsDoNotMix) {
  HeapInMemory<Root> other(GetParam());
  handle<Node> held;
  local<Node> theirs = nullptr;
  field<std::int64_t>* number = nullptr;
  ref<Node>* first = nullptr;
  other->atomically([&](auto root) {
    root->first = other->make<Node>(1);
    theirs = root->first;
    held = root->first;
    number = std::addressof(root->number);
    first = std::addressof(root->first);
  });
  const std::uint64_t before = other.objects();
  heap->atomically([&](auto root) {
    EXPECT_THAT(thrown_by([&] { root->first = theirs; }), HasSubstr("misuse"));
    EXPECT_THAT(thrown_by([&] { root->weak = theirs; }), HasSubstr("misuse"));
    EXPECT_THAT(thrown_by([&] { root->first = held; }), HasSubstr("from heap to heap"));
    EXPECT_THAT(thrown_by([&] { held->value = 2; }), HasSubstr("from heap to heap"));
    EXPECT_THAT(thrown_by([&] { *number = 2; }), HasSubstr("another heap"));
    EXPECT_THAT(thrown_by([&] { *first = nullptr; }), HasSubstr("another heap"));
    EXPECT_THAT(thrown_by([&] { root->first = *first; }), HasSubstr("another heap"));
    EXPECT_THAT(thrown_by([&] { other->make<Node>(1); }), HasSubstr("misuse"));
    EXPECT_THAT(thrown_by([&] { other->root(); }), HasSubstr("misuse"));
    EXPECT_THAT(thrown_by([&] { other->atomically([] {}); }), HasSubstr("inside one on another"));
    EXPECT_THAT(thrown_by([&] { other->read_only([] {}); }), HasSubstr("inside one on another"));
    root->number = 5;
  });
  EXPECT_EQ(other.objects(), before);
  EXPECT_EQ(heap.objects(), empty);
  EXPECT_EQ(heap->read_only([](auto root) { return root->number.get(); }), 5);
  EXPECT_EQ(other->read_only([](auto root) { return root->first->value.get(); }), 1);
}

TEST_P(Object, TransactionsOfThePoolAndOfItsHeapDoNotNest) {
  EXPECT_THAT(thrown_by([&] { heap.pool().atomically([&](Tx&) { heap->atomically([] {}); }); }),
              HasSubstr("inside Pool::atomically"));
  heap->atomically([&](auto root) { root->number = 1; });
}

TEST_P(Object, MoreReferencesThanCanBeCountedAreRefused) {
  heap->atomically([&](auto root) { root->first = heap->make<Node>(1); });
  const Offset node = heap->atomically([&](auto root) {
    return static_cast<Offset>(reinterpret_cast<std::byte*>(root->first.operator->().operator->()) -
                               core_of(heap.pool()).world().base);
  });
  Word* const state = reinterpret_cast<Word*>(core_of(heap.pool()).world().base + node) - 2;
  heap.pool().atomically(
      [&](Tx& tx) { tx.store(*state, tx.load(*state) | object_layout::kCountMask); });
  EXPECT_THAT(thrown_by([&] { heap->atomically([&](auto r) { r->second = r->first; }); }),
              HasSubstr("no-space"));
  heap->atomically([&](auto root) {
    EXPECT_FALSE(root->second);
    root->second = heap->make<Node>(2);
  });
}

TEST_P(Object, AFullHeapRefusesAndStaysWhole) {
  HeapInMemory<Root> small(GetParam(), testing::kSmallGeometry);
  const std::uint64_t before = small.objects();
  EXPECT_THAT(thrown_by([&] {
                small->atomically([&](auto root) {
                  root->number = 1;
                  for (int i = 0; i < 1000; ++i) small->make_array<field<char>>(100'000);
                });
              }),
              HasSubstr("no-space"));
  EXPECT_EQ(small.objects(), before);
  EXPECT_EQ(small->read_only([](auto root) { return root->number.get(); }), 0);
  small->atomically([&](auto root) { root->first = small->make<Node>(1); });
  EXPECT_EQ(small.objects(), before + 1);
}

}  // namespace
}  // namespace perdure
