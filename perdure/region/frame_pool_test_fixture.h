// SPDX-License-Identifier: BSD-3-Clause
// What tests of frame pools share.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/region/frame_pool.h"

namespace perdure {

inline constexpr int kBoth = PROT_READ | PROT_WRITE;

class FramePoolTest : public testing::Test {
 protected:
  FramePoolTest() {
    std::string name = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : testing::TempDir());
    name += "/frame-pool-XXXXXX";
    directory = ::mkdtemp(name.data());
    path = directory + "/pool";
  }
  ~FramePoolTest() override { std::filesystem::remove_all(directory); }

  void SetUp() override {
    auto probe = FramePool::open_or_create(directory + "/probe", {.bytes = 1 << 17});
    if (!probe && probe.error().message.find("userfaultfd") != std::string::npos)
      GTEST_SKIP() << probe.error().message;
    probe.value();
  }

  /// `frames` frames, and the tables that they need.
  static FramePool::Options with(std::uint64_t frames, std::uint64_t frame_bytes = 4096) {
    const std::uint64_t tables = 4096 + 64 * sizeof(FileEntry) + round_up(frames * 8, 4096);
    return {.bytes = round_up(tables, frame_bytes) + frames * frame_bytes,
            .frame_bytes = frame_bytes};
  }
  std::unique_ptr<FramePool> pool_of(const FramePool::Options& options) {
    return FramePool::open_or_create(path, options).value();
  }
  static Word* word(const FramePool::View& view, std::uint64_t page, std::uint64_t index = 0) {
    return reinterpret_cast<Word*>(view.address + page * 4096) + index;
  }
  std::string file(const char* name) const { return directory + "/" + name; }
  static Word word_of_file(const std::string& name, std::uint64_t page) {
    Word found = 0;
    std::ifstream in(name, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(page * 4096));
    in.read(reinterpret_cast<char*>(&found), sizeof(found));
    return found;
  }
  void expect_refused(Code code, const std::string& message) {
    const auto opened = FramePool::open(path, {});
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, code);
    EXPECT_THAT(opened.error().message, testing::HasSubstr(message));
    EXPECT_THAT(opened.error().message, testing::HasSubstr(path));
  }
  void overwrite(Offset at, const void* data, std::size_t bytes) {
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(at));
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  }

 public:
  std::string directory;
  std::string path;
};

}  // namespace perdure
