// SPDX-License-Identifier: BSD-3-Clause
// The meeting of a writer and those who look on: when an image begins, and what it shows.
#include "perdure/region/onlookers.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/region/live_image.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using namespace std::chrono_literals;
using Page = std::array<std::byte, kPageBytes>;

constexpr std::uint64_t kPages = 64;

class OnlookersTest : public ::testing::Test {
 protected:
  OnlookersTest() : file_(::open(path_.c_str(), O_CREAT | O_RDWR, 0600)) {
    for (std::uint64_t page = 0; page < kPages; ++page) put(page, 'a');
    onlookers_ = Onlookers::on_file(file_.get(), path_);
  }

  /// The device's write.
  void put(std::uint64_t page, char with) const {
    Page bytes;
    bytes.fill(static_cast<std::byte>(with));
    ASSERT_TRUE(write_at(file_.get(), bytes.data(), bytes.size(), page * kPageBytes));
  }
  void write(std::uint64_t page, char with) {
    const Onlookers::Writing writing(onlookers_.get(), page * kPageBytes, kPageBytes);
    put(page, with);
  }
  Result<std::unique_ptr<LiveImage>> look() const {
    return LiveImage::open(Descriptor(::open(path_.c_str(), O_RDONLY)), path_);
  }
  std::future<std::unique_ptr<LiveImage>> look_elsewhere() const {
    return std::async(std::launch::async, [this] { return look().value(); });
  }
  static char at(LiveImage& image, std::uint64_t page) {
    Page bytes;
    image.read(page * kPageBytes, bytes.data(), bytes.size()).value();
    EXPECT_EQ(bytes.front(), bytes.back());
    return static_cast<char>(bytes.front());
  }
  template <class T>
  static bool is_ready(std::future<T>& future) {
    return future.wait_for(100ms) == std::future_status::ready;
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "file";
  Descriptor file_;
  std::unique_ptr<Onlookers> onlookers_;
};

TEST_F(OnlookersTest, AnImageStaysAsItWas) {
  write(1, 'b');
  const auto first = look().value();
  EXPECT_EQ(at(*first, 2), 'a');
  write(1, 'c');
  write(2, 'c');
  const auto second = look().value();
  write(2, 'd');
  write(3, 'd');
  EXPECT_EQ(at(*first, 1), 'b');
  EXPECT_EQ(at(*first, 2), 'a');
  EXPECT_EQ(at(*first, 3), 'a');
  EXPECT_EQ(at(*second, 1), 'c');
  EXPECT_EQ(at(*second, 2), 'c');
  EXPECT_EQ(at(*second, 3), 'a');
  EXPECT_EQ(at(*look().value(), 3), 'd');
}

TEST_F(OnlookersTest, WhatIsBehindTheEndIsZeros) {
  const auto image = look().value();
  write(kPages, 'b');
  EXPECT_EQ(at(*image, kPages + 1), 0);
}

TEST_F(OnlookersTest, AnImageBeginsWhenNoWriteIsUnderWay) {
  auto writing = std::make_unique<Onlookers::Writing>(onlookers_.get(), 0, kPageBytes);
  auto image = look_elsewhere();
  EXPECT_FALSE(is_ready(image));
  put(0, 'b');
  writing.reset();
  EXPECT_EQ(at(*image.get(), 0), 'b');
}

TEST_F(OnlookersTest, WriteThatMeetsAReaderWaitsForThoseUnderWay) {
  auto writing = std::make_unique<Onlookers::Writing>(onlookers_.get(), 0, kPageBytes);
  auto image = look_elsewhere();
  std::this_thread::sleep_for(50ms);  // it has come
  auto second = std::async(std::launch::async, [&] { write(1, 'b'); });
  EXPECT_FALSE(is_ready(second));
  EXPECT_FALSE(is_ready(image));
  put(0, 'b');
  writing.reset();
  second.get();
  const auto seen = image.get();
  EXPECT_EQ(at(*seen, 0), 'b');
  EXPECT_EQ(at(*seen, 1), 'a');
}

TEST_F(OnlookersTest, ReadersThatHaveGoneAreForgotten) {
  {
    const auto image = look().value();
    write(0, 'b');
    EXPECT_TRUE(onlookers_->any());
  }
  write(0, 'c');
  EXPECT_FALSE(onlookers_->any());
}

TEST_F(OnlookersTest, OfTooManyReadersTheLastAreSentAway) {
  std::vector<std::unique_ptr<LiveImage>> images;
  for (int i = 0; i < 50; ++i) images.push_back(look().value());
  write(0, 'b');
  for (int i = 0; i < 50; ++i) images.push_back(look().value());
  write(1, 'c');
  std::size_t served = 0;
  for (std::size_t i = 0; i < images.size(); ++i) {
    std::array<Page, 2> pages;
    const auto got = images[i]->read(0, pages[0].data(), sizeof(pages));
    if (!got) {
      EXPECT_EQ(got.error().code, Code::kBusy);
      continue;
    }
    ++served;
    EXPECT_EQ(static_cast<char>(pages[0][0]), i < 50 ? 'a' : 'b');
    EXPECT_EQ(static_cast<char>(pages[1][0]), 'a');
  }
  EXPECT_EQ(served, 64u);
}

TEST_F(OnlookersTest, WriterThatHasNoDescriptorLeftSendsAllAway) {
  Onlookers* const onlookers = onlookers_.get();
  {
    // UBSan's first look at an object's type takes a pipe: it is done with before there is none.
    const Onlookers::Writing first(onlookers, 0, kPageBytes);
  }
  const auto image = look().value();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  {
    const Onlookers::Writing writing(onlookers, 0, kPageBytes);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  Page bytes;
  EXPECT_EQ(image->read(0, bytes.data(), bytes.size()).error().code, Code::kBusy);
}

TEST_F(OnlookersTest, WriterThatHasGoneIsNoticed) {
  const auto image = look().value();
  onlookers_.reset();
  Page bytes;
  EXPECT_EQ(image->read(0, bytes.data(), bytes.size()).error().code, Code::kBusy);
  EXPECT_EQ(look().error().code, Code::kNotFound);
}

TEST_F(OnlookersTest, ReaderWhoseOtherPagesHaveNoSpaceIsTold) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  const auto image = look().value();
  write(0, 'b');
  EXPECT_EQ(at(*image, 0), 'a');
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{kPages / 2 * kPageBytes, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    const Onlookers::Writing writing(onlookers_.get(), 0, kPages * kPageBytes);
    put(1, 'b');
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  Page bytes;
  EXPECT_EQ(image->read(kPageBytes, bytes.data(), bytes.size()).error().code, Code::kNoSpace);
  EXPECT_EQ(at(*look().value(), 1), 'b');
  std::signal(SIGXFSZ, before);
}

/// Whoever may read the file may keep the lock by which a reader finds its moment.
TEST_F(OnlookersTest, ReaderThatStandsStillHoldsNobodyUpForLong) {
  const Descriptor other(::open(path_.c_str(), O_RDONLY));
  ASSERT_TRUE(live::set_lock(other.get(), F_RDLCK, live::kWritingByte));
  const auto image = look().value();
  auto writer = std::async(std::launch::async, [&] { write(0, 'b'); });
  EXPECT_EQ(writer.wait_for(5s), std::future_status::ready);
  Page bytes;
  EXPECT_EQ(image->read(0, bytes.data(), bytes.size()).error().code, Code::kBusy);
}

TEST_F(OnlookersTest, WhoMayNotReadTheFileIsSentAway) {
  const std::string another = dir_ / "another";
  const Descriptor other(::open(another.c_str(), O_CREAT | O_RDWR, 0600));
  struct stat status{};
  ASSERT_EQ(::fstat(file_.get(), &status), 0);
  const Offset byte = live::find_lock(other.get(), live::kFirstMeeting, live::kMeetings);
  EXPECT_EQ(byte, 0u);  // of another file
  const Descriptor reader(::open(path_.c_str(), O_RDONLY));
  const live::Meeting meeting =
      live::meeting_of(status.st_dev, status.st_ino,
                       live::find_lock(reader.get(), live::kFirstMeeting, live::kMeetings));
  const Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&meeting.address), meeting.bytes),
      0);
  ASSERT_TRUE(live::send_file(socket.get(), other.get()));
  write(0, 'b');
  EXPECT_FALSE(onlookers_->any());
  EXPECT_LT(live::receive_file(socket.get()).get(), 0);
}

}  // namespace
}  // namespace perdure
