// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/arena_test_fixture.h"
#include "perdure/base/words.h"
#include "perdure/checkpoint/arena_inspection.h"

namespace perdure {
namespace {

INSTANTIATE_TEST_SUITE_P(Tracking, ArenaTest,
                         testing::Values(ArenaTracking::kUserfault, ArenaTracking::kMprotect),
                         tracking_name);

TEST_P(ArenaTest, ContainersSurviveAsTheyWereAtTheLastPersist) {
  {
    auto arena = Arena::create(file, options).value();
    EXPECT_EQ(arena.tracking(), GetParam());
    auto& names = arena.make_root<Names>("names");
    for (std::uint64_t i = 0; i < 2000; ++i)
      names.emplace(i, Text(i % 90, 'x', arena.allocator<char>()));
    arena.persist().value();
    names.clear();  // never saved
  }
  auto arena = reopen();
  auto* names = arena.root<Names>("names");
  ASSERT_NE(names, nullptr);
  ASSERT_EQ(names->size(), 2000u);
  for (const auto& [i, name] : *names) ASSERT_EQ(name.size(), i % 90);
}

TEST_P(ArenaTest, EveryEpochOfARandomProgramIsSavedExactly) {
  std::mt19937_64 random(7);
  constexpr std::size_t kBytes = 2 << 20;
  std::vector<std::byte> saved(kBytes);
  Arena::create(file, options).value();
  for (int run = 0; run < 6; ++run) {
    auto arena = reopen();
    auto* bytes = arena.root<std::byte>("bytes");
    if (bytes == nullptr) {
      bytes = static_cast<std::byte*>(arena.allocate(kBytes));
      arena.set_root("bytes", bytes);
    }
    ASSERT_EQ(std::memcmp(bytes, saved.data(), kBytes), 0) << "run " << run;
    for (int epoch = 0; epoch < 12; ++epoch) {
      for (int i = 0; i < 200; ++i) bytes[random() % kBytes] = static_cast<std::byte>(random());
      const std::size_t at = random() % (kBytes - 100'000);
      std::memset(bytes + at, epoch % 2 == 0 ? 0 : epoch, 100'000);
      arena.persist().value();
    }
    std::copy(bytes, bytes + kBytes, saved.begin());
    bytes[5] = std::byte{77};
    if (run % 2 == 0) arena.persist().value();
    if (run % 2 == 0) saved[5] = std::byte{77};
  }
}

TEST_P(ArenaTest, HotPagesAreSavedLikeAllOthersAlsoWhenTheyCool) {
  constexpr std::size_t kBytes = 2 << 20;
  std::mt19937_64 random(8);
  std::vector<char> saved(kBytes);
  Arena::create(file, options).value();
  std::uint64_t most_hot = 0;
  for (int run = 0; run < 12; ++run) {
    auto arena = reopen();
    auto* bytes = arena.root<char>("bytes");
    if (bytes == nullptr) {
      bytes = static_cast<char*>(arena.allocate(kBytes));
      arena.set_root("bytes", bytes);
    }
    ASSERT_EQ(std::memcmp(bytes, saved.data(), kBytes), 0) << "run " << run;
    // The first of these pages change in each epoch, but for a rest now and then; one of the others
    // sometimes.
    const int epochs = 4 + static_cast<int>(random() % 12);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      if (random() % 4 != 0) {
        for (std::size_t at = 0; at < kBytes / 2; at += kPageBytes) ++bytes[at + random() % 4096];
      }
      ++bytes[random() % kBytes];
      arena.persist().value();
      most_hot = std::max(most_hot, arena.epoch().hot_pages);
    }
    std::copy(bytes, bytes + kBytes, saved.begin());
  }
  EXPECT_GT(most_hot, 200u);
}

TEST_P(ArenaTest, OnlyHotPagesAreComparedThatWereNotWritten) {
  auto arena = Arena::create(file, options).value();
  constexpr std::uint64_t kHot = 200;
  auto* bytes = static_cast<char*>(arena.allocate(400 * kPageBytes));
  const auto pages_of_epoch = [&](bool others) {
    for (std::uint64_t page = 0; page < kHot; ++page) ++bytes[page * kPageBytes];
    for (std::uint64_t page = kHot; page < 400 && others; page += 7) ++bytes[page * kPageBytes];
    const std::uint64_t before = arena.epoch().written_pages;
    arena.persist().value();
    return arena.epoch().written_pages - before;
  };
  for (int epoch = 0; epoch < 5; ++epoch) pages_of_epoch(false);
  EXPECT_EQ(arena.epoch().hot_pages, kHot);
  EXPECT_EQ(pages_of_epoch(true), kHot + 29);
  EXPECT_EQ(pages_of_epoch(false), kHot) << "the others are watched again";
  // Nothing changes any more: compared twice, then watched.
  const std::uint64_t before = arena.epoch().written_pages;
  for (int epoch = 0; epoch < 5; ++epoch) arena.persist().value();
  EXPECT_EQ(arena.epoch().written_pages - before, 2 * kHot);
  EXPECT_EQ(arena.epoch().hot_pages, 0u);
}

TEST_P(ArenaTest, TheTimerEndsEpochsBetweenChanges) {
  options.epoch = std::chrono::milliseconds(1);
  options.durable = ArenaDurable::kProcess;
  {
    auto arena = Arena::create(file, options).value();
    auto& numbers = arena.make_root<Numbers>("numbers", Numbers::size_type{64});
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};
    for (std::size_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        while (!stop) {
          const Arena::Guard guard(arena);
          const auto nested = arena.pause();
          // A pair is equal at each end of an epoch.
          ++numbers[t * 16];
          ++numbers[t * 16 + 8];
        }
      });
    }
    while (arena.epoch().ended < 50) std::this_thread::yield();
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_GT(numbers[0], 0u);
  }
  auto arena = reopen();
  const auto& numbers = *arena.root<Numbers>("numbers");
  EXPECT_EQ(numbers[0], numbers[8]);
  EXPECT_EQ(numbers[16], numbers[24]);
  EXPECT_GT(numbers[0] + numbers[16], 0u);
}

