// SPDX-License-Identifier: BSD-3-Clause
// A persistent address space as a program sees it: regions made, shortened and destroyed, back at
// their addresses in every run.
#include "perdure/address_space.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/small_space.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using ::testing::HasSubstr;
using testing::in_child;
using testing::kReadWrite;
using testing::kSanitized;
using testing::Receivers;
using testing::receivers_of;
using testing::small_space_options;
using testing::store_durably;
using testing::TempDir;
using testing::TestStatics;
using testing::word_of;

using Space = std::unique_ptr<AddressSpace>;
using Extent = std::pair<std::byte*, std::uint64_t>;

std::vector<Extent> extents_of(AddressSpace& space) {
  std::vector<Extent> extents;
  for (const RegionEntry& entry : space.regions())
    extents.emplace_back(space.base() + entry.begin, entry.bytes);
  return extents;
}

/// "kInvalid" and the like, for a Result that should not be ok.
template <class T>
std::string code_of(const Result<T>& result) {
  return result.ok() ? "ok" : std::string(code_name(result.error().code));
}

struct SpaceTest : ::testing::Test {
  explicit SpaceTest(const std::string& parent = "/dev/shm/") : dir(parent) {}
  Space open(DomainKind domain = DomainKind::kDram) {
    return AddressSpace::open_or_create(path, small_space_options(domain)).value();
  }
  bool is_file(const std::string& name) const { return std::filesystem::exists(path + "/" + name); }
  TempDir dir;
  std::string path = dir / "space";
};

/// In a directory on a file system, so that Sync has something to wait for.
struct SpaceOnDomain : SpaceTest, ::testing::WithParamInterface<DomainKind> {
  SpaceOnDomain() : SpaceTest(::testing::TempDir()) {}
  Space reopen() { return open(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Domains, SpaceOnDomain,
                         ::testing::Values(DomainKind::kDram, DomainKind::kAdr, DomainKind::kEadr,
                                           DomainKind::kSync),
                         [](const auto& of) { return std::string(domain_name(of.param)); });

// ---- life of regions ----------------------------------------------------------------------------

TEST_P(SpaceOnDomain, AnEmptyDirectoryBecomesAnAddressSpace) {
  std::filesystem::create_directory(path);
  Space space = reopen();
  EXPECT_TRUE(is_file("heap.pool"));
  EXPECT_FALSE(is_file("statics.region")) << "there are no static variables";
  EXPECT_EQ(space->base(), testing::kSpaceBase);
  EXPECT_EQ(space->range_bytes(), std::uint64_t{1} << 30);
  EXPECT_TRUE(space->regions().empty());
  EXPECT_TRUE(space->contains(space->base()));
  EXPECT_FALSE(space->contains(space->base() - 1));
  EXPECT_FALSE(space->contains(space->base() + space->range_bytes()));
}

TEST_P(SpaceOnDomain, RegionsComeBackAtTheirAddressesWithTheirContents) {
  std::vector<Extent> before;
  std::byte* heap_object = nullptr;
  {
    Space space = reopen();
    Receivers& known = receivers_of(*space);
    heap_object = reinterpret_cast<std::byte*>(&known);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::uint64_t bytes = (i + 1) * kPageBytes - i;  // rounded up
      void* got = space->map(known.variable(i), bytes, kReadWrite).value();
      EXPECT_EQ(got, known.region(i)) << "the variable has the address";
      for (std::uint64_t page = 0; page <= i; ++page) {
        EXPECT_EQ(word_of(known.region(i), page), 0u) << "a new region is zeroed";
        store_durably(*space, word_of(known.region(i), page), 100 * i + page);
      }
      EXPECT_TRUE(space->contains(known.region(i)));
      EXPECT_TRUE(is_file(std::to_string(i + 1) + ".region"));
    }
    before = extents_of(*space);
    ASSERT_EQ(before.size(), 3u);
  }
  for (int opening = 0; opening < 3; ++opening) {
    Space space = reopen();
    Receivers& known = receivers_of(*space);
    EXPECT_EQ(reinterpret_cast<std::byte*>(&known), heap_object);
    EXPECT_EQ(extents_of(*space), before);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::uint64_t page = 0; page <= i; ++page)
        EXPECT_EQ(word_of(known.region(i), page), 100 * i + page);
    }
  }
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow into a child that maps
TEST_P(SpaceOnDomain, WhatAKilledProcessCommittedIsReplayedIntoEveryPart) {
  TestStatics statics;
  statics.word(1) = 11;
  const auto open_with_statics = [&] {
    auto options = small_space_options(GetParam());
    options.statics = statics.declared({1, 2}, {{"counter", 8, 8}});
    return AddressSpace::open_or_create(path, options).value();
  };
  ASSERT_EQ(in_child([&] {
              Space space = open_with_statics();
              Receivers& known = receivers_of(*space);
              space->map(known.variable(0), 1, kReadWrite).value();
              std::uint64_t& counter = *space->fixed_address(&statics.word(1));
              for (std::uint64_t i = 1; i <= 50; ++i) {
                space->pool().atomically([&](Tx& tx) {
                  tx.store(word_of(known.region(0)), i);
                  tx.store(known.address[5], i);
                  tx.store(counter, tx.load(counter) + 1);
                });
              }
              ::_exit(0);  // without closing
              return 1;
            }),
            0);
  Space space = open_with_statics();
  EXPECT_GT(space->pool().recovery().records_replayed, 0u);
  Receivers& known = receivers_of(*space);
  EXPECT_EQ(word_of(known.region(0)), 50u);
  EXPECT_EQ(known.address[5], 50u);
  EXPECT_EQ(statics.word(1), 61u) << "the program's own variable shows the file";
}
#endif

