// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "perdure/base/crc32c.h"
#include "perdure/region/frame_pool_test_fixture.h"

namespace perdure {
namespace {

using testing::HasSubstr;

TEST_F(FramePoolTest, MoreDataThanFramesComesBackWhole) {
  constexpr std::uint64_t kPages = 500;
  auto pool = pool_of(with(40));
  const auto view = pool->attach(nullptr, kPages * 4096, file("a"), kBoth).value();
  EXPECT_EQ(pool->statistics().frames, 40u);
  for (std::uint64_t page = 0; page < kPages; ++page) {
    *word(view, page) = page + 1;
    *word(view, page, 511) = ~page;
  }
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(*word(view, page), page + 1);
      ASSERT_EQ(*word(view, page, 511), ~page);
    }
  }
  const auto counts = pool->statistics();
  EXPECT_GE(counts.evictions, kPages - 40);
  EXPECT_GE(counts.hard_faults, 3 * (kPages - 40));
  EXPECT_EQ(counts.failures, 0u);
  EXPECT_LE(counts.frames_mapped + counts.frames_free, 40u);
  pool->detach(view).value();
  EXPECT_EQ(pool->statistics().frames_free, 40u);
  EXPECT_EQ(pool->statistics().mappings, 0u);
  for (std::uint64_t page = 0; page < kPages; ++page)
    ASSERT_EQ(word_of_file(file("a"), page), page + 1);
}

TEST_F(FramePoolTest, AReopenedPoolFindsThePagesInTheirFrames) {
  {
    auto pool = pool_of(with(64));
    const auto view = pool->attach(nullptr, 64 * 4096, file("a"), kBoth).value();
    for (std::uint64_t page = 0; page < 32; ++page) *word(view, page) = page + 1;
  }
  EXPECT_EQ(std::filesystem::file_size(file("a")), 0u) << "nothing was written back";
  auto pool = pool_of({});
  EXPECT_EQ(pool->statistics().frames_free, 32u);
  const auto view = pool->attach(nullptr, 64 * 4096, file("a"), kBoth).value();
  for (std::uint64_t page = 0; page < 32; ++page) ASSERT_EQ(*word(view, page), page + 1);
  EXPECT_EQ(pool->statistics().soft_faults, 32u);
  EXPECT_EQ(pool->statistics().hard_faults, 0u);
  EXPECT_EQ(*word(view, 40), 0u);
  EXPECT_EQ(pool->statistics().hard_faults, 1u);
}

TEST_F(FramePoolTest, FramesOfAFileThatNobodyMapsAreWrittenToIt) {
  {
    auto pool = pool_of(with(16));
    const auto view = pool->attach(nullptr, 16 * 4096, file("old"), kBoth).value();
    for (std::uint64_t page = 0; page < 16; ++page) *word(view, page) = 100 + page;
  }
  auto pool = pool_of({});
  EXPECT_EQ(pool->statistics().frames_free, 0u);
  const auto view = pool->attach(nullptr, 64 * 4096, file("new"), kBoth).value();
  for (std::uint64_t page = 0; page < 64; ++page) *word(view, page) = page;
  for (std::uint64_t page = 0; page < 16; ++page)
    EXPECT_EQ(word_of_file(file("old"), page), 100 + page);
}

TEST_F(FramePoolTest, WriteBackAllLeavesPagesInTheirFrames) {
  auto pool = pool_of(with(8));
  const auto view = pool->attach(nullptr, 4 * 4096, file("a"), kBoth).value();
  *word(view, 2) = 77;
  pool->write_back_all().value();
  EXPECT_EQ(word_of_file(file("a"), 2), 77u);
  *word(view, 2) = 78;
  EXPECT_EQ(pool->statistics().frames_mapped, 1u);
  pool->write_back_all().value();
  EXPECT_EQ(word_of_file(file("a"), 2), 78u);
}

