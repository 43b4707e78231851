// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/heap/heap.h"

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::Image;

constexpr std::uint64_t kKiB = 1024;
constexpr Geometry kRoomy = {16 * kKiB * kKiB, 128 * kKiB, kPageBytes, 2, 4};

/// A heap on an image, published without a log.
struct HeapOnImage {
  explicit HeapOnImage(const Geometry& geometry = kRoomy, std::uint64_t segments = 1)
      : image(Image::formatted(geometry, segments)) {
    restart().value();
  }
  Result<void> restart(std::vector<std::string>* findings = nullptr) {
    heap.reset();
    auto opened = image.region();
    if (!opened) return opened.error();
    region = std::move(opened).value();
    heap.reset(new Heap(*region));
    cache = {};
    return heap->open(findings);
  }
  void apply(std::span<const MaskedWrite> writes) {
    if (publishes_left == 0) throw Exception(Code::kNoSpace, "no room for a log");
    if (publishes_left > 0) --publishes_left;
    for (const MaskedWrite& write : writes)
      domain.merge(region->word(write.offset), write.value, write.mask);
  }
  void publish(Offset object) {
    MaskedWrites writes;
    heap->publish_writes(heap->describe(object), writes);
    apply(writes);
  }
  Offset allocate(std::uint64_t bytes) { return allocate(cache, bytes); }
  Offset reserve(std::uint64_t bytes) { return reserve(cache, bytes); }
  Offset reserve(Heap::Cache& from, std::uint64_t bytes) {
    for (;;) {
      if (const HeapObject object = heap->reserve(from, bytes); object.offset != 0)
        return object.offset;
      Heap::Change change(*heap, from, bytes);
      while (change.next()) {
        if (!change.writes.empty()) apply(change.writes);
        if (change.segments == 0) continue;
        const Word fresh = heap_layout::segment_word(heap_layout::SegmentKind::kFree);
        auto grown = region->grow(domain, change.segments, fresh);
        if (!grown) grown = region->grow(domain, change.least_segments, fresh);
        grown.value();
      }
    }
  }
  Offset allocate(Heap::Cache& from, std::uint64_t bytes) {
    const Offset object = reserve(from, bytes);
    publish(object);
    return object;
  }
  void free(Offset object) {
    MaskedWrites writes;
    heap->free_writes(heap->check_live(object), writes);
    apply(writes);
    heap->release(object);
  }
  /// The same; the object stays with the thread.
  void free(Heap::Cache& to, Offset object) {
    const HeapObject freed = heap->check_live(object);
    MaskedWrites writes;
    heap->free_writes(freed, writes);
    apply(writes);
    heap->release(freed, to);
  }
  std::map<Offset, std::uint64_t> objects() const {
    std::map<Offset, std::uint64_t> found;
    heap->for_each_object([&](Offset offset, std::uint64_t bytes) { found[offset] = bytes; });
    return found;
  }

  int publishes_left = -1;  // then publishing fails; negative: never
  Image image;
  Dram domain;
  std::unique_ptr<Region> region;
  std::unique_ptr<Heap> heap;
  Heap::Cache cache;
};

// ---- sizes --------------------------------------------------------------------------------------

TEST(HeapLayout, EveryBitmapWordStateIsItsOwnInverse) {
  for (const std::uint32_t bits : {0u, 1u, 0xffffffffu, 0x12345678u}) {
    const Word word = heap_layout::bitmap_word(bits);
    EXPECT_TRUE(heap_layout::bitmap_word_valid(word));
    for (int bit = 0; bit < 64; ++bit)
      EXPECT_FALSE(heap_layout::bitmap_word_valid(word ^ (Word{1} << bit)));
  }
  EXPECT_FALSE(heap_layout::bitmap_word_valid(0));
  EXPECT_FALSE(heap_layout::bitmap_word_valid(~Word{0}));
}