TEST_P(SpaceOnDomain, HeadTailAndMiddleOfARegionCanGo) {
  std::vector<Extent> expected;
  {
    Space space = reopen();
    Receivers& known = receivers_of(*space);
    space->map(known.variable(0), 8 * kPageBytes, kReadWrite).value();
    std::byte* const region = known.region(0);
    for (std::uint64_t page = 0; page < 8; ++page)
      store_durably(*space, word_of(region, page), 10 + page);
    space->unmap(region, kPageBytes).value();                   // head
    space->unmap(region + 7 * kPageBytes, 1).value();           // tail
    space->unmap(region + 3 * kPageBytes, kPageBytes).value();  // middle
    expected = {{region + kPageBytes, 2 * kPageBytes}, {region + 4 * kPageBytes, 3 * kPageBytes}};
    EXPECT_EQ(extents_of(*space), expected);
    EXPECT_EQ(code_of(space->unmap(region, kPageBytes)), "invalid") << "it is gone already";
    EXPECT_EQ(code_thrown_by([&] { store_durably(*space, word_of(region, 0), 1); }), "misuse");
    store_durably(*space, word_of(region, 5), 99);
  }
  Space space = reopen();
  EXPECT_EQ(extents_of(*space), expected);
  std::byte* const region = receivers_of(*space).region(0);
  const std::vector<std::uint64_t> pages = {1, 2, 4, 5, 6};
  for (const std::uint64_t page : pages)
    EXPECT_EQ(word_of(region, page), page == 5 ? 99 : 10 + page);
  // The holes are free addresses.
  void** const other = receivers_of(*space).variable(1);
  store_durably(*space, receivers_of(*space).address[1],
                reinterpret_cast<std::uint64_t>(region + 3 * kPageBytes));
  EXPECT_EQ(space->map(other, kPageBytes, kReadWrite, true).value(), region + 3 * kPageBytes);
  EXPECT_EQ(word_of(region, 3), 0u);
  space->unmap(region, 8 * kPageBytes).value();
  EXPECT_TRUE(space->regions().empty());
  EXPECT_FALSE(is_file("1.region"));
  EXPECT_FALSE(is_file("2.region"));
}

