// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/persistable.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/container/btree_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"

namespace perdure {
namespace {

enum class Colour : std::uint8_t { kRed };
struct Empty {};
struct Node {
  pptr<Node> next;
  std::uint64_t value;
};
struct Nested {
  Node node;
  std::array<std::array<Colour, 3>, 1000> colours;
  string name;
};
struct WithPointer {
  const char* text;
};
struct DeepPointer {
  std::array<std::array<WithPointer, 2>, 2> pointers;
};
struct WithVirtual {
  virtual void call();
  int number;
};
struct WithDestructor {
  ~WithDestructor() {}  // NOLINT(modernize-use-equals-default): not trivial is the point
  int number;
};
class Private {
  [[maybe_unused]] int number_ = 0;
};
class Promising {
  [[maybe_unused]] int number_ = 0;
};

}  // namespace

template <>
inline constexpr bool is_persistable_by_promise<Promising> = true;

namespace {

TEST(Persistable, TakesPlainValuesAndWhatIsMadeOfThem) {
  EXPECT_TRUE(Persistable<int>);
  EXPECT_TRUE(Persistable<const double>);
  EXPECT_TRUE(Persistable<Colour>);
  EXPECT_TRUE(Persistable<Empty>);
  EXPECT_TRUE(Persistable<Node>);
  EXPECT_TRUE(Persistable<Nested>);
  EXPECT_TRUE((Persistable<std::uint64_t[4][2]>));
}

TEST(Persistable, TakesLinksAndContainersOfSuch) {
  EXPECT_TRUE(Persistable<pptr<Node>>);
  EXPECT_TRUE(Persistable<string>);
  EXPECT_TRUE(Persistable<vector<Nested>>);
  EXPECT_TRUE((Persistable<hash_map<bytes, bytes>>));
  EXPECT_TRUE((Persistable<hash_map<std::uint64_t, vector<string>>>));
  EXPECT_TRUE((Persistable<btree_map<std::uint64_t, double>>));
  EXPECT_TRUE((Persistable<rb_map<std::uint64_t, double>>));
}

TEST(Persistable, RefusesWhatRefersToMemoryOfThisRun) {
  EXPECT_FALSE(Persistable<int*>);
  EXPECT_FALSE(Persistable<int&>);
  EXPECT_FALSE(Persistable<void (*)()>);
  EXPECT_FALSE(Persistable<int Node::*>);
  EXPECT_FALSE(Persistable<std::nullptr_t>);
  EXPECT_FALSE(Persistable<WithPointer>);
  EXPECT_FALSE(Persistable<DeepPointer>);
  EXPECT_FALSE(Persistable<WithVirtual>);
  EXPECT_FALSE(Persistable<std::string_view>);
}

TEST(Persistable, RefusesWhatOwnsSomethingOutside) {
  EXPECT_FALSE(Persistable<std::string>);
  EXPECT_FALSE(Persistable<std::vector<int>>);
  EXPECT_FALSE(Persistable<std::unique_ptr<int>>);
  EXPECT_FALSE(Persistable<WithDestructor>);
}

TEST(Persistable, RefusesWhatItCannotLookIntoUnlessPromised) {
  EXPECT_FALSE(Persistable<Private>);
  EXPECT_TRUE(Persistable<Promising>);
  EXPECT_FALSE(Persistable<std::optional<int>>);
}

}  // namespace
}  // namespace perdure