#if !defined(__SANITIZE_ADDRESS__)
// A child waits for the lock of AddressSanitizer's heap that another thread held at the fork (gcc 12).
TEST_P(ArenaTest, AForkedChildDoesNotHaveItAndTheParentGoesOn) {
  options.epoch = std::chrono::milliseconds(1);
  options.durable = ArenaDurable::kProcess;
  std::uint64_t reached = 0;
  {
    std::optional<Arena> arena = Arena::create(file, options).value();
    auto& numbers = arena->make_root<Numbers>("numbers", Numbers::size_type{16});
    for (int turn = 0; turn < 20; ++turn) {
      const pid_t child = ::fork();
      if (child == 0) {
        unsigned char resident = 0;
        const bool there = ::mincore(arena->address(), 4096, &resident) == 0;
        const auto persisted = arena->persist();
        const bool refused = !persisted.ok() && persisted.error().code == Code::kMisuse;
        arena.reset();  // neither ends the parent's epochs nor waits for threads that are not here
        ::_exit(there ? 1 : refused ? 0 : 2);
      }
      const std::uint64_t before = arena->epoch().ended;
      while (arena->epoch().ended < before + 5) {
        const auto guard = arena->pause();
        ++numbers[0];
        ++numbers[8];
      }
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "1: the memory is in the child, 2: it can persist";
    }
    arena->persist().value();
    reached = numbers[0];
    EXPECT_EQ(Arena::open(file, options).error().code, Code::kBusy)
        << "no child took the lock along";
  }
  options.epoch = {};
  auto arena = reopen();
  const auto& numbers = *arena.root<Numbers>("numbers");
  EXPECT_EQ(numbers[0], reached);
  EXPECT_EQ(numbers[8], reached);
}
#endif

TEST_P(ArenaTest, PmrContainersLiveInItToo) {
  {
    auto arena = Arena::create(file, options).value();
    auto& words = arena.make_root<std::pmr::vector<std::pmr::string>>("words", arena.resource());
    words.emplace_back("a word that is longer than a string is without an allocation");
    arena.persist().value();
  }
  auto arena = reopen();
  auto& words = *arena.root<std::pmr::vector<std::pmr::string>>("words");
  words.emplace_back("another word that is longer than a string is on its own");
  EXPECT_EQ(words[0], "a word that is longer than a string is without an allocation");
}

TEST_P(ArenaTest, AFailedWritePoisonsItAndWhatWasSavedSurvives) {
  {
    auto arena = Arena::create(file, options).value();
    auto& number = arena.make_root<int>("number", 1);
    arena.persist().value();
    // A file may not be written beyond its first page any more.
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit narrow{4096, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &narrow);
    number = 2;
    const auto failed = arena.persist();
    ::setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Code::kPoisoned);
    number = 3;
    EXPECT_EQ(arena.persist().error().code, Code::kPoisoned);
  }
  auto arena = reopen();
  EXPECT_EQ(*arena.root<int>("number"), 1);
  *arena.root<int>("number") = 4;
  EXPECT_TRUE(arena.persist().ok());
}