TEST_P(SpaceOnDomain, OneCallUnmapsPartsOfSeveralRegions) {
  Space space = reopen();
  Receivers& known = receivers_of(*space);
  for (std::size_t i = 0; i < 4; ++i) {
    space->map(known.variable(i), 2 * kPageBytes, kReadWrite).value();
    store_durably(*space, word_of(known.region(i), 0), 10 * i);
    store_durably(*space, word_of(known.region(i), 1), 10 * i + 1);
  }
  ASSERT_EQ(known.region(3), known.region(0) + 6 * kPageBytes) << "first fit, side by side";
  space->unmap(known.region(0) + kPageBytes, 6 * kPageBytes).value();
  const std::vector<Extent> expected = {{known.region(0), kPageBytes},
                                        {known.region(3) + kPageBytes, kPageBytes}};
  EXPECT_EQ(extents_of(*space), expected);
  EXPECT_TRUE(is_file("1.region"));
  EXPECT_FALSE(is_file("2.region"));
  EXPECT_FALSE(is_file("3.region"));
  EXPECT_TRUE(is_file("4.region"));
  space.reset();
  space = reopen();
  EXPECT_EQ(extents_of(*space), expected);
  EXPECT_EQ(word_of(receivers_of(*space).region(0), 0), 0u);
  EXPECT_EQ(word_of(receivers_of(*space).region(3), 1), 31u);
}

TEST_P(SpaceOnDomain, AProtectionIsKept) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  /// The kernel may read from there, and write to it.
  const auto access = [&](std::byte* at) {
    std::string allowed;
    if (::write(pipe[1], at, 1) == 1) {
      allowed += 'r';
    } else {
      (void)!::write(pipe[1], "x", 1);
    }
    if (::read(pipe[0], at, 1) == 1) {
      allowed += 'w';
    } else {
      char dropped = 0;
      (void)!::read(pipe[0], &dropped, 1);
    }
    return allowed;
  };
  const std::array protections = {PROT_NONE, PROT_READ, kReadWrite};
  const std::array expected = {"", "r", "rw"};
  for (int opening = 0; opening < 2; ++opening) {
    Space space = reopen();
    Receivers& known = receivers_of(*space);
    for (std::size_t i = 0; i < 3; ++i) {
      if (opening == 0) space->map(known.variable(i), kPageBytes, protections[i]).value();
      EXPECT_EQ(access(known.region(i)), expected[i]);
      EXPECT_EQ(space->is_writable(known.region(i), kPageBytes), i == 2);
      EXPECT_FALSE(space->is_writable(known.region(i), kPageBytes + 1));
    }
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(SpaceTest, TheTableGrowsBeyondItsFirstPageAndEmptiesAgain) {
  constexpr std::size_t kMany = 330;  // 255 entries fit the first part, 63 each further page
  std::vector<Extent> before;
  {
    Space space = open();
    Receivers& known = receivers_of(*space);
    for (std::size_t i = 0; i < kMany; ++i) {
      space->map(known.variable(i), kPageBytes, kReadWrite).value();
      store_durably(*space, word_of(known.region(i)), i);
    }
    before = extents_of(*space);
    ASSERT_EQ(before.size(), kMany);
  }
  {
    Space space = open();
    EXPECT_EQ(extents_of(*space), before);
    Receivers& known = receivers_of(*space);
    for (std::size_t i = 0; i < kMany; ++i) EXPECT_EQ(word_of(known.region(i)), i);
    space->unmap(known.region(0), (kMany - 1) * kPageBytes).value();
  }
  Space space = open();
  ASSERT_EQ(space->regions().size(), 1u);
  EXPECT_EQ(word_of(receivers_of(*space).region(kMany - 1)), kMany - 1);
  EXPECT_EQ(space->map(receivers_of(*space).variable(0), 1, kReadWrite).value(),
            receivers_of(*space).region(0));
}

// ---- addresses and lengths ----------------------------------------------------------------------

TEST_F(SpaceTest, AHintIsTakenWhenFreeAndAMustIsTakenOrRefused) {
  Space space = open();
  Receivers& known = receivers_of(*space);
  std::byte* const there = space->base() + space->range_bytes() / 2;
  const auto map_at = [&](std::size_t index, std::byte* wanted, std::uint64_t bytes, bool exactly) {
    store_durably(*space, known.address[index], reinterpret_cast<std::uint64_t>(wanted));
    return space->map(known.variable(index), bytes, kReadWrite, exactly);
  };
  EXPECT_EQ(map_at(0, there, 2 * kPageBytes, false).value(), there);
  EXPECT_EQ(map_at(1, there + 2 * kPageBytes, 1, true).value(), there + 2 * kPageBytes);
  const auto taken = map_at(2, there + kPageBytes, 1, true);
  ASSERT_EQ(code_of(taken), "exists");
  EXPECT_THAT(taken.error().message, HasSubstr("punmap it first"));
  EXPECT_EQ(known.region(2), there + kPageBytes) << "a failure leaves the variable alone";
  auto elsewhere = map_at(2, there + kPageBytes, 1, false);
  EXPECT_NE(elsewhere.value(), there + kPageBytes);
  EXPECT_EQ(elsewhere.value(), known.region(2));
  for (std::byte* wanted : {there + 1, space->base(), space->base() + space->range_bytes(),
                            space->base() - kPageBytes, reinterpret_cast<std::byte*>(kPageBytes)}) {
    const auto refused = map_at(3, wanted, kPageBytes, false);
    ASSERT_EQ(code_of(refused), "invalid") << static_cast<void*>(wanted);
    EXPECT_THAT(refused.error().message, HasSubstr("must be on a page from"));
  }
  EXPECT_EQ(map_at(3, space->base() + space->range_bytes() - kPageBytes, kPageBytes, true).ok(),
            true)
      << "the last page of the range";
  EXPECT_EQ(space->regions().size(), 4u);
}

TEST_F(SpaceTest, AbsurdLengthsAreRefused) {
  Space space = open();
  Receivers& known = receivers_of(*space);
  for (const std::uint64_t bytes : {std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0} - 4096,
                                    std::uint64_t{1} << 63, (std::uint64_t{1} << 30) + 1})
    EXPECT_EQ(code_of(space->map(known.variable(0), bytes, kReadWrite)), "invalid") << bytes;
  EXPECT_EQ(code_of(space->map(known.variable(0), 1, 8)), "invalid") << "no such protection";
  EXPECT_EQ(code_of(space->map(known.variable(0), space->range_bytes(), kReadWrite)), "no-space");
  EXPECT_EQ(known.address[0], 0u);

  std::byte* const region =
      static_cast<std::byte*>(space->map(known.variable(0), 2 * kPageBytes, kReadWrite).value());
  EXPECT_EQ(code_of(space->unmap(region, 0)), "invalid");
  EXPECT_EQ(code_of(space->unmap(region + 8, kPageBytes)), "invalid");
  EXPECT_EQ(code_of(space->unmap(region, ~std::uint64_t{0})), "invalid");
  EXPECT_EQ(code_of(space->unmap(nullptr, kPageBytes)), "invalid");
  EXPECT_EQ(code_of(space->unmap(space->base(), kPageBytes)), "invalid") << "the heap is no region";
  EXPECT_EQ(code_of(space->unmap(&known, kPageBytes)), "invalid");
  EXPECT_EQ(space->regions().size(), 1u);
  space->unmap(region, 5 * kPageBytes).value();  // as munmap: what is not mapped does not matter
  EXPECT_TRUE(space->regions().empty());
}

