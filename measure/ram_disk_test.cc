// SPDX-License-Identifier: BSD-3-Clause
#include "measure/ram_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/error.h"

namespace perdure::bench::reproduce {
namespace {

std::vector<std::string> block_devices() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(RamDisk, CountsWhatReachesItAndIsGoneAfterwards) {
  const std::vector<std::string> before = block_devices();
  std::string path;
  {
    std::unique_ptr<RamDisk> disk;
    try {
      disk = std::make_unique<RamDisk>(std::filesystem::temp_directory_path(), 64 << 20);
    } catch (const Exception& lack) {
      EXPECT_EQ(lack.code(), Code::kIo);
      EXPECT_EQ(block_devices(), before);
      GTEST_SKIP() << lack.what();
    }
    path = disk->path();
    const double empty = disk->blocks_written();
    const int file = ::open((path + "/file").c_str(), O_CREAT | O_WRONLY, 0600);
    ASSERT_GE(file, 0);
    const std::vector<char> blocks(std::size_t{10} * 4096, 'x');
    ASSERT_EQ(::write(file, blocks.data(), blocks.size()), static_cast<ssize_t>(blocks.size()));
    ASSERT_EQ(::fdatasync(file), 0);
    const double synced = disk->blocks_written();
    EXPECT_GE(synced - empty, 10) << "the data";
    EXPECT_LE(synced - empty, 20) << "and some of the file system's own";
    ::close(file);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(block_devices(), before);
}

}  // namespace
}  // namespace perdure::bench::reproduce
