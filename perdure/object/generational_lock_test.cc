// SPDX-License-Identifier: BSD-3-Clause
#include <stdexcept>

#include "tests/object_fixture.h"

namespace perdure {
namespace {

struct Desk : object<Desk> {
  generational_lock lock;
  field<std::int64_t> papers;
  PERDURE_FIELDS(Desk, lock, papers);
};

class GenerationalLock : public testing::ObjectTest {
 protected:
  bool held() {
    return heap->read_only([](local<Desk> desk) { return desk->lock.held(); });
  }
  bool acquire() {
    return heap->atomically([](local<Desk> desk) { return desk->lock.try_acquire(); });
  }
  testing::HeapInMemory<Desk> heap{GetParam()};
};
PERDURE_ON_ENGINES(GenerationalLock);

TEST_P(GenerationalLock, IsHeldAcrossTransactionsByOne) {
  EXPECT_FALSE(held());
  EXPECT_TRUE(acquire());
  EXPECT_TRUE(held());
  EXPECT_FALSE(acquire());
  heap->atomically([](local<Desk> desk) { desk->lock.release(); });
  EXPECT_FALSE(held());
  EXPECT_TRUE(acquire());
}

TEST_P(GenerationalLock, IsFreeWhenTheProcessThatHeldItHasDied) {
  ASSERT_TRUE(acquire());
  const std::uint64_t generation = heap->generation();
  heap.kill();
  EXPECT_GT(heap->generation(), generation);
  EXPECT_FALSE(held());
  EXPECT_TRUE(acquire());
}

TEST_P(GenerationalLock, IsTakenWithItsTransactionOrNotAtAll) {
  EXPECT_THROW(heap->atomically([](local<Desk> desk) {
    EXPECT_TRUE(desk->lock.try_acquire());
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_FALSE(held());
}

}  // namespace
}  // namespace perdure