TEST(HeapLayout, AClassHoldsItsSizeAndWastesAtMostAQuarter) {
  for (std::size_t bytes = 1; bytes <= heap_layout::kMaxSmallBytes; ++bytes) {
    const std::size_t size_class = heap_layout::class_of(bytes);
    const std::size_t size = heap_layout::kClassBytes[size_class];
    ASSERT_GE(size, bytes);
    ASSERT_EQ(size % 16, 0u) << "every object is 16-byte aligned";
    if (size_class > 0) {
      ASSERT_LT(heap_layout::kClassBytes[size_class - 1], bytes) << "the smallest class that fits";
    }
    // Where only two objects fit into a block anyway, a finer class would save nothing.
    if (size > 128 && heap_layout::objects_in_block(size_class) > 2) {
      ASSERT_LE((size - bytes) * 4, size) << bytes;
    }
  }
}

TEST(Heap, A64ByteObjectCostsAtMost80BytesOfPool) {
  for (const std::uint64_t segment_bytes : {128 * kKiB, 1024 * kKiB}) {
    HeapOnImage on({16 * kKiB * kKiB, segment_bytes, 16 * kKiB, 2, 4});
    const std::uint64_t before = on.region->segments();
    std::uint64_t objects = 0;
    while (on.region->segments() < before + 4) {
      on.allocate(64);
      ++objects;
    }
    const double cost = static_cast<double>(4 * segment_bytes) / static_cast<double>(objects - 1);
    std::printf("segments of %lu KiB: %.1f bytes of pool per 64-byte object\n",
                static_cast<unsigned long>(segment_bytes / kKiB), cost);
    EXPECT_LE(cost, 80) << segment_bytes;
  }
}

// ---- a model ------------------------------------------------------------------------------------

void run_against_model(std::uint64_t seed, int steps, std::uint64_t largest) {
  std::mt19937_64 random(seed);
  HeapOnImage on;
  std::map<Offset, std::uint64_t> model;  // start -> bytes asked for
  const auto any = [&] {
    auto it = model.lower_bound(random() % on.region->grown_bytes());
    return it == model.end() ? model.begin() : it;
  };
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t dice = random() % 100;
    if (dice < 55 || model.empty()) {
      const std::uint64_t bytes = 1 + random() % (dice < 40 ? 300 : dice < 50 ? 9000 : largest);
      Offset object = 0;
      const std::string thrown = code_thrown_by([&] { object = on.allocate(bytes); });
      if (thrown == "no-space") {
        for (int i = 0; i < 50 && !model.empty(); ++i) {
          const auto victim = any();
          on.free(victim->first);
          model.erase(victim);
        }
        continue;
      }
      ASSERT_EQ(thrown, "nothing");
      ASSERT_EQ(object % 16, 0u);
      ASSERT_GE(object, on.region->superblock().heap_offset);
      ASSERT_GE(on.heap->usable_bytes(object), bytes);
      ASSERT_LE(object + on.heap->usable_bytes(object), on.region->grown_bytes());
      const auto next = model.lower_bound(object);
      if (next != model.end()) {
        ASSERT_LE(object + on.heap->usable_bytes(object), next->first) << "overlap";
      }
      if (next != model.begin()) {
        const Offset before = std::prev(next)->first;
        ASSERT_LE(before + on.heap->usable_bytes(before), object) << "overlap";
      }
      model[object] = bytes;
    } else if (dice < 97) {
      const auto victim = any();
      on.free(victim->first);
      model.erase(victim);
    } else if (dice < 98) {
      const Offset dropped = on.reserve(1 + random() % 5000);
      ASSERT_EQ(model.count(dropped), 0u);
      on.heap->cancel(dropped);
    } else {
      const auto before = on.objects();
      const Heap::Usage usage = on.heap->usage();
      ASSERT_TRUE(on.restart().ok());
      ASSERT_EQ(on.objects(), before) << "the rebuilt indexes are the ones from before";
      ASSERT_EQ(on.heap->usage().objects, usage.objects);
      ASSERT_EQ(on.heap->usage().object_bytes, usage.object_bytes);
      ASSERT_EQ(on.heap->usage().free_blocks, usage.free_blocks);
      ASSERT_EQ(on.heap->usage().segments, usage.segments);
    }
    ASSERT_EQ(on.objects().size(), model.size());
  }
}