TEST_F(SpaceTest, AFullRangeSaysSoAndIsUsableAgain) {
  Space space = open();
  Receivers& known = receivers_of(*space);
  const std::uint64_t large = std::uint64_t{1} << 28;
  std::size_t made = 0;
  Result<void*> last = space->map(known.variable(made), large, PROT_NONE);
  while (last.ok()) last = space->map(known.variable(++made), large, PROT_NONE);
  EXPECT_EQ(made, 2u) << "three quarters of a GiB, less what the static variables have";
  ASSERT_EQ(code_of(last), "no-space");
  EXPECT_THAT(last.error().message, HasSubstr("PERDURE_RESERVED_BYTES"));
  EXPECT_EQ(known.address[made], 0u);
  EXPECT_TRUE(space->map(known.variable(made), large / 2, PROT_NONE).ok()) << "a smaller one fits";
  space->unmap(known.region(0), large).value();
  EXPECT_TRUE(space->map(known.variable(0), large, PROT_NONE).ok());
}

// ---- receivers ----------------------------------------------------------------------------------

TEST_F(SpaceTest, AReceiverMustBePersistentAndWritable) {
  Space space = open();
  Receivers& known = receivers_of(*space);
  space->map(known.variable(0), kPageBytes, kReadWrite).value();
  space->map(known.variable(1), kPageBytes, PROT_READ).value();
  void* volatile_variable = nullptr;
  std::byte* const nowhere = space->base() + space->range_bytes() - kPageBytes;
  const auto before = extents_of(*space);
  const auto refused = [&](void* variable) {
    const auto result = space->map(static_cast<void**>(variable), kPageBytes, kReadWrite);
    const bool same = extents_of(*space) == before;
    return code_of(result) + (same ? "" : ", but a region appeared");
  };
  EXPECT_EQ(refused(&volatile_variable), "invalid");
  EXPECT_EQ(refused(nullptr), "invalid");
  EXPECT_EQ(refused(nowhere), "invalid") << "reserved, but nothing is mapped there";
  EXPECT_EQ(refused(known.region(1)), "invalid") << "a region without PROT_WRITE";
  EXPECT_EQ(refused(space->base() + 64), "invalid") << "the superblock";
  EXPECT_EQ(refused(space->base() + space->range_bytes() - 4), "invalid") << "across the end";
  EXPECT_EQ(volatile_variable, nullptr);
  EXPECT_FALSE(is_file("3.region"));
  EXPECT_EQ(refused(known.region(0)), "ok, but a region appeared") << "in another region";
  EXPECT_EQ(*reinterpret_cast<void**>(known.region(0)), extents_of(*space).back().first);
}

