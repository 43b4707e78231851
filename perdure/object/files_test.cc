// SPDX-License-Identifier: BSD-3-Clause
// Heaps in files: made, opened, copied, renamed, refused; and heaps in pools that hold other
// things.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/object.h"
#include "tests/object_fixture.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;
using testing::in_child;
using testing::TempDir;

struct Node : object<Node> {
  field<int> value;
  ref<Node> next;
  PERDURE_FIELDS(Node, value, next);
};
using Heap = object_heap<Node>;

class ObjectFiles : public testing::ObjectTest {
 protected:
  papers::LabOptions options() {
    papers::LabOptions options;
    options.engine = GetParam();
    options.capacity_bytes = std::uint64_t{64} << 20;
    return options;
  }
  static Result<Heap> opened(Result<papers::LabPool> pool) {
    if (!pool) return pool.error();
    return Heap::in_own_pool(std::move(pool).value());
  }
  std::string code_of(Result<Heap> opened) {
    return opened ? "opened" : std::string(code_name(opened.error().code));
  }
  int value_in(Heap& heap) {
    return heap.read_only([](auto root) { return root->value.get(); });
  }
  TempDir dir;
  const std::string path = dir / "a.heap";
};
PERDURE_ON_ENGINES(ObjectFiles);

TEST_P(ObjectFiles, AreMadeOnceAndOpenedAgain) {
  EXPECT_EQ(code_of(opened(papers::open(path, options()))), "not-found");
  {
    Heap heap = opened(papers::create(path, options())).value();
    EXPECT_EQ(heap.generation(), 1u);
    heap.atomically([](auto root) { root->value = 5; });
    EXPECT_EQ(code_of(opened(papers::open(path, options()))), "busy");
  }
  EXPECT_EQ(code_of(opened(papers::create(path, options()))), "exists");
  Heap heap = opened(papers::open_or_create(path, options())).value();
  EXPECT_EQ(heap.generation(), 2u);
  EXPECT_EQ(value_in(heap), 5);
}

TEST_P(ObjectFiles, OfOtherKindsAreRefused) {
  std::ofstream(path) << std::string(100'000, 'x');
  EXPECT_EQ(code_of(opened(papers::open_or_create(path, options()))), "foreign");
  const std::string bare = dir / "bare.pool";
  {
    Pool pool = Pool::create(bare, options()).value();
  }
  EXPECT_EQ(code_of(Heap::open(bare, options())), "not-found");
  EXPECT_EQ(code_of(Heap::open_or_create(bare, options())), "opened");
  EXPECT_EQ(code_of(Heap::open(bare, options())), "opened");
}

TEST_P(ObjectFiles, AreCopiedAndRenamedAndOpenedTogether) {
  {
    Heap heap = opened(papers::create(path, options())).value();
    heap.atomically([&](auto root) {
      root->next = heap.make<Node>();
      root->next->value = 8;
      root->next->next = root->next;
    });
  }
  std::filesystem::copy_file(path, dir / "b.heap");
  std::filesystem::rename(path, dir / "c.heap");
  Heap b = Heap::open(dir / "b.heap", options()).value();
  Heap c = Heap::open(dir / "c.heap", options()).value();
  b.atomically([](auto root) { root->next->next->value = 9; });
  EXPECT_EQ(c.read_only([](auto root) { return root->next->next->next->value.get(); }), 8);
  EXPECT_EQ(b.read_only([](auto root) { return root->next->value.get(); }), 9);
  c = std::move(b);
  EXPECT_EQ(c.read_only([](auto root) { return root->next->value.get(); }), 9);
}

TEST_P(ObjectFiles, OfAProcessThatDiedRecoverOnACopy) {
  EXPECT_EQ(in_child([&] {
              Heap heap = opened(papers::create(path, options())).value();
              heap.atomically([&](auto root) { root->value = 6; });
              const auto held = heap.atomically([&] { return handle<Node>(heap.make<Node>()); });
              ::_exit(7);
              return 0;
            }),
            7);
  std::filesystem::copy_file(path, dir / "b.heap");
  for (const std::string& name : {dir / "b.heap", path}) {
    Heap heap = opened(papers::open(name, options())).value();
    EXPECT_EQ(value_in(heap), 6);
    EXPECT_EQ(heap.recovery().orphans, 1u);
    EXPECT_EQ(heap.recovery().ended, 1u);
  }
}

TEST_P(ObjectFiles, HoldOtherRootsBeside) {
  Pool pool = Pool::create(path, options()).value();
  auto* number = pool.root<std::uint64_t>("number");
  pool.atomically([&](Tx& tx) { tx.store(*number, 3); });
  for (int opened = 1; opened < 4; ++opened) {
    Heap heap = Heap::in_pool(pool).value();
    EXPECT_EQ(heap.generation(), static_cast<std::uint64_t>(opened));
    heap.atomically([&](auto root) { root->next = heap.make<Node>(); });
    EXPECT_EQ(pool.read_only([&](Tx& tx) { return tx.load(*number); }), 3u);
  }
  pool.root<std::array<std::uint64_t, 3>>("objects of another kind");
  const std::string other = dir / "other.pool";
  Pool without = Pool::create(other, options()).value();
  without.root<std::uint64_t>("objects");
  auto refused = Heap::in_pool(without);
  ASSERT_FALSE(refused);
  EXPECT_EQ(code_name(refused.error().code), "type-mismatch");
}

TEST_P(ObjectFiles, SayWhoTheyAreWhenHeapsAreMixed) {
  Heap a = opened(papers::create(path, options())).value();
  Heap b = Heap::create(dir / "b.heap", options()).value();
  const auto held = a.atomically([](auto root) { return handle<Node>(root); });
  EXPECT_THAT(testing::thrown_by([&] { b.atomically([&](auto root) { root->next = held; }); }),
              ::testing::AllOf(HasSubstr("a.heap"), HasSubstr("b.heap")));
}

}  // namespace
}  // namespace perdure
