// SPDX-License-Identifier: BSD-3-Clause
// Every workload in every layer, small: after thousands of operations the structure is what it has to be, and no operation is lost.
#include "papers/nvheaps/evaluation/job.h"

#include <set>
#include <thread>
#include <tuple>

#include <gtest/gtest.h>

#include "measure/measure.h"
#include "papers/nvheaps/evaluation/b_tree.h"
#include "papers/nvheaps/evaluation/full_sizes.h"
#include "papers/nvheaps/evaluation/hash_table.h"
#include "papers/nvheaps/evaluation/raw_layer.h"
#include "papers/nvheaps/evaluation/red_black_tree.h"
#include "papers/nvheaps/evaluation/safe_layer.h"
#include "papers/nvheaps/evaluation/six_degrees.h"
#include "papers/nvheaps/evaluation/swaps.h"
#include "papers/nvheaps/evaluation/updates.h"
#include "papers/pool.h"
#include "perdure/api/pool_core.h"

namespace perdure::bench::nvheaps {
namespace {

constexpr Sizes kSmall{.array_words = 256,
                       .keys = 64,
                       .vertices = 60,
                       .edges = 128,
                       .scale = 5,
                       .edges_per_vertex = 4};

struct Way {
  Layer layer;
  papers::EngineKind engine = papers::EngineKind::kMnemosyne;
  unsigned threads = 1;
};
constexpr std::array<Way, 10> kWays = {{{Layer::kBase},
                                        {Layer::kSafe},
                                        {Layer::kTx},
                                        {Layer::kCTx},
                                        {Layer::kNoDur},
                                        {Layer::kCTx, papers::EngineKind::kMnemosyne, 2},
                                        {Layer::kNoDur, papers::EngineKind::kMnemosyne, 2},
                                        {Layer::kTx, papers::EngineKind::kUndoObjects},
                                        {Layer::kCTx, papers::EngineKind::kUndoObjects},
                                        {Layer::kCTx, papers::EngineKind::kUndoObjects, 2}}};

HeapSetting setting_of(const Way& way, const std::string& dir) {
  HeapSetting setting;
  setting.dir = dir;
  setting.layer = way.layer;
  setting.engine = way.engine;
  return setting;
}

constexpr std::string_view layer_name(Layer layer) {
  constexpr std::array<std::string_view, 5> kNames = {"BASE", "SAFE", "TX", "C-TX", "NoDur"};
  return kNames[static_cast<std::size_t>(layer)];
}

template <class L>
using SwapRootHeap = typename L::template Heap<SwapRoot<L>>;

class WorkInLayer : public ::testing::TestWithParam<std::tuple<Work, std::size_t>> {
 protected:
  ScratchDirectory directory_{"/dev/shm", "nvheaps-test"};
};
INSTANTIATE_TEST_SUITE_P(All, WorkInLayer,
                         ::testing::Combine(::testing::ValuesIn(kAllWork),
                                            ::testing::Range<std::size_t>(0, kWays.size())),
                         [](const auto& of) {
                           const Way& way = kWays[std::get<1>(of.param)];
                           std::string name = std::string(work_name(std::get<0>(of.param))) + "_" +
                                              std::string(layer_name(way.layer)) + "_" +
                                              std::string(papers::engine_name(way.engine)) + "_" +
                                              std::to_string(way.threads);
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(WorkInLayer, KeepsItsInvariants) {
  const auto [work, index] = GetParam();
  const Way& way = kWays[index];
  const auto job = make_job(work, setting_of(way, directory_.path()), kSmall, way.threads, 7);
  for (unsigned round = 0; round < 3; ++round) {
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < way.threads; ++thread)
      threads.emplace_back([&, thread] { job->run(700, thread); });
    threads.clear();
    EXPECT_NO_THROW(job->check());
  }
}

/// A set of integers against std::set.
template <class Set, class Toggle>
void expect_like_a_set(Set& set, const Toggle& toggle) {
  std::set<std::uint64_t> model;
  for (const std::uint64_t key : shuffled_keys(kSmall.keys)) model.insert(key);
  Random random(3);
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t key = random.below(2 * kSmall.keys);
    const bool inserted = model.insert(key).second;
    if (!inserted) model.erase(key);
    ASSERT_EQ(toggle(key), inserted) << key;
    if (i % 50 == 0) {
      ASSERT_EQ(set.check(), model.size());
    }
  }
  while (!model.empty()) {
    ASSERT_FALSE(toggle(*model.begin()));
    model.erase(model.begin());
  }
  ASSERT_EQ(set.check(), 0u);
}

template <class L>
class Sets : public ::testing::Test {
 protected:
  template <class Set>
  struct Made {
    typename Set::Heap heap;
    Set set;
    explicit Made(const std::string& dir)
        : heap(setting_of({std::is_same_v<L, BaseLayer> ? Layer::kBase : Layer::kTx}, dir)),
          set(heap, kSmall) {}
  };
  ScratchDirectory directory_{"/dev/shm", "nvheaps-test"};
};
using Layers = ::testing::Types<BaseLayer, SafeLayer>;
TYPED_TEST_SUITE(Sets, Layers);

TYPED_TEST(Sets, BTreeIsOne) {
  typename TestFixture::template Made<BTree<TypeParam>> made(this->directory_.path());
  expect_like_a_set(made.set, [&](std::uint64_t key) { return made.set.toggle(key); });
}
TYPED_TEST(Sets, HashTableIsOne) {
  typename TestFixture::template Made<HashTable<TypeParam>> made(this->directory_.path());
  expect_like_a_set(made.set, [&](std::uint64_t key) { return made.set.toggle(key); });
}
TYPED_TEST(Sets, RedBlackTreeIsOne) {
  typename TestFixture::template Made<RedBlackTree<TypeParam>> made(this->directory_.path());
  typename RedBlackTree<TypeParam>::Scratch way;
  expect_like_a_set(made.set, [&](std::uint64_t key) { return made.set.toggle(key, way); });
}

TYPED_TEST(Sets, SixDegreesFindsTheShortestPaths) {
  typename TestFixture::template Made<SixDegrees<TypeParam>> made(this->directory_.path());
  typename SixDegrees<TypeParam>::Scratch scratch;
  // Half of the edges that may be are there, the even ones.
  const auto edges = possible_edges(kSmall);
  const std::uint64_t n = kSmall.vertices;
  std::vector<std::vector<unsigned>> far(n, std::vector<unsigned>(n, 1000));
  for (std::uint64_t i = 0; i < n; ++i) far[i][i] = 0;
  for (std::size_t i = 0; i < edges.size(); i += 2) {
    const auto [one, other] = edges[i];
    far[one][other] = far[other][one] = 1;
  }
  for (std::uint64_t k = 0; k < n; ++k) {
    for (std::uint64_t i = 0; i < n; ++i) {
      for (std::uint64_t j = 0; j < n; ++j) far[i][j] = std::min(far[i][j], far[i][k] + far[k][j]);
    }
  }
  for (std::uint64_t i = 0; i < n; ++i) {
    for (std::uint64_t j = 0; j < n; ++j)
      ASSERT_EQ(made.set.search(i, j, scratch), std::min(far[i][j], kDegrees + 1));
  }
}

// ---- checkpoints --------------------------------------------------------------------------------

constexpr std::chrono::hours kWhenAsked{1000};

template <class L>
HeapSetting checkpointed_setting(const std::string& dir, std::chrono::nanoseconds period) {
  HeapSetting setting =
      setting_of({std::is_same_v<L, BaseLayer> ? Layer::kBase : Layer::kSafe}, dir);
  setting.checkpoints = period;
  setting.bytes = std::uint64_t{8} << 20;
  return setting;
}

template <class L>
std::vector<std::uint64_t> entries_in(SwapRootHeap<L>& heap) {
  std::vector<std::uint64_t> found;
  heap.read([&](auto root) {
    const auto entries = root->entries.get();
    for (std::uint64_t i = 0; i < kSmall.array_words; ++i) found.push_back(entries[i]);
  });
  return found;
}

TYPED_TEST(Sets, ACheckpointIsReadBackAsTheHeapWasThen) {
  using L = TypeParam;
  const HeapSetting setting = checkpointed_setting<L>(this->directory_.path(), kWhenAsked);
  SwapRootHeap<L> heap(setting);
  Swaps<L> swaps(heap, kSmall);
  typename Swaps<L>::Scratch scratch;
  Random random(5);
  const auto swap_some = [&](Swaps<L>& of) {
    for (int i = 0; i < 100; ++i) (void)of.operate(random, scratch);
  };
  heap.save();
  for (int round = 0; round < 20; ++round) {
    swap_some(swaps);
    heap.save();
    const std::vector<std::uint64_t> then = entries_in<L>(heap);
    swap_some(swaps);
    ASSERT_NE(entries_in<L>(heap), then);
    SwapRootHeap<L> again(heap.saved()->read_back(), setting);
    ASSERT_EQ(entries_in<L>(again), then) << round;
  }
}

TYPED_TEST(Sets, WithACheckpointAfterEachOperationNothingIsLost) {
  using L = TypeParam;
  for (const Work work : {Work::kBTree, Work::kHashTable, Work::kRedBlackTree}) {
    const auto job = make_job(
        work, checkpointed_setting<L>(this->directory_.path(), std::chrono::nanoseconds::zero()),
        kSmall, 1, 7);
    const std::uint64_t before = job->checkpoints().taken;
    job->run(200, 0);
    EXPECT_EQ(job->checkpoints().taken - before, 200u);
    EXPECT_NO_THROW(job->recover());
    EXPECT_NO_THROW(job->check());
  }
}

TYPED_TEST(Sets, EveryStructureGoesOnWithItsLastCheckpoint) {
  for (const Work work : kAllWork) {
    SCOPED_TRACE(work_name(work));
    const auto job = make_job(
        work, checkpointed_setting<TypeParam>(this->directory_.path(), kWhenAsked), kSmall, 1, 7);
    for (int crash = 0; crash < 3; ++crash) {
      job->run(300, 0);
      job->checkpoint();
      job->run(301, 0);  // lost
      EXPECT_NO_THROW(job->check());
      job->recover();
      EXPECT_NO_THROW(job->check());
    }
    job->run(300, 0);
    EXPECT_NO_THROW(job->check());
  }
}

TYPED_TEST(Sets, CheckpointsAreTakenNowAndThenByTime) {
  const auto job = make_job(
      Work::kHashTable,
      checkpointed_setting<TypeParam>(this->directory_.path(), std::chrono::milliseconds(1)),
      kSmall, 1, 7);
  const std::uint64_t before = job->checkpoints().taken;
  const double began_ns = thread_cpu_ns();
  std::uint64_t operations = 0;
  while (thread_cpu_ns() - began_ns < 50e6) {
    job->run(1000, 0);
    operations += 1000;
  }
  const std::uint64_t taken = job->checkpoints().taken - before;
  EXPECT_GE(taken, 5u);
  EXPECT_LE(taken, 51u);
  EXPECT_GT(operations, 10 * taken);
  EXPECT_NO_THROW(job->check());
}

TEST(FullSizes, TakeAThirdOfTheFreeMemoryAtMost) {
  const auto bytes_of_race = [](std::uint64_t free_gib) {
    const Sizes sizes = full_sizes(free_gib << 30);
    std::uint64_t most = 0;
    for (const Work work : kAllWork) most = std::max(most, heap_bytes(work, sizes));
    return most * kStructuresOfRace;
  };
  for (const std::uint64_t gib : {4, 8, 16, 22, 64, 512}) {
    EXPECT_LE(bytes_of_race(gib), (gib << 30) / 3) << gib;
    if (gib >= 16) {
      EXPECT_GT(bytes_of_race(gib), kStructuresOfRace * (std::uint64_t{100} << 20)) << gib;
    }
  }
  EXPECT_LE(full_sizes(std::uint64_t{1} << 50).array_words, std::uint64_t{1} << 30)
      << "the paper's";
  EXPECT_GT(free_memory_bytes(), std::uint64_t{1} << 28);
}

// ---- what else there is -------------------------------------------------------------------------

TEST(SafeSets, LeaveNothingBehind) {
  const ScratchDirectory directory("/dev/shm", "nvheaps-test");
  SafeHeap<BTreeRoot<SafeLayer>> heap(setting_of({Layer::kTx}, directory.path()));
  BTree<SafeLayer> tree(heap, kSmall);
  for (const std::uint64_t key : shuffled_keys(kSmall.keys)) tree.toggle(key);
  const std::uint64_t empty = core_of(heap.heap().pool()).heap().usage().objects;
  for (const std::uint64_t key : shuffled_keys(kSmall.keys)) tree.toggle(key);
  EXPECT_GT(core_of(heap.heap().pool()).heap().usage().objects, empty);
  for (const std::uint64_t key : shuffled_keys(kSmall.keys)) tree.toggle(key);
  EXPECT_EQ(core_of(heap.heap().pool()).heap().usage().objects, empty);
}

TEST(Updates, AreAllThere) {
  const ScratchDirectory directory("/dev/shm", "nvheaps-test");
  SafeHeap<SwapRoot<SafeLayer>> heap(setting_of({Layer::kCTx}, directory.path()));
  Updates<SafeLayer> updates(heap, 100);
  {
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&, thread] {
        Random random(thread);
        for (int i = 0; i < 500; ++i) updates.update(random, 8);
      });
    }
  }
  EXPECT_EQ(updates.sum(), 2u * 500 * 8);
}