TEST(Heap, BehavesLikeAMapOfReservations) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    run_against_model(seed, 1500, 400 * kKiB);
  }
}
TEST(Heap, BehavesLikeAMapOfReservationsWithManyExtents) {
  for (std::uint64_t seed = 11; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    run_against_model(seed, 1500, 60 * kKiB);
  }
}

TEST(Heap, SizesAtEveryBorderAreServed) {
  HeapOnImage on;
  std::set<Offset> seen;
  const std::uint64_t in_segment = 15 * kBlockBytes;
  for (const std::uint64_t border :
       {std::uint64_t{16}, std::uint64_t{4096}, std::uint64_t{kBlockBytes}, in_segment, 128 * kKiB,
        256 * kKiB}) {
    for (const std::uint64_t bytes : {border - 1, border, border + 1}) {
      const Offset object = on.allocate(bytes);
      EXPECT_GE(on.heap->usable_bytes(object), bytes);
      EXPECT_TRUE(seen.insert(object).second);
      std::memset(on.region->at<char>(object), 0x5a, bytes);  // no metadata stands there
    }
  }
  EXPECT_TRUE(on.restart().ok());
  EXPECT_EQ(on.objects().size(), seen.size());
  for (const Offset object : seen) on.free(object);
  EXPECT_TRUE(on.objects().empty());
}

TEST(Heap, AReservationLeavesNoTraceOnMedia) {
  HeapOnImage on;
  on.allocate(100);  // so that the block is there
  const Image before = on.image;
  const Offset object = on.reserve(100);
  EXPECT_TRUE(on.image == before);
  ASSERT_TRUE(on.restart().ok());
  EXPECT_EQ(on.objects().count(object), 0u);
}

TEST(Heap, FreedSpaceOfEveryKindIsUsedAgain) {
  for (const std::uint64_t bytes :
       {std::uint64_t{64}, std::uint64_t{4096}, 20 * kKiB, 300 * kKiB}) {
    HeapOnImage on;
    on.allocate(bytes);
    const std::uint64_t grown = on.region->grown_bytes();
    for (int i = 0; i < 1000; ++i) on.free(on.allocate(bytes));
    EXPECT_LE(on.region->grown_bytes(), grown + 512 * kKiB) << bytes;
  }
}

TEST(Heap, EmptySuperblocksServeOtherSizes) {
  HeapOnImage on(Geometry{kKiB * kKiB, 128 * kKiB, kPageBytes, 2, 4});
  for (const std::uint64_t bytes : {64u, 16u, 1024u, 8192u, 500u}) {
    std::vector<Offset> all;
    while (code_thrown_by([&] { all.push_back(on.allocate(bytes)); }) == "nothing") {
    }
    EXPECT_GT(all.size() * bytes, 300 * kKiB)
        << "objects of " << bytes << " bytes find the space of those before";
    for (const Offset object : all) on.free(object);
  }
}

TEST(Heap, AFullPoolSaysSoAndStaysUsable) {
  HeapOnImage on(Geometry{kKiB * kKiB, 128 * kKiB, kPageBytes, 2, 4});
  std::vector<Offset> all;
  while (code_thrown_by([&] { all.push_back(on.allocate(1000)); }) == "nothing") {
  }
  const Image before = on.image;
  for (const std::uint64_t bytes :
       {std::uint64_t{1000}, 20 * kKiB, 300 * kKiB, 2 * kKiB * kKiB, ~std::uint64_t{0}}) {
    EXPECT_EQ(code_thrown_by([&] { on.allocate(bytes); }), "no-space") << bytes;
  }
  EXPECT_EQ(code_thrown_by([&] { on.allocate(0); }), "invalid");
  EXPECT_TRUE(on.image == before);
  on.free(all.back());
  on.allocate(1000);
  EXPECT_TRUE(on.restart().ok());
  EXPECT_EQ(on.objects().size(), all.size());
}

// ---- misuse -------------------------------------------------------------------------------------

