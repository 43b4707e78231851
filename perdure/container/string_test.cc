// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/string.h"

#include "perdure/container/container_test_world.h"

namespace perdure {
namespace {

using testing::complaint;
using testing::expect_sound;
using testing::PlainWorld;
using testing::PoolWorld;

template <class World>
using String = testing::InEachWorld<World>;
TYPED_TEST_SUITE(String, testing::Worlds);

TYPED_TEST(String, HoldsWhatWasAssignedLast) {
  auto* text = this->world_.template root<string>();
  this->world_.atomically([&](auto& tx) {
    EXPECT_EQ(text->str(tx), "");
    EXPECT_TRUE(text->empty(tx));
  });
  for (const std::string& wanted :
       {std::string("short"), std::string("other"), std::string(3, '\0'), std::string(),
        std::string(8193, 'x'), std::string(300000, 'y'), std::string("end")}) {
    this->world_.atomically([&](auto& tx) { text->assign(tx, wanted); });
    this->world_.atomically([&](auto& tx) {
      EXPECT_EQ(text->str(tx), wanted);
      EXPECT_EQ(text->size(tx), wanted.size());
    });
    expect_sound(this->world_, *text);
  }
  this->world_.atomically([&](auto& tx) { text->clear(tx); });
  EXPECT_TRUE(this->world_.live_objects().empty());
}

TEST(StringPlain, AFailedAllocationChangesNothing) {
  PlainWorld world;
  auto* text = world.root<string>();
  text->assign(world.tx(), "before");
  world.tx().allowed = 0;
  EXPECT_THROW(text->assign(world.tx(), "a longer one"), std::bad_alloc);
  EXPECT_EQ(text->str(world.tx()), "before");
  expect_sound(world, *text);
}

TEST(StringPlain, AuditFindsASizeWithoutBytes) {
  PlainWorld world;
  auto* text = world.root<string>();
  reinterpret_cast<std::uint64_t*>(text)[1] = 5;
  EXPECT_EQ(complaint(world, *text), "string: 5 bytes at offset 0");
}

TEST(StringPool, IsTheSameAfterReopeningAndUndoneByAnException) {
  PoolWorld world;
  auto* text = world.root<string>();
  world.atomically([&](Tx& tx) { text->assign(tx, "kept"); });
  EXPECT_THROW(world.atomically([&](Tx& tx) {
    text->assign(tx, "something else");
    throw 1;
  }),
               int);
  world.reopen();
  text = world.root<string>();
  world.atomically([&](Tx& tx) { EXPECT_EQ(text->str(tx), "kept"); });
  expect_sound(world, *text);
}

}  // namespace
}  // namespace perdure
