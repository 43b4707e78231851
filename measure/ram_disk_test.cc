// SPDX-License-Identifier: BSD-3-Clause
#include "measure/ram_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/error.h"

namespace perdure::bench::reproduce {
namespace {

/// The device that is mounted there, as the kernel names it; empty: none is.
std::string device_at(const std::string& path) {
  std::ifstream mounts("/proc/self/mounts");
  std::string device, at, rest;
  while (mounts >> device >> at && std::getline(mounts, rest)) {
    if (at == path) return std::filesystem::path(device).filename();
  }
  return {};
}

TEST(RamDisk, CountsWhatReachesItAndIsGoneAfterwards) {
  std::string path;
  std::string device;
  {
    std::unique_ptr<RamDisk> disk;
    try {
      disk = std::make_unique<RamDisk>(std::filesystem::temp_directory_path(), 64 << 20);
    } catch (const Exception& lack) {
      EXPECT_EQ(lack.code(), Code::kIo);
      GTEST_SKIP() << lack.what();
    }
    path = disk->path();
    device = device_at(path);
    ASSERT_NE(device, "");
    ASSERT_TRUE(std::filesystem::exists("/sys/block/" + device)) << device;
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
  EXPECT_EQ(device_at(path), "");
  EXPECT_FALSE(std::filesystem::exists("/sys/block/" + device)) << device;
}

}  // namespace
}  // namespace perdure::bench::reproduce