TEST(Heap, ForeignInteriorAndFreedPointersAreRefusedAndNothingChanges) {
  HeapOnImage on;
  const Offset small = on.allocate(100);
  const Offset extent = on.allocate(20 * kKiB);
  const Offset huge = on.allocate(300 * kKiB);
  const Offset freed_small = on.allocate(100);
  const Offset freed_extent = on.allocate(20 * kKiB);
  const Offset freed_huge = on.allocate(200 * kKiB);
  for (const Offset object : {freed_small, freed_extent, freed_huge}) on.free(object);

  std::vector<Offset> bad = {0,
                             8,
                             kPageBytes,
                             on.region->superblock().ring_offset,
                             on.region->superblock().heap_offset,
                             on.region->superblock().heap_offset + 64,
                             on.region->grown_bytes() - 8,
                             on.region->grown_bytes(),
                             on.region->geometry().capacity_bytes,
                             ~Offset{0},
                             ~Offset{7},
                             small + 1,
                             small + 8,
                             small + 16,
                             extent + 1,
                             extent + 16,
                             extent + kBlockBytes,
                             huge + 16,
                             huge + kBlockBytes,
                             huge + 128 * kKiB,
                             huge + 256 * kKiB,
                             freed_small,
                             freed_extent,
                             freed_huge,
                             freed_extent + kBlockBytes,
                             freed_huge + 128 * kKiB};
  const auto before = on.objects();
  const Image image = on.image;
  for (const Offset object : bad) {
    EXPECT_EQ(code_thrown_by([&] { on.heap->check_live(object); }), "misuse") << object;
  }
  EXPECT_TRUE(on.image == image);
  EXPECT_EQ(on.objects(), before);
  for (const Offset object : {small, extent, huge})
    EXPECT_EQ(code_thrown_by([&] { on.free(object); }), "nothing");
}

TEST(Heap, EveryOffsetThatIsNoLiveObjectIsRefused) {
  HeapOnImage on(Geometry{kKiB * kKiB, 128 * kKiB, kPageBytes, 2, 4});
  std::mt19937_64 random(12);
  for (int i = 0; i < 60; ++i) on.allocate(1 + random() % 6000);
  for (const auto& [object, bytes] : on.objects()) {
    if (random() % 3 == 0) on.free(object);
  }
  const auto live = on.objects();
  for (Offset offset = 0; offset < on.region->geometry().capacity_bytes; offset += 8) {
    EXPECT_EQ(code_thrown_by([&] { on.heap->check_live(offset); }),
              live.count(offset) != 0 ? "nothing" : "misuse")
        << offset;
  }
}

// ---- damage -------------------------------------------------------------------------------------

struct Damage : ::testing::Test {
  Damage() : on(Geometry{kKiB * kKiB, 128 * kKiB, kPageBytes, 2, 4}) {
    std::mt19937_64 random(13);
    for (int i = 0; i < 60; ++i) on.allocate(1 + random() % 4096);
    on.allocate(20 * kKiB);
    on.allocate(200 * kKiB);
    for (const auto& [object, bytes] : on.objects()) {
      if (random() % 3 == 0) on.free(object);
    }
  }
  /// Offsets of all words that describe the heap and are in use.
  std::vector<Offset> metadata() {
    std::vector<Offset> words;
    const Superblock super = on.image.super();
    const std::uint64_t blocks = heap_layout::blocks_per_segment(super.geometry);
    for (std::uint64_t s = 0; s < on.region->segments(); ++s) {
      const Offset table_word = super.segment_table_offset + s * kWordBytes;
      words.push_back(table_word);
      if (on.image.word(table_word) != heap_layout::segment_word(heap_layout::SegmentKind::kBlocks))
        continue;
      const Offset base = super.heap_offset + s * super.geometry.segment_bytes;
      for (std::uint64_t b = 0; b < blocks; ++b) {
        words.push_back(base + b * kWordBytes);
        const auto payload = unseal(on.image.word(words.back()), kSaltBlock);
        if (heap_layout::kind_of(*payload) !=
            static_cast<std::uint8_t>(heap_layout::BlockKind::kSmall))
          continue;
        const std::size_t objects =
            heap_layout::objects_in_block(heap_layout::argument_of(*payload));
        for (std::size_t w = 0; w * heap_layout::kBitsPerWord < objects; ++w) {
          words.push_back(base + (blocks + b * heap_layout::kBitmapWords + w) * kWordBytes);
        }
      }
    }
    return words;
  }
  void expect_found(Offset at, Word damaged) {
    const Word saved = on.image.word(at);
    on.image.word(at) = damaged;
    auto opened = on.restart();
    ASSERT_FALSE(opened.ok()) << "byte " << at << ": " << std::hex << damaged << " for " << saved;
    ASSERT_EQ(opened.error().code, Code::kCorrupt);
    ASSERT_NE(opened.error().message.find("byte "), std::string::npos);
    std::vector<std::string> findings;
    ASSERT_TRUE(on.restart(&findings).ok());
    ASSERT_FALSE(findings.empty());
    ASSERT_NE(findings[0].find("byte " + std::to_string(at)), std::string::npos) << findings[0];
    on.image.word(at) = saved;
  }
  HeapOnImage on;
};