TEST_F(FramePoolTest, LargeFramesTakeFewMappings) {
  constexpr std::uint64_t kFrame = 64 << 10;
  auto pool = pool_of(with(8, kFrame));
  EXPECT_EQ(pool->frame_bytes(), kFrame);
  const auto view = pool->attach(nullptr, 32 * kFrame, file("a"), kBoth).value();
  for (std::uint64_t page = 0; page < 32 * 16; ++page) *word(view, page) = page + 1;
  for (std::uint64_t page = 0; page < 32 * 16; ++page) ASSERT_EQ(*word(view, page), page + 1);
  EXPECT_LT(pool->statistics().hard_faults, 100u);
}

TEST_F(FramePoolTest, PagesInOrderShareAMapping) {
  auto pool = pool_of(with(256));
  const auto view = pool->attach(nullptr, 256 * 4096, file("a"), kBoth).value();
  for (std::uint64_t page = 0; page < 256; ++page) *word(view, page) = 1;
  EXPECT_EQ(pool->statistics().mappings, 1u);
}

TEST_F(FramePoolTest, FewMappingsUnmapFramesButEvictNone) {
  constexpr std::uint64_t kPages = 400;
  auto options = with(kPages);
  options.max_mappings = 50;
  auto pool = pool_of(options);
  const auto view = pool->attach(nullptr, kPages * 4096, file("a"), kBoth).value();
  // Every second page first: no two of them can share a mapping.
  for (std::uint64_t i = 0; i < kPages; ++i) *word(view, i * 2 % kPages + i * 2 / kPages) = i + 1;
  for (std::uint64_t i = 0; i < kPages; ++i)
    ASSERT_EQ(*word(view, i * 2 % kPages + i * 2 / kPages), i + 1);
  const auto counts = pool->statistics();
  EXPECT_EQ(counts.evictions, 0u);
  EXPECT_GT(counts.unmaps, kPages / 2);
  EXPECT_LE(counts.mappings, 52u);
  EXPECT_EQ(counts.hard_faults, kPages);
}

/// Uses up the mappings of the process down to the last.
class MappingHog {
 public:
  MappingHog() {
    for (;;) {
      void* pages = ::mmap(nullptr, kPages * 4096, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (pages == MAP_FAILED) return;
      taken_.at(count_++) = pages;
      for (std::size_t page = 0; page < kPages; page += 2) {
        if (::mprotect(static_cast<char*>(pages) + page * 4096, 4096, PROT_READ) != 0) return;
      }
    }
  }
  ~MappingHog() {
    for (std::size_t i = 0; i < count_; ++i) ::munmap(taken_.at(i), kPages * 4096);
  }
  MappingHog(const MappingHog&) = delete;
  MappingHog& operator=(const MappingHog&) = delete;

 private:
  static constexpr std::size_t kPages = 8192;
  std::array<void*, 4096> taken_{};
  std::size_t count_ = 0;
};

TEST_F(FramePoolTest, AProcessWithoutMappingsLeftGoesOnWithFewerFramesMapped) {
  std::uint64_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  if (limit > 200'000) GTEST_SKIP() << "vm.max_map_count is too large to be used up in a test";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer itself needs mappings and stops the process without";
#endif
  constexpr std::uint64_t kPages = 200;
  auto pool = pool_of(with(kPages));
  const auto view = pool->attach(nullptr, 2 * kPages * 4096, file("a"), kBoth).value();
  for (std::uint64_t page = 0; page < kPages / 2; ++page) *word(view, page * 2) = page + 1;
  std::uint64_t wrong = 0;
  {
    const MappingHog hog;
    for (std::uint64_t page = 0; page < kPages; ++page) *word(view, page * 2) = page + 1;
    for (std::uint64_t page = 0; page < kPages; ++page) wrong += *word(view, page * 2) != page + 1;
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(pool->statistics().failures, 0u);
  EXPECT_GT(pool->statistics().unmaps, 0u);
}

/// Threads that store to pages of their own, more than there are frames, and look at all they have.
TEST_F(FramePoolTest, NoStoreIsLostWhenThreadsShareTooFewFrames) {
  constexpr std::uint64_t kPages = 96;  // of each thread
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kStores = 1500;
  auto pool = pool_of(with(24));
  const auto view = pool->attach(nullptr, kPages * kThreads * 4096, file("a"), kBoth).value();
  std::atomic<std::uint64_t> lost{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::array<Word, kPages> last{};
      for (std::uint64_t i = 1; i <= kStores; ++i) {
        const std::uint64_t page = random() % kPages;
        // Pages of different threads lie side by side, so that they share mappings.
        Word* home = word(view, page * kThreads + t, random() % 2 * 300);
        Word* first = word(view, page * kThreads + t);
        lost += *first != last.at(page);
        *home = i << 8 | t;
        *first = last.at(page) = i << 8 | t;
      }
      for (std::uint64_t page = 0; page < kPages; ++page)
        lost += *word(view, page * kThreads + t) != last.at(page);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost.load(), 0u);
  EXPECT_GT(pool->statistics().evictions, 100u);
  EXPECT_EQ(pool->statistics().failures, 0u);
}

/// A page that threads add to without a pause, while another sweeps it out again and again.
TEST_F(FramePoolTest, NoAdditionIsLostWhileItsPageIsSwappedOut) {
  constexpr int kMostLaps = 20'000;  // a machine with one core may need many until they meet
  auto pool = pool_of(with(4));
  const auto view = pool->attach(nullptr, 64 * 4096, file("a"), kBoth).value();
  std::atomic<bool> sweeping{true};
  std::atomic<Word> additions{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Word mine = 0;
      for (; sweeping; ++mine)
        std::atomic_ref<Word>(*word(view, 0)).fetch_add(1, std::memory_order_relaxed);
      additions += mine;
    });
  }
  for (int lap = 0; lap < kMostLaps && pool->statistics().soft_faults < 50; ++lap) {
    for (std::uint64_t page = 1; page < 64; ++page) *word(view, page) = page;
  }
  sweeping = false;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*word(view, 0), additions.load());
  EXPECT_GE(pool->statistics().soft_faults, 50u) << "it was unmapped under the threads";
  EXPECT_GE(pool->statistics().evictions, 59u);
}