TEST_F(SpaceTest, RegionsAreNotMadeOrDestroyedInsideTransactions) {
  Space space = open();
  Receivers& known = receivers_of(*space);
  void* const region = space->map(known.variable(0), kPageBytes, kReadWrite).value();
  space->pool().atomically([&](Tx&) {
    EXPECT_EQ(code_of(space->map(known.variable(1), kPageBytes, kReadWrite)), "misuse");
    EXPECT_EQ(code_of(space->unmap(region, kPageBytes)), "misuse");
  });
  EXPECT_EQ(space->regions().size(), 1u);
  EXPECT_EQ(known.address[1], 0u);
}

TEST_F(SpaceTest, ATransactionOverAllPartsIsTakenBackAsOne) {
  TestStatics statics;
  auto options = small_space_options();
  options.statics = statics.declared({1}, {{"counter", 0, 8}});
  Space space = AddressSpace::open_or_create(path, options).value();
  Receivers& known = receivers_of(*space);
  space->map(known.variable(0), kPageBytes, kReadWrite).value();
  std::uint64_t& counter = *space->fixed_address(&statics.word(0));
  const auto all = [&](std::uint64_t value, bool fail) {
    space->pool().atomically([&](Tx& tx) {
      tx.store(counter, value);
      tx.store(known.address[9], value);
      tx.store(word_of(known.region(0)), value);
      if (fail) throw std::runtime_error("user");
    });
  };
  all(1, false);
  EXPECT_THROW(all(2, true), std::runtime_error);
  EXPECT_EQ(statics.word(0), 1u);
  EXPECT_EQ(known.address[9], 1u);
  EXPECT_EQ(word_of(known.region(0)), 1u);
  all(3, false);
  EXPECT_EQ(statics.word(0), 3u);
}

TEST_F(SpaceTest, FourThreadsMapAndUnmapAtTheSameTime) {
  constexpr int kRounds = kSanitized ? 10 : 60;
  {
    Space space = open();
    Receivers& known = receivers_of(*space);
    std::vector<std::thread> threads;
    std::atomic<int> failures{0};
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < kRounds; ++i) {
          store_durably(*space, known.address[t], 0);
          const std::uint64_t bytes = (1 + i % 3) * kPageBytes;
          const auto made = space->map(known.variable(t), bytes, kReadWrite);
          if (!made.ok() || word_of(known.region(t)) != 0) ++failures;
          store_durably(*space, word_of(known.region(t)), 1000 * t + i);
          if (word_of(known.region(t)) != 1000 * t + i) ++failures;
          if (i + 1 < kRounds && !space->unmap(known.region(t), bytes).ok()) ++failures;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, 0);
  }
  Space space = open();
  std::set<std::byte*> begins;
  for (std::size_t t = 0; t < 4; ++t) begins.insert(receivers_of(*space).region(t));
  EXPECT_EQ(begins.size(), 4u);
}

}  // namespace
}  // namespace perdure
