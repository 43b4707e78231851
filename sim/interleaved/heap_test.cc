// SPDX-License-Identifier: BSD-3-Clause
// The heap's magazines, superblocks and their lists in every order of two threads: nothing is
// handed out twice, and nothing is lost.
#include <array>
#include <map>

#include "sim/interleaved/interleaved_test.h"

namespace perdure::interleaved {
namespace {

using HeapInterleaved = Interleaved;

/// Two to a superblock; a magazine holds one of them. The scenarios know this size and half of it.
constexpr std::uint64_t kBytes = 4096;

/// Two threads that take space from the heap and give it back, without transactions.
class Takers {
 public:
  explicit Takers(World& world) : world_(&world), free_blocks_(world.heap().usage().free_blocks) {}

  /// Takes an object; null: there is no room for another superblock.
  HeapObject take(std::size_t thread, std::uint64_t bytes = kBytes) {
    for (;;) {
      const HeapObject object = world_->heap().reserve(caches_[thread], bytes);
      if (object.offset != 0) {
        for (const auto& [begin, end] : taken_)
          require(object.offset + bytes <= begin || object.offset >= end, "handed out twice");
        taken_[object.offset] = object.offset + bytes;
        return object;
      }
      // As Tx::reserve() does.
      Heap::Change change(world_->heap(), caches_[thread], bytes);
      while (change.next()) {
        if (change.segments != 0) return {};
        world_->engine().publish(change.writes, thread);
      }
    }
  }
  /// Gives it back, for the thread that does so to take again first.
  void give(std::size_t thread, const HeapObject& object) {
    taken_.erase(object.offset);
    world_->heap().release(object, caches_[thread]);
  }
  void end(std::size_t thread) { world_->heap().give_back(caches_[thread]); }
  /// Takes all free blocks.
  void fill() {
    while (world_->heap().reserve(caches_[2], kBlockBytes).offset != 0) --free_blocks_;
  }
  /// When all but `left` objects of kBytes have been given back: whether each other one of each
  /// superblock can be taken again, without another superblock.
  void expect_all_there(std::uint64_t left = 0) {
    require(objects_of(kBytes) == left && objects_of(kBytes / 2) == 0, "something is still taken");
    const std::uint64_t superblocks = free_blocks_ - world_->heap().usage().free_blocks;
    std::uint64_t taken = left * kBytes;
    for (const std::uint64_t bytes : {kBytes, kBytes / 2}) {
      for (HeapCache& cache : caches_) {
        while (world_->heap().reserve(cache, bytes).offset != 0) taken += bytes;
      }
    }
    require(taken == kBlockBytes * superblocks, "something is lost");
    require(kBytes * objects_of(kBytes) + kBytes / 2 * objects_of(kBytes / 2) == taken,
            "something is handed out twice");
  }
  std::uint64_t objects_of(std::uint64_t bytes) {
    std::uint64_t count = 0;
    world_->heap().for_each_object([&](Offset, std::uint64_t of) { count += of == bytes ? 1 : 0; });
    return count;
  }

 private:
  World* world_;
  std::uint64_t free_blocks_;  // at first
  std::array<HeapCache, 3> caches_{};
  std::map<Offset, Offset> taken_;
};

/// Two threads that both need a superblock.
Report need_blocks(const Limits& limits) {
  return explore(
      Bias::kEnded,
      [](World& world) {
        auto takers = std::make_shared<Takers>(world);
        Threads all;
        for (std::size_t thread = 0; thread < 2; ++thread) {
          all.bodies.emplace_back([=] {
            const HeapObject mine = takers->take(thread);
            takers->give(thread, mine);
            takers->end(thread);
          });
        }
        all.after = [takers] { takers->expect_all_there(); };
        return all;
      },
      limits);
}

TEST_F(HeapInterleaved, EachThreadGetsASuperblockOfItsOwn) {
  expect_sound(need_blocks({.preemptions = 3}));
  expect_sound(need_blocks({.store_buffers = true}));
}

/// The first thread has filled a superblock, and takes more and gives it back, while the second one
/// frees what is in there: all of it, or one object.
Report share_a_block(bool all_of_it, const Limits& limits) {
  return explore(
      Bias::kEnded,
      [all_of_it](World& world) {
        auto takers = std::make_shared<Takers>(world);
        const HeapObject one = takers->take(0);
        const HeapObject other = takers->take(0);
        const HeapObject own = takers->take(1);
        Threads all;
        all.bodies.emplace_back([=] {
          const HeapObject more = takers->take(0);
          takers->give(0, more);
          takers->end(0);
        });
        all.bodies.emplace_back([=] {
          takers->give(1, one);
          takers->give(1, own);
          if (all_of_it) {
            takers->give(1, other);
            takers->give(1, takers->take(1));
          }
          takers->end(1);
        });
        all.after = [takers, all_of_it] { takers->expect_all_there(all_of_it ? 0 : 1); };
        return all;
      },
      limits);
}

TEST_F(HeapInterleaved, NothingOfASharedSuperblockIsHandedOutTwiceOrLost) {
  for (const bool all_of_it : {false, true}) {
    expect_sound(share_a_block(all_of_it, {.preemptions = 3}));
    expect_sound(share_a_block(all_of_it, {.store_buffers = true}));
  }
}

/// One thread gives back the last objects of a superblock that nobody owns, while the other one
/// needs a superblock for objects of another size, and there is none but that.
Report reclaim(const Limits& limits) {
  return explore(
      Bias::kEnded,
      [](World& world) {
        auto takers = std::make_shared<Takers>(world);
        const HeapObject one = takers->take(0);
        const HeapObject other = takers->take(0);
        const HeapObject next = takers->take(0);  // it owns another superblock from here on
        takers->fill();
        Threads all;
        all.bodies.emplace_back([=] {
          takers->give(0, one);
          takers->give(0, other);
          takers->end(0);
          takers->give(0, takers->take(0));
          takers->end(0);
        });
        all.bodies.emplace_back([=] {
          const HeapObject mine = takers->take(1, kBytes / 2);
          if (mine.offset == 0) return;
          takers->give(1, mine);
          takers->end(1);
        });
        all.after = [takers, next] {
          takers->give(0, next);
          takers->end(0);
          takers->expect_all_there();
        };
        return all;
      },
      limits);
}

TEST_F(HeapInterleaved, ASuperblockThatIsLeftServesAnotherSizeOnce) {
  expect_sound(reclaim({.preemptions = 3}));
  expect_sound(reclaim({.store_buffers = true}));
}

TEST_F(HeapInterleaved, EachLockAndEachBitIsNeeded) {
  const auto shared = [] { return share_a_block(true, {}); };
  expect_noticed({Access::kLock}, [] { return need_blocks({}); });
  expect_noticed({Access::kChange, "Heap::take_bit"}, shared);
  expect_noticed({Access::kChange, "Heap::give_back"}, shared);
  expect_noticed({Access::kChange, "Heap::release"}, shared);
  expect_noticed({Access::kStore, "Heap::disown", std::memory_order_seq_cst}, shared);
  // Who disowns a superblock and who frees what is in there see each other.
  expect_noticed({Access::kOrder, "Heap::disown", std::memory_order_seq_cst},
                 [] { return share_a_block(false, {.store_buffers = true}); });
}

}  // namespace
}  // namespace perdure::interleaved