TEST_F(Damage, EveryFlippedBitOfTheMetadataIsFoundAtOpen) {
  for (const Offset at : metadata()) {
    for (int bit = 0; bit < 64; ++bit) expect_found(at, on.image.word(at) ^ (Word{1} << bit));
  }
}

TEST_F(Damage, EveryZeroedOrOverwrittenMetadataWordIsFoundAtOpen) {
  for (const Offset at : metadata()) {
    expect_found(at, 0);
    expect_found(at, ~Word{0});
    expect_found(at, 0x4141414141414141);
  }
}

TEST_F(Damage, WhatIsDamagedIsNeverAllocatedFrom) {
  const auto live = on.objects();
  for (const Offset at : metadata()) {
    const Image saved = on.image;
    on.image.word(at) = 0;
    std::vector<std::string> findings;
    ASSERT_TRUE(on.restart(&findings).ok());
    for (const std::uint64_t bytes : {16u, 100u, 1000u, 3000u, 9000u}) {
      const std::string thrown = code_thrown_by([&] {
        for (int i = 0; i < 20; ++i) {
          const Offset object = on.allocate(bytes);
          const auto next = live.upper_bound(object);
          if (next != live.end()) {
            ASSERT_LE(object + on.heap->usable_bytes(object), next->first);
          }
          if (next != live.begin()) {
            ASSERT_GE(object, std::prev(next)->first + std::prev(next)->second);
          }
        }
      });
      ASSERT_TRUE(thrown == "nothing" || thrown == "no-space") << thrown;
    }
    on.image = saved;
  }
}

// ---- threads ------------------------------------------------------------------------------------

/// Threads allocate, write a pattern of their own, hand some objects to each other, check the
/// pattern, free.
void churn(HeapOnImage& on, int threads, int steps, const std::vector<std::uint64_t>& sizes) {
  std::mutex mutex;
  std::vector<std::pair<Offset, std::uint64_t>> shared;
  std::atomic<int> broken{0};
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t) + 100);
      Heap::Cache cache;
      std::vector<std::pair<Offset, std::uint64_t>> mine;
      const auto check_and_free = [&](std::pair<Offset, std::uint64_t> object) {
        if (load_word(on.region->word(object.first)) != object.second) ++broken;
        if (random() % 4 == 0) {
          on.free(object.first);
        } else {
          on.free(cache, object.first);
        }
      };
      for (int step = 0; step < steps; ++step) {
        if (random() % 2 == 0) {
          const Offset object = on.allocate(cache, sizes[random() % sizes.size()]);
          store_word(on.region->word(object), random());
          mine.push_back({object, load_word(on.region->word(object))});
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          const auto object = mine.back();
          mine.pop_back();
          std::unique_lock lock(mutex);
          shared.push_back(object);
          std::swap(shared[random() % shared.size()], shared.back());
          const auto other = shared.back();
          if (shared.size() > 16) {
            shared.pop_back();
            lock.unlock();
            check_and_free(other);
          }
        }
      }
      for (const auto& object : mine) check_and_free(object);
      on.heap->give_back(cache);
    });
  }
  for (std::thread& thread : running) thread.join();
  for (const auto& object : shared) on.free(object.first);
  EXPECT_EQ(broken, 0) << "an object was handed out twice";
  EXPECT_TRUE(on.objects().empty());
  EXPECT_TRUE(on.restart().ok());
  EXPECT_TRUE(on.objects().empty());
}

