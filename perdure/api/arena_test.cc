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
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace perdure {
namespace {

using Text = std::basic_string<char, std::char_traits<char>, arena_allocator<char>>;
using Numbers = std::vector<std::uint64_t, arena_allocator<std::uint64_t>>;
using Names = std::map<std::uint64_t, Text, std::less<>,
                       arena_allocator<std::pair<const std::uint64_t, Text>>>;

class ArenaTest : public testing::TestWithParam<ArenaTracking> {
 protected:
  ArenaTest() {
    options.capacity_bytes = 4 << 20;
    options.tracking = GetParam();
  }
  ~ArenaTest() override { std::filesystem::remove_all(directory); }
  static std::filesystem::path fresh_directory() {
    std::string name = (std::filesystem::temp_directory_path() / "arena-XXXXXX").string();
    return ::mkdtemp(name.data());
  }
  Arena reopen() { return Arena::open(file, options).value(); }

  std::filesystem::path directory = fresh_directory();
  std::string file = directory / "test.arena";
  ArenaOptions options;
};
INSTANTIATE_TEST_SUITE_P(Tracking, ArenaTest,
                         testing::Values(ArenaTracking::kUserfault, ArenaTracking::kMprotect),
                         [](const auto& tracking) {
                           return tracking.param == ArenaTracking::kUserfault ? "Userfault"
                                                                              : "Mprotect";
                         });

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

TEST_P(ArenaTest, KilledAtAnyMomentItHoldsAWholeEpoch) {
  options.epoch = std::chrono::milliseconds(5);
  options.durable = ArenaDurable::kProcess;
  Arena::create(file, options).value();
  std::mt19937_64 random(3);
  std::uint64_t most = 0;
  const int kills = GetParam() == ArenaTracking::kUserfault ? 50 : 20;
  for (int kill = 0; kill < kills; ++kill) {
    // Of every second child the opening is cut, too; of the others only what follows.
    int opened[2];
    ASSERT_EQ(::pipe(opened), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto arena = Arena::open(file, options).value();
      auto& names = arena.make_root<Names>("names");
      auto& numbers = arena.make_root<Numbers>("numbers");
      std::mt19937_64 choice(random());
      if (::write(opened[1], "", 1) != 1) std::abort();
      for (;;) {
        const Arena::Guard guard(arena);
        // What is in one is in the other, with a name that tells its number.
        const std::uint64_t number = choice() % 3000;
        if (const auto found = names.find(number); found != names.end()) {
          names.erase(found);
          numbers.erase(std::find(numbers.begin(), numbers.end(), number));
        } else {
          names.emplace(number, Text(std::to_string(number) + std::string(number % 200, '.'),
                                     arena.allocator<char>()));
          numbers.push_back(number);
        }
      }
    }
    ::close(opened[1]);
    char byte = 0;
    if (kill % 2 == 0) {
      ASSERT_EQ(::read(opened[0], &byte, 1), 1);
    }
    ::close(opened[0]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    ArenaOptions calm = options;
    calm.epoch = {};
    auto arena = Arena::open(file, calm).value();
    const auto* names = arena.root<Names>("names");
    const auto* numbers = arena.root<Numbers>("numbers");
    if (names == nullptr || numbers == nullptr) {
      ASSERT_EQ(most, 0u) << "roots that were there are gone";
      continue;
    }
    ASSERT_EQ(names->size(), numbers->size()) << "kill " << kill;
    for (const std::uint64_t number : *numbers) {
      const auto found = names->find(number);
      ASSERT_NE(found, names->end());
      ASSERT_EQ(found->second.size(), std::to_string(number).size() + number % 200);
    }
    ASSERT_GE(arena.epoch().epoch, most);
    most = arena.epoch().epoch;
  }
  EXPECT_GT(most, 5u);
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
  poke(40, 'x');  // of the uuid
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
