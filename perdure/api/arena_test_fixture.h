// SPDX-License-Identifier: BSD-3-Clause
// An arena in a directory of its own, and what tests keep in it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/arena.h"

namespace perdure {

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
inline std::string tracking_name(const testing::TestParamInfo<ArenaTracking>& tracking) {
  return tracking.param == ArenaTracking::kUserfault ? "Userfault" : "Mprotect";
}

}  // namespace perdure