TEST(CountedLayer, SeesALineForEachEntryThatIsSwapped) {
  const ScratchDirectory directory("/dev/shm", "nvheaps-test");
  HeapSetting setting;
  setting.dir = directory.path();
  Sizes sizes = kSmall;
  sizes.array_words = 1 << 16;
  const double lines = make_counted_job(Work::kSwaps, setting, sizes, 1)->touched_lines(1000);
  EXPECT_GT(lines, 2.9);  // two entries, and the root
  EXPECT_LE(lines, 3);
}

TEST(Company, KeepsATransactionFromBeingAlone) {
  const ScratchDirectory directory("/dev/shm", "nvheaps-test");
  for (const Layer layer : {Layer::kTx, Layer::kCTx}) {
    SafeHeap<SwapRoot<SafeLayer>> heap(setting_of({layer}, directory.path()));
    Updates<SafeLayer> updates(heap, 100);
    Random random(1);
    for (int i = 0; i < 5000; ++i) updates.update(random, 1);
    const bool alone = heap.heap().read_only(
        [&](auto) { return core_of(heap.heap().pool()).context().tx.alone(); });
    EXPECT_EQ(alone, layer == Layer::kTx) << layer_name(layer);
  }
}

}  // namespace
}  // namespace perdure::bench::nvheaps