TEST_P(ArenaTest, DoesNotOpenAnOlderEpochUnlessThatIsAccepted) {
  constexpr std::uint64_t kEpochs = 9;
  {
    auto arena = Arena::create(file, options).value();
    auto& numbers = arena.make_root<Numbers>("numbers");
    for (std::uint64_t i = 1; i <= kEpochs; ++i) {
      numbers.push_back(i);
      arena.persist().value();
    }
    EXPECT_EQ(arena.lost_epochs(), 0u);
  }
  const auto super = *checkpoint::ArenaInspection::of(file).value().superblock();
  std::fstream log(file, std::ios::in | std::ios::out | std::ios::binary);
  // The middle of what the segment holds.
  std::string bytes((std::istreambuf_iterator<char>(log)), {});
  const auto begin = super.segment_offset[0] + checkpoint::kSegmentHeadBytes;
  const auto end = bytes.find_last_not_of('\0', super.segment_offset[1] - 1);
  ASSERT_GT(end, begin);
  log.seekp(static_cast<std::streamoff>((begin + end) / 2));
  log.put(static_cast<char>(~bytes[(begin + end) / 2])).flush();

  const auto refused = Arena::open(file, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_NE(refused.error().message.find("accept_older"), std::string::npos)
      << refused.error().message;
  options.accept_older = true;
  {
    auto older = Arena::open(file, options).value();
    const auto& numbers = *older.root<Numbers>("numbers");
    EXPECT_LT(numbers.size(), kEpochs);
    EXPECT_EQ(numbers.back(), numbers.size());
    EXPECT_EQ(older.lost_epochs() + numbers.size(), kEpochs);
  }
  options.accept_older = false;
  EXPECT_FALSE(Arena::open(file, options).ok()) << "accepted is what is built on";
  options.accept_older = true;
  {
    auto older = Arena::open(file, options).value();
    older.root<Numbers>("numbers")->push_back(77);
    older.persist().value();
  }
  options.accept_older = false;
  auto accepted = Arena::open(file, options).value();
  EXPECT_EQ(accepted.root<Numbers>("numbers")->back(), 77u);
  EXPECT_EQ(accepted.lost_epochs(), 0u);
}

TEST_P(ArenaTest, RefusesWhatItCannotOpen) {
  EXPECT_EQ(Arena::open(file, options).error().code, Code::kNotFound);
  std::uintptr_t address = 0;
  {
    auto arena = Arena::create(file, options).value();
    address = reinterpret_cast<std::uintptr_t>(arena.address());
    EXPECT_EQ(Arena::open(file, options).error().code, Code::kBusy);
    EXPECT_EQ(Arena::create(file, options).error().code, Code::kExists);
    const Arena::Guard guard(arena);
    EXPECT_EQ(arena.persist().error().code, Code::kMisuse);
    EXPECT_THROW(arena.set_root("outside", &address), Exception);
    EXPECT_THROW(arena.allocate(8 << 20), Exception);
    EXPECT_THROW(arena.set_root("", arena.make<int>()), Exception);
    arena.set_root("number", arena.make<int>(7));
    EXPECT_THROW(arena.root<double>("number"), Exception);
  }
  void* in_the_way = ::mmap(reinterpret_cast<void*>(address + 4096), 4096, PROT_READ,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(in_the_way, MAP_FAILED);
  const auto taken = Arena::open(file, options);
  EXPECT_EQ(taken.error().code, Code::kBusy);
  EXPECT_NE(taken.error().message.find("taken in this process by"), std::string::npos);
  ::munmap(in_the_way, 4096);
  EXPECT_TRUE(Arena::open(file, options).ok());

  const auto size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, size - 1);
  EXPECT_EQ(Arena::open(file, options).error().code, Code::kTruncated);
  std::filesystem::resize_file(file, size);
  const auto poke = [&](std::streamoff at, char value) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(at);
    stream.put(value);
  };
  std::ifstream before(file, std::ios::binary);
  before.seekg(40);
  poke(40, char(~before.get()));  // of the uuid, whose bytes are random
  EXPECT_EQ(Arena::open(file, options).error().code, Code::kCorrupt);
  poke(8, 2);
  EXPECT_EQ(Arena::open(file, options).error().code, Code::kVersion);
  poke(0, 'x');
  EXPECT_EQ(Arena::open(file, options).error().code, Code::kForeign);
  options.capacity_bytes = 5000;
  EXPECT_EQ(Arena::create(directory / "small", options).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace perdure
