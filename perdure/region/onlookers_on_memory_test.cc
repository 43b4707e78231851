// SPDX-License-Identifier: BSD-3-Clause
// Those who look at memory that others store to: when an image begins, what it shows, and who is sent
// away.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/region/live_image.h"
#include "perdure/region/onlookers.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

class OnlookersOnMemory : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kFilePages = 256;
  static constexpr std::uint64_t kBytes = 2 * kFilePages * kPageBytes;  // of addresses: it may grow

  OnlookersOnMemory() : file_(::open(path_.c_str(), O_CREAT | O_RDWR, 0600)) {
    EXPECT_TRUE(allocate_blocks(file_.get(), 0, kFilePages * kPageBytes));
    base_ = static_cast<std::byte*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    onlookers_ = Onlookers::on_memory(file_.get(), path_, base_, kBytes, true);
  }
  ~OnlookersOnMemory() override {
    onlookers_.reset();
    ::munmap(base_, kBytes);
  }

  std::atomic<Word>& word(std::uint64_t page) const {
    return *reinterpret_cast<std::atomic<Word>*>(base_ + page * kPageBytes);
  }
  Result<std::unique_ptr<LiveImage>> look() const {
    return LiveImage::open(Descriptor(::open(path_.c_str(), O_RDONLY)), path_);
  }
  static Word at(LiveImage& image, std::uint64_t page) {
    std::array<std::byte, kPageBytes> bytes;
    image.read(page * kPageBytes, bytes.data(), bytes.size()).value();
    Word value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "file";
  Descriptor file_;
  std::byte* base_ = nullptr;
  std::unique_ptr<Onlookers> onlookers_;
};

TEST_F(OnlookersOnMemory, AnImageStaysAsItWas) {
  word(1) = 1;
  const auto first = look().value();
  word(1) = 2;
  word(100) = 2;
  const auto second = look().value();
  word(1) = 3;
  word(200) = 3;
  EXPECT_EQ(at(*first, 1), 1u);
  EXPECT_EQ(at(*first, 100), 0u);
  EXPECT_EQ(at(*first, 200), 0u);
  EXPECT_EQ(at(*second, 1), 2u);
  EXPECT_EQ(at(*second, 100), 2u);
  EXPECT_EQ(at(*second, 200), 0u);
  EXPECT_EQ(at(*look().value(), 200), 3u);
}

TEST_F(OnlookersOnMemory, WritesOfTheFileAreKeptToo) {
  word(1) = 1;
  const auto image = look().value();
  {
    const Word two = 2;
    const Onlookers::Writing writing(onlookers_.get(), kPageBytes, sizeof(two));
    EXPECT_FALSE(writing.is_alone());
    ASSERT_TRUE(write_at(file_.get(), &two, sizeof(two), kPageBytes));
  }
  EXPECT_EQ(word(1), 2u);
  EXPECT_EQ(at(*image, 1), 1u);
}

TEST_F(OnlookersOnMemory, WhatTheFileGrowsByIsStoredToAsBefore) {
  const auto image = look().value();
  ASSERT_TRUE(allocate_blocks(file_.get(), 0, kBytes));
  word(2 * kFilePages - 1) = 1;
  word(1) = 1;
  const auto longer = look().value();
  word(2 * kFilePages - 1) = 2;
  EXPECT_EQ(at(*image, 1), 0u);
  EXPECT_EQ(at(*longer, 2 * kFilePages - 1), 1u);
}

/// Each number goes to one page, then to another by another thread, then to a third.
TEST_F(OnlookersOnMemory, NoStoreIsSeenWithoutThoseItDependsOn) {
  constexpr std::uint64_t kFirst = 3, kSecond = 130, kThird = 70;
  std::atomic<bool> stop{false};
  std::thread first([&] {
    for (Word n = 1; !stop; ++n) word(kFirst) = n;
  });
  std::thread second([&] {
    while (!stop) {
      word(kSecond) = word(kFirst).load();
      word(kThird) = word(kSecond).load();
    }
  });
  Word last = 0;
  for (int i = 0; i < (testing::kSanitized ? 30 : 300); ++i) {
    const auto image = look().value();
    const Word one = at(*image, kFirst), two = at(*image, kSecond), three = at(*image, kThird);
    EXPECT_LE(two, one);
    EXPECT_LE(three, two);
    EXPECT_GE(one, last);
    last = word(kFirst);
  }
  stop = true;
  first.join();
  second.join();
  EXPECT_GT(last, 0u);
}