struct Progress {
  static constexpr std::uint64_t kPages = 80;
  static constexpr std::uint64_t kThreads = 2;
  std::array<std::atomic<Word>, kPages * kThreads> begun;
  std::array<std::atomic<Word>, kPages * kThreads> done;
};

TEST_F(FramePoolTest, AKilledProcessLeavesEveryPageInOnePlace) {
  FramePool::create(path, with(32)).value();
  auto* progress = static_cast<Progress*>(
      ::mmap(nullptr, sizeof(Progress), kBoth, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(progress), MAP_FAILED);
  constexpr std::uint64_t kAll = Progress::kPages * Progress::kThreads;
  for (int round = 0; round < 4; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto pool = FramePool::open(path, {}).value();
      const auto view = pool->attach(nullptr, kAll * 4096, file("a"), kBoth).value();
      std::vector<std::thread> threads;
      for (std::uint64_t t = 0; t < Progress::kThreads; ++t) {
        threads.emplace_back([&, t] {
          std::mt19937_64 random(t + static_cast<std::uint64_t>(round) * 16);
          for (Word value = progress->begun.at(t).load() + 1;; ++value) {
            const std::uint64_t page = random() % Progress::kPages * Progress::kThreads + t;
            progress->begun.at(page) = value;
            std::atomic_ref<Word>(*word(view, page)).store(value);
            progress->done.at(page) = value;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      ::_exit(1);
    }
    ::usleep(60'000 + static_cast<useconds_t>(round) * 17'000);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    // To open it is to check that no page is in two frames. Then each is read, from wherever it is.
    auto pool = FramePool::open(path, {}).value();
    const auto view = pool->attach(nullptr, kAll * 4096, file("a"), PROT_READ).value();
    for (std::uint64_t page = 0; page < kAll; ++page) {
      const Word found = *word(view, page);
      ASSERT_TRUE(found == progress->done.at(page) || found == progress->begun.at(page))
          << "page " << page << " has " << found << ", stored was " << progress->done.at(page);
      progress->done.at(page) = found;
      progress->begun.at(page) = found;
    }
  }
  Word stores = 0;
  for (const auto& done : progress->done) stores = std::max(stores, done.load());
  EXPECT_GT(stores, 50u) << "the children did something";
  ::munmap(progress, sizeof(Progress));
}

/// While there is one, a SIGBUS of this thread ends touch() instead of the process.
class SigbusCatcher {
 public:
  SigbusCatcher() {
    struct sigaction action{};
    action.sa_handler = [](int) { siglongjmp(back, 1); };
    ::sigaction(SIGBUS, &action, &before_);
  }
  ~SigbusCatcher() { ::sigaction(SIGBUS, &before_, nullptr); }
  SigbusCatcher(const SigbusCatcher&) = delete;
  SigbusCatcher& operator=(const SigbusCatcher&) = delete;

  /// Whether the word could be stored to.
  static bool touch(Word* home) {
    if (sigsetjmp(back, 1) != 0) return false;
    *reinterpret_cast<volatile Word*>(home) = 1;
    return true;
  }

 private:
  static inline thread_local sigjmp_buf back;
  struct sigaction before_{};
};

TEST_F(FramePoolTest, ATouchThatCannotBeServedIsASigbusAndSaysWhy) {
  {
    auto pool = pool_of(with(4));
    const auto view = pool->attach(nullptr, 4 * 4096, file("gone"), kBoth).value();
    for (std::uint64_t page = 0; page < 4; ++page) *word(view, page) = 7;
  }
  std::filesystem::remove(file("gone"));
  auto pool = pool_of({});
  auto view = pool->attach(nullptr, 4 * 4096, file("b"), kBoth).value();
  const SigbusCatcher catcher;
  EXPECT_FALSE(SigbusCatcher::touch(word(view, 0))) << "no frame is free, and none can be freed";
  EXPECT_EQ(pool->statistics().failures, 1u);
  const auto why = pool->last_failure();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, Code::kNotFound);
  EXPECT_THAT(why->message, HasSubstr(file("gone")));
  EXPECT_THAT(why->message, HasSubstr("put the file back"));
  std::ofstream(file("gone")).flush();
  EXPECT_FALSE(SigbusCatcher::touch(word(view, 0))) << "until it is attached anew";
  EXPECT_TRUE(SigbusCatcher::touch(word(view, 1)));
  pool->cut(view.address, view.bytes).value();
  view = pool->attach(nullptr, 4 * 4096, file("b"), kBoth).value();
  for (std::uint64_t page = 0; page < 4; ++page)
    EXPECT_TRUE(SigbusCatcher::touch(word(view, page)));
  for (std::uint64_t page = 0; page < 4; ++page)
    EXPECT_EQ(word_of_file(file("gone"), page), 7u) << "and nothing was lost";
}

TEST_F(FramePoolTest, AForkedChildHasNoneOfItAndDoesNoHarm) {
  auto pool = pool_of(with(4));
  const auto view = pool->attach(nullptr, 8 * 4096, file("a"), kBoth).value();
  for (std::uint64_t page = 0; page < 8; ++page) *word(view, page) = page + 1;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int mapped = 0;
    unsigned char residency = 0;
    for (std::uint64_t page = 0; page < 8; ++page)
      mapped += ::mincore(view.address + page * 4096, 4096, &residency) == 0;
    pool.reset();
    ::_exit(mapped);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "pages that the child had";
  for (std::uint64_t page = 0; page < 8; ++page) ASSERT_EQ(*word(view, page), page + 1);
  expect_refused(Code::kBusy, "in use");
}

TEST_F(FramePoolTest, SystemCallsReachPagesThatAreNotThere) {
  auto pool = pool_of(with(4));
  const auto view = pool->attach(nullptr, 4 * 4096, file("a"), kBoth).value();
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  *word(view, 1) = 5;
  EXPECT_EQ(::read(zeros, view.address + 4096, 8), 8) << "touched before: always";
  EXPECT_EQ(*word(view, 1), 0u);
  const bool reached = ::read(zeros, view.address + 2 * 4096, 8) == 8;
  EXPECT_EQ(reached, pool->sees_system_calls());
  ::close(zeros);
}

TEST_F(FramePoolTest, WithoutPrivilegesOnlySystemCallsDiffer) {
  auto options = with(8);
  options.user_mode_only = true;
  auto pool = pool_of(options);
  EXPECT_FALSE(pool->sees_system_calls());
  const auto view = pool->attach(nullptr, 32 * 4096, file("a"), kBoth).value();
  for (std::uint64_t page = 0; page < 32; ++page) *word(view, page) = page + 1;
  for (std::uint64_t page = 0; page < 32; ++page) ASSERT_EQ(*word(view, page), page + 1);
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::read(zeros, view.address, 8), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(zeros);
}

TEST_F(FramePoolTest, MisusedCallsAreRefused) {
  auto pool = pool_of(with(4));
  const auto view = pool->attach(nullptr, 4096, file("a"), kBoth).value();
  EXPECT_EQ(pool->attach(nullptr, 4096, file("a"), kBoth).error().code, Code::kBusy);
  EXPECT_EQ(pool->attach(nullptr, 0, file("b"), kBoth).error().code, Code::kInvalid);
  EXPECT_EQ(pool->attach(nullptr, 4096, file("b"), PROT_NONE).error().code, Code::kInvalid);
  EXPECT_EQ(pool->attach(view.address + 1, 4096, file("b"), kBoth).error().code, Code::kInvalid);
  EXPECT_EQ(pool->attach(view.address, 4096, file("b"), kBoth).error().code, Code::kInvalid);
  EXPECT_EQ(pool->attach(nullptr, 4096, directory + "/no/b", kBoth).error().code, Code::kNotFound);
  pool->detach(view).value();
  EXPECT_EQ(pool->detach(view).error().code, Code::kInvalid);
  auto options = with(4);
  options.frame_bytes = 2048;
  EXPECT_EQ(FramePool::create(file("p"), options).error().code, Code::kInvalid);
  EXPECT_EQ(FramePool::create(file("p"), {.bytes = 8192}).error().code, Code::kInvalid);
  EXPECT_EQ(FramePool::create(path, with(4)).error().code, Code::kExists);
}

TEST_F(FramePoolTest, ForeignNewerTruncatedCorruptAndBusyFilesAreRefused) {
  expect_refused(Code::kNotFound, "No such file");
  std::ofstream(path) << std::string(8192, 'x');
  expect_refused(Code::kForeign, "not a frame pool");
  std::filesystem::remove(path);
  FramePool::create(path, with(8)).value();
  FrameSuperblock super{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&super), sizeof(super));
  {
    auto pool = pool_of({});
    expect_refused(Code::kBusy, "in use by process " + std::to_string(::getpid()));
  }
  FrameSuperblock newer = super;
  newer.version = 2;
  overwrite(0, &newer, sizeof(newer));
  expect_refused(Code::kVersion, "format version 2");
  FrameSuperblock strange = super;
  strange.incompatible = 1;
  strange.crc = crc32c(&strange, offsetof(FrameSuperblock, crc));
  overwrite(0, &strange, sizeof(strange));
  expect_refused(Code::kVersion, "features");
  FrameSuperblock damaged = super;
  damaged.geometry.frame_count = 9;
  overwrite(0, &damaged, sizeof(damaged));
  expect_refused(Code::kCorrupt, "fails its checksum");
  overwrite(0, &super, sizeof(super));
  const Word torn = seal_frame(3, FilePage{1, 1}.payload()) ^ 0xff00;
  overwrite(super.entry_offset + 3 * 8, &torn, sizeof(torn));
  expect_refused(Code::kCorrupt, "byte " + std::to_string(super.entry_offset + 24));
  std::filesystem::resize_file(path, file_bytes_of(super) - 1);
  expect_refused(Code::kTruncated, "tables and frames take");
  std::filesystem::resize_file(path, 50);
  expect_refused(Code::kTruncated, "only 50 bytes");
}

}  // namespace
}  // namespace perdure
