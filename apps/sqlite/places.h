// SPDX-License-Identifier: BSD-3-Clause
// Where the tests of this room put their files: every one runs on memory and on a disk.
#pragma once

#include <string>

#include <gtest/gtest.h>

namespace perdure::sqlite::testing {

inline constexpr const char* kOnMemory = "/dev/shm/";
inline constexpr const char* kOnDisk = "/var/tmp/";

inline std::string place_name(const ::testing::TestParamInfo<const char*>& place) {
  return place.index == 0 ? "Memory" : "Disk";
}

}  // namespace perdure::sqlite::testing