constexpr int kSteps = testing::kSanitized ? 10000 : 60000;

TEST(HeapThreads, NoObjectIsHandedOutTwice) {
  HeapOnImage on;
  churn(on, 4, kSteps, {16, 64, 64, 100, 1000});
}
TEST(HeapThreads, NoObjectIsHandedOutTwiceWithExtents) {
  HeapOnImage on;
  churn(on, 4, kSteps / 4, {64, 4096, 4096, 9000, 40000});
}
// Superblocks of two objects are empty all the time, and extents keep asking for them.
TEST(HeapThreads, ReclaimingEmptySuperblocksNeverMeetsAFreeUnderWay) {
  HeapOnImage on(Geometry{kKiB * kKiB, 128 * kKiB, kPageBytes, 2, 4}, 4);
  std::atomic<bool> stop{false};
  std::thread extents([&] {
    Heap::Cache cache;
    while (!stop) {
      std::vector<Offset> held;
      (void)code_thrown_by([&] {
        for (;;) held.push_back(on.allocate(cache, 3 * kBlockBytes));
      });
      for (const Offset object : held) on.free(object);
    }
  });
  std::vector<std::thread> small;
  for (int t = 0; t < 4; ++t) {
    small.emplace_back([&, t] {
      Heap::Cache cache;
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      std::vector<Offset> mine;
      for (int i = 0; i < kSteps; ++i) {
        (void)code_thrown_by([&] { mine.push_back(on.allocate(cache, i % 2 == 0 ? 4096 : 2048)); });
        if (mine.size() > 6) {
          std::swap(mine[random() % mine.size()], mine.back());
          if (t % 2 == 0) {
            on.free(mine.back());
          } else {
            on.free(cache, mine.back());
          }
          mine.pop_back();
        }
      }
      for (const Offset object : mine) on.free(object);
      on.heap->give_back(cache);
    });
  }
  for (std::thread& thread : small) thread.join();
  stop = true;
  extents.join();
  EXPECT_TRUE(on.objects().empty());
  EXPECT_TRUE(on.restart().ok());
  EXPECT_TRUE(on.objects().empty()) << "an object was published in a block that was free";
}

// ---- magazines ----------------------------------------------------------------------------------

TEST(HeapMagazine, WhatAThreadFreedItAllocatesAgainFirst) {
  HeapOnImage on;
  const Offset first = on.allocate(64);
  const Offset second = on.allocate(64);
  on.free(on.cache, first);
  on.free(on.cache, second);
  EXPECT_EQ(on.allocate(64), second);
  EXPECT_EQ(on.allocate(64), first);
  EXPECT_EQ(on.objects().size(), 2u);
}

TEST(HeapMagazine, WhatIsInItIsFreeForEveryQuestion) {
  HeapOnImage on;
  const Offset object = on.allocate(100);
  on.free(on.cache, object);
  EXPECT_TRUE(on.objects().empty());
  EXPECT_EQ(on.heap->usage().objects, 0u);
  EXPECT_FALSE(on.heap->holds(object, 1));
  EXPECT_EQ(code_thrown_by([&] { on.heap->check_live(object); }), "misuse");
  EXPECT_EQ(code_thrown_by([&] { on.free(on.cache, object); }), "misuse");
  ASSERT_TRUE(on.restart().ok()) << "media know nothing of magazines";
  EXPECT_TRUE(on.objects().empty());
  EXPECT_EQ(on.allocate(100), object);
}

// Only a program that frees past its transactions gets so far.
TEST(HeapMagazineDeathTest, AnObjectThatIsFreeAlreadyIsNeverTakenBackTwice) {
  HeapOnImage on;
  const HeapObject object = on.heap->check_live(on.allocate(64));
  on.heap->release(object, on.cache);
  EXPECT_DEATH(on.heap->release(object, on.cache), "freed the same object");
  EXPECT_DEATH(on.heap->release(object.offset), "freed the same object");
  on.heap->give_back(on.cache);
  EXPECT_DEATH(on.heap->release(object, on.cache), "freed the same object");
  EXPECT_DEATH(on.heap->release(object.offset), "freed the same object");
}