TEST_F(OnlookersOnMemory, ManyThreadsMeetTheSamePages) {
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  std::atomic<Word> sum{0};
  std::atomic<unsigned> begun{0};
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      ++begun;
      for (Word n = 0; !stop; ++n) {
        ++word((n * 7 + t) % kFilePages);
        ++sum;
      }
    });
  }
  // One that starts blocks all signals for a while, which is long where many want few cores.
  while (begun < 8) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    const Word before = sum;
    const auto image = look().value();
    Word seen = 0;
    for (std::uint64_t page = 0; page < kFilePages; ++page) seen += at(*image, page);
    Word again = 0;
    for (std::uint64_t page = 0; page < kFilePages; ++page) again += at(*image, page);
    EXPECT_EQ(seen, again);
    EXPECT_GE(seen, before);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  Word all = 0;
  for (std::uint64_t page = 0; page < kFilePages; ++page) all += word(page);
  EXPECT_EQ(all, sum);
}

TEST_F(OnlookersOnMemory, WhereAThreadBlocksTheSignalNobodyMayLook) {
  sigset_t segv;
  sigset_t before;
  ::sigemptyset(&segv);
  ::sigaddset(&segv, SIGSEGV);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &segv, &before), 0);
  const auto refused = look();
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBusy);
  word(1) = 1;
  EXPECT_EQ(at(*look().value(), 1), 1u);
}

TEST_F(OnlookersOnMemory, WhereTheProgramHasAHandlerOfItsOwnNobodyMayLook) {
  struct sigaction ours{};
  struct sigaction theirs{};
  theirs.sa_handler = [](int) { ::_exit(9); };
  ASSERT_EQ(::sigaction(SIGSEGV, &theirs, &ours), 0);
  const auto refused = look();
  word(1) = 1;
  ASSERT_EQ(::sigaction(SIGSEGV, &ours, nullptr), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBusy);
  EXPECT_TRUE(look().ok());
}

TEST_F(OnlookersOnMemory, AReaderWhosePagesHaveNoSpaceIsToldAndTheStoreIsMade) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  const auto image = look().value();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{2 * kPageBytes, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  word(1) = 1;
  word(200) = 1;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(word(1), 1u);
  std::array<std::byte, kPageBytes> bytes;
  EXPECT_EQ(image->read(kPageBytes, bytes.data(), bytes.size()).error().code, Code::kNoSpace);
  EXPECT_EQ(at(*look().value(), 200), 1u);
}

TEST_F(OnlookersOnMemory, AfterTheLastReaderPagesAreWritableAgain) {
  {
    const auto image = look().value();
    word(1) = 1;
  }
  for (int i = 0; i < 1000 && onlookers_->any(); ++i) ::usleep(1000);
  EXPECT_FALSE(onlookers_->any());
  // A store by a system call would not be heard of.
  const std::string zeros = "/dev/zero";
  const Descriptor source(::open(zeros.c_str(), O_RDONLY));
  EXPECT_EQ(::read(source.get(), base_, kFilePages * kPageBytes),
            static_cast<ssize_t>(kFilePages * kPageBytes));
}

TEST_F(OnlookersOnMemory, AForkedChildHasItsOwnFaults) {
  const auto image = look().value();
  EXPECT_NE(testing::in_child([&]() -> int {
              word(1) = 1;  // shared, and read-only here, too
              return 0;
            }),
            0);
  word(2) = 2;
  EXPECT_EQ(at(*image, 2), 0u);
  EXPECT_EQ(testing::in_child([&]() -> int {
              onlookers_.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(at(*look().value(), 2), 2u);
}

}  // namespace
}  // namespace perdure
