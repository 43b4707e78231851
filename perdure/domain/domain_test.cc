// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/domain/domain.h"

#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/domain/adr.h"
#include "perdure/domain/counted.h"
#include "perdure/domain/dram.h"
#include "perdure/domain/eadr.h"
#include "perdure/domain/latency.h"
#include "perdure/domain/recorded.h"
#include "perdure/domain/sync.h"

namespace perdure {
namespace {

/// A device that only remembers what it was asked.
struct NotedCalls {
  std::vector<std::pair<Offset, std::size_t>> writes;
  int syncs = 0;
};
struct NotingDevice {
  NotedCalls* calls;
  bool write(Offset offset, const void*, std::size_t bytes) {
    calls->writes.push_back({offset, bytes});
    return true;
  }
  bool write_durable(Offset offset, const void* data, std::size_t bytes) {
    return write(offset, data, bytes) && sync();
  }
  bool sync() {
    ++calls->syncs;
    return true;
  }
};

template <class D>
struct Memory : ::testing::Test {
  D domain{};
};
// Only what every x86-64 has.
using Memories = ::testing::Types<Dram, Eadr, Adr<x86::Clflush>>;
TYPED_TEST_SUITE(Memory, Memories);

TYPED_TEST(Memory, IsADomainWithoutState) {
  static_assert(Domain<TypeParam>);
  EXPECT_TRUE(std::is_empty_v<TypeParam>) << "the hardware has the state";
}

TYPED_TEST(Memory, WritesThroughEveryLengthAtEveryPlaceInALine) {
  alignas(kLineBytes) std::array<Word, 128> memory;
  std::array<Word, 80> source;
  std::iota(source.begin(), source.end(), Word{1000});
  for (std::size_t start = 0; start < 9; ++start) {
    for (std::size_t count = 1; count <= source.size(); ++count) {
      memory.fill(7);
      this->domain.write_through(&memory[start], source.data(), count, Site::kUserFlush);
      EXPECT_TRUE(this->domain.fence(Site::kUserFence));
      for (std::size_t i = 0; i < memory.size(); ++i) {
        const Word expected = i >= start && i < start + count ? source[i - start] : 7;
        ASSERT_EQ(memory[i], expected) << "start " << start << " count " << count << " word " << i;
      }
    }
  }
}

TYPED_TEST(Memory, MergesOfDifferentBitsNeverLoseEachOther) {
  Word word = 0;
  std::vector<std::thread> threads;
  for (unsigned bit = 0; bit < 4; ++bit) {
    threads.emplace_back([&, bit] {
      for (int i = 0; i < 20001; ++i)
        this->domain.merge(&word, i % 2 == 0 ? ~Word{0} : 0, Word{0xffff} << (16 * bit));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(word, ~Word{0});
}

TEST(Domains, NamesAndGuaranteesAreDistinct) {
  std::set<std::string_view> names;
  std::set<std::string_view> guarantees;
  for (const auto kind : {DomainKind::kAuto, DomainKind::kAdr, DomainKind::kEadr, DomainKind::kSync,
                          DomainKind::kDram}) {
    names.insert(domain_name(kind));
    guarantees.insert(domain_guarantee(kind));
  }
  EXPECT_EQ(names.size(), 5u);
  EXPECT_EQ(guarantees.size(), 5u);
}

TEST(Counted, CountsStoresWordsLinesAndFencesAcrossThreads) {
  DomainCounters counters;
  Counted<Dram> domain(counters);
  alignas(kLineBytes) std::array<Word, 64> memory{};
  std::thread([&] { domain.store(&memory[0], 1); }).join();
  domain.merge(&memory[1], 1, 1);
  domain.write_through(&memory[7], &memory[20], 2, Site::kUserFlush);  // crosses a line
  domain.flush(&memory[8], 8, Site::kUserFlush);
  domain.flush(&memory[15], 16, Site::kUserFlush);  // crosses a line
  EXPECT_TRUE(domain.fence(Site::kUserFence));
  const DomainCounts counts = counters.total();
  EXPECT_EQ(counts.stores, 2u);
  EXPECT_EQ(counts.written_words, 2u);
  EXPECT_EQ(counts.flushes, 2u + 1 + 2);
  EXPECT_EQ(counts.fences, 1u);
  EXPECT_EQ(counts.bytes(), 4 * kWordBytes);
}

TEST(Sync, AFenceWithoutFlushesDoesNotTouchTheDevice) {
  alignas(kPageBytes) static std::array<std::byte, 8 * kPageBytes> memory;
  NotedCalls calls;
  SyncGroup<NotingDevice> group(NotingDevice{&calls}, memory.data());
  Sync<NotingDevice> domain(group);
  domain.store(reinterpret_cast<Word*>(memory.data()), 1);
  EXPECT_TRUE(domain.fence(Site::kUserFence));
  EXPECT_EQ(calls.syncs, 0);
}

TEST(Sync, WritesWholePagesOnceAndJoinsNeighbours) {
  alignas(kPageBytes) static std::array<std::byte, 16 * kPageBytes> memory;
  NotedCalls calls;
  SyncGroup<NotingDevice> group(NotingDevice{&calls}, memory.data());
  Sync<NotingDevice> domain(group);
  const auto flush = [&](Offset offset, std::size_t bytes) {
    domain.flush(memory.data() + offset, bytes, Site::kUserFlush);
  };
  flush(5 * kPageBytes + 8, 8);
  flush(1 * kPageBytes, 8);
  flush(5 * kPageBytes + 64, 8);
  flush(2 * kPageBytes - 8, 16);  // pages 1 and 2
  flush(9 * kPageBytes, kPageBytes);
  EXPECT_TRUE(domain.fence(Site::kUserFence));
  const std::vector<std::pair<Offset, std::size_t>> expected = {
      {kPageBytes, 2 * kPageBytes}, {5 * kPageBytes, kPageBytes}, {9 * kPageBytes, kPageBytes}};
  EXPECT_EQ(calls.writes, expected);
  EXPECT_EQ(calls.syncs, 1);
  EXPECT_TRUE(domain.fence(Site::kUserFence));
  EXPECT_EQ(calls.syncs, 1) << "nothing is written twice";
}

TEST(Sync, WhatIsPostedGoesOutWithTheNextFenceOfAnyThreadAndBeforeItsPages) {
  alignas(kPageBytes) static std::array<std::byte, 8 * kPageBytes> memory;
  NotedCalls calls;
  SyncGroup<NotingDevice> group(NotingDevice{&calls}, memory.data());
  Sync<NotingDevice> domain(group);
  for (int i = 0; i < 3; ++i) {
    domain.flush(memory.data() + 5 * kPageBytes + 8 * i, 8, Site::kUserFlush);
    EXPECT_TRUE(domain.post(Site::kLogPost, 0));
  }
  EXPECT_TRUE(calls.writes.empty());
  std::thread([&] {
    Sync<NotingDevice> other(group);
    other.flush(memory.data() + kPageBytes, 8, Site::kUserFlush);
    EXPECT_TRUE(other.fence(Site::kUserFence));
  }).join();
  const std::vector<std::pair<Offset, std::size_t>> expected = {{5 * kPageBytes, kPageBytes},
                                                                {kPageBytes, kPageBytes}};
  EXPECT_EQ(calls.writes, expected);
  EXPECT_EQ(calls.syncs, 2);
  EXPECT_TRUE(domain.fence(Site::kUserFence)) << "it is durable already";
  EXPECT_EQ(calls.syncs, 2);

  domain.flush(memory.data() + 5 * kPageBytes, 8, Site::kUserFlush);
  EXPECT_TRUE(domain.post(Site::kLogPost, 0));
  EXPECT_TRUE(domain.fence(Site::kUserFence));
  EXPECT_EQ(calls.syncs, 3);
}

/// A device on which something else happens during the first write.
struct InterruptedDevice {
  std::vector<std::pair<Offset, Word>>* writes;  // where, and the first word there
  std::function<void()>* meanwhile;
  bool write(Offset offset, const void* data, std::size_t) {
    writes->push_back({offset, load_word(static_cast<const Word*>(data))});
    if (const auto act = std::exchange(*meanwhile, nullptr)) act();
    return true;
  }
  bool write_durable(Offset offset, const void* data, std::size_t bytes) {
    return write(offset, data, bytes);
  }
  bool sync() { return true; }
};

TEST(Sync, APageIsWrittenAsItWasWhenWhatIsPostedWasTaken) {
  alignas(kPageBytes) static std::array<Word, 3 * kPageBytes / kWordBytes> memory;
  Word* const log = memory.data();
  Word* const other_log = log + kPageBytes / kWordBytes;
  Word* const home = other_log + kPageBytes / kWordBytes;
  std::vector<std::pair<Offset, Word>> writes;
  std::function<void()> meanwhile;
  SyncGroup<InterruptedDevice> group(InterruptedDevice{&writes, &meanwhile},
                                     reinterpret_cast<std::byte*>(log));
  Sync<InterruptedDevice> domain(group);
  const auto commit = [&](Word* record, Word value) {
    domain.store(record, value);
    domain.flush(record, kWordBytes, Site::kLogRecord);
    EXPECT_TRUE(domain.post(Site::kLogPost, 0));
    domain.store(home, value);
  };
  commit(log, 1);
  meanwhile = [&] { std::thread(commit, other_log, 2).join(); };
  domain.flush(home, kWordBytes, Site::kHomeBulk);
  EXPECT_TRUE(domain.fence(Site::kTruncateHome));
  // Not the 2 that is home by then: its record is still on the way.
  const std::vector<std::pair<Offset, Word>> expected = {{0, 1}, {2 * kPageBytes, 1}};
  EXPECT_EQ(writes, expected);
  EXPECT_TRUE(domain.fence(Site::kUserFence));
  EXPECT_EQ(writes.back(), std::pair(Offset{kPageBytes}, Word{2}));
}

/// A device that is slow, and durable only after sync.
struct SlowDisk {
  std::mutex mutex;
  std::set<Offset> written;
  std::set<Offset> durable;
  int syncs = 0;
};
struct SlowDevice {
  SlowDisk* disk;
  bool write(Offset offset, const void*, std::size_t bytes) {
    const std::lock_guard lock(disk->mutex);
    for (std::size_t at = 0; at < bytes; at += kPageBytes) disk->written.insert(offset + at);
    return true;
  }
  bool write_durable(Offset offset, const void* data, std::size_t bytes) {
    return write(offset, data, bytes) && sync();
  }
  bool sync() {
    std::set<Offset> now;
    {
      const std::lock_guard lock(disk->mutex);
      now = disk->written;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    const std::lock_guard lock(disk->mutex);
    disk->durable.insert(now.begin(), now.end());
    ++disk->syncs;
    return true;
  }
};

TEST(Sync, ThreadsShareSyncsAndEachFenceMeansDurable) {
  constexpr int kThreads = 8;
  constexpr int kFences = 50;
  std::vector<std::byte> memory((kThreads * kFences + 2) * kPageBytes);
  auto* base = reinterpret_cast<std::byte*>(
      round_up(reinterpret_cast<std::uint64_t>(memory.data()), kPageBytes));
  SlowDisk disk;
  SyncGroup<SlowDevice> group(SlowDevice{&disk}, base);
  std::atomic<int> missing{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Sync<SlowDevice> domain(group);
      for (int i = 0; i < kFences; ++i) {
        const Offset page = static_cast<Offset>(t * kFences + i) * kPageBytes;
        domain.flush(base + page, 8, Site::kUserFlush);
        if (!domain.fence(Site::kUserFence)) ++missing;
        const std::lock_guard lock(disk.mutex);
        if (disk.durable.count(page) == 0) ++missing;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missing, 0);
  EXPECT_LT(disk.syncs, kThreads * kFences) << "group commit";
}

TEST(DropNth, LeavesOutWhatItWasTold) {
  Omission omission;
  omission.active = true;
  omission.site = Site::kUserFence;
  omission.first = 1;
  omission.count = 1;
  struct Failing : Dram {
    bool fence(Site) { return false; }
  };
  DropNth<Failing> domain(omission, {});
  EXPECT_FALSE(domain.fence(Site::kUserFence));
  EXPECT_TRUE(domain.fence(Site::kUserFence)) << "left out";
  EXPECT_FALSE(domain.fence(Site::kUserFence));
  EXPECT_FALSE(domain.fence(Site::kLogCommit));
  EXPECT_EQ(omission.seen[static_cast<std::size_t>(Site::kUserFence)], 3u);
}

}  // namespace
}  // namespace perdure