TEST(HeapMagazine, HoldsAtMostHalfABlockOfAClass) {
  HeapOnImage on;
  for (std::size_t size_class = 0; size_class < heap_layout::kClasses; ++size_class) {
    const std::size_t bytes = heap_layout::kClassBytes[size_class];
    std::vector<Offset> objects;
    for (std::size_t i = 0; i < 2 * heap_layout::objects_in_block(size_class); ++i)
      objects.push_back(on.allocate(bytes));
    for (const Offset object : objects) on.free(on.cache, object);
    const std::size_t kept = on.cache.magazines[size_class].count;
    EXPECT_LE(kept, Heap::Cache::Magazine::kMost);
    EXPECT_LE(kept * bytes, std::max(bytes, kBlockBytes / 2));
    EXPECT_TRUE(on.objects().empty());
  }
}

// Another thread's memory: what it gives back can be allocated by anyone, as objects of any size.
TEST(HeapMagazine, WhatIsGivenBackIsThereForOthers) {
  HeapOnImage on(testing::kSmallGeometry);
  std::vector<Offset> objects;
  (void)code_thrown_by([&] {
    for (;;) objects.push_back(on.allocate(64));
  });
  Heap::Cache other;
  EXPECT_EQ(code_thrown_by([&] { on.allocate(other, 64); }), "no-space");
  on.free(on.cache, objects.back());
  EXPECT_EQ(code_thrown_by([&] { on.allocate(other, 64); }), "no-space") << "it is kept";
  on.heap->give_back(on.cache);
  EXPECT_EQ(on.allocate(other, 64), objects.back());
  EXPECT_EQ(on.cache.magazines[heap_layout::class_of(64)].count, 0u);
}

TEST(HeapMagazine, WhatIsKeptDoesNotKeepABlockFromBecomingAnExtent) {
  HeapOnImage on(testing::kSmallGeometry);
  std::vector<Offset> objects;
  (void)code_thrown_by([&] {
    for (;;) objects.push_back(on.allocate(on.cache, 2048));
  });
  const std::size_t large = objects.size() / 64;  // of 40,000 bytes: what is free for sure
  ASSERT_GE(large, 1u);
  for (const Offset object : objects) on.free(on.cache, object);
  for (std::size_t i = 0; i < large; ++i) on.allocate(40'000);
}

// ---- speed --------------------------------------------------------------------------------------

TEST(Heap, RebuildsItsIndexes) {
  HeapOnImage on({256 * kKiB * kKiB, kKiB * kKiB, 64 * kKiB, 2, 4});
  const int count = testing::kSanitized ? 50000 : 1000000;
  for (int i = 0; i < count; ++i) on.allocate(64);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(on.restart().ok());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(on.heap->usage().objects, static_cast<std::uint64_t>(count));
  std::printf("rebuild: %.1f million objects/s\n", count / seconds / 1e6);
}

// Reclaiming publishes block by block, and may be stopped between two.
TEST(HeapReclaim, WhatCouldNotBePublishedIsStillASuperblock) {
  HeapOnImage on(testing::kSmallGeometry);
  std::vector<Offset> objects;
  try {
    for (;;) objects.push_back(on.allocate(4096));
  } catch (const Exception&) {  // full
  }
  for (const Offset object : objects) on.free(object);
  for (int left = 3; left >= 0; --left) {
    on.publishes_left = left;
    EXPECT_THROW((void)on.reserve(40'000), Exception);
  }
  on.publishes_left = -1;
  std::vector<Offset> extents;
  try {
    for (;;) extents.push_back(on.allocate(40'000));
  } catch (const Exception&) {
  }
  EXPECT_GE(extents.size(), 10u);
  on.restart().value();
  EXPECT_EQ(on.heap->usage().objects, extents.size());
}

}  // namespace
}  // namespace perdure
