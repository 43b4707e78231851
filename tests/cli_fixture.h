// SPDX-License-Identifier: BSD-3-Clause
// What tests of the `perdure` command on pools share.
#pragma once

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {

using Json = nlohmann::json;

class CliTest : public ToolTest {
 protected:
  void SetUp() override {
    ToolTest::SetUp();
    pool_ = path("test.pool");
  }
  /// A small pool, so that tests may compare whole files.
  void create() {
    const ToolRun made = run({"create", pool_, "--capacity", "16M", "--segment", "128K", "--ring",
                              "64K", "--slots", "2"});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  void fill(int records) {
    std::string lines;
    for (int i = 0; i < records; ++i)
      lines += "key " + std::to_string(i) + "\tvalue " + std::to_string(i) + "\n";
    const ToolRun loaded = run({"kv", "load", pool_}, lines);
    ASSERT_EQ(loaded.code, 0) << loaded.err;
  }
  /// Damages the link from one of the records of fill() to the next one of its bucket.
  void damage_a_link(int records) {
    std::string bytes = read(pool_);
    for (int i = 0; i < records; ++i) {
      const std::string key = "key " + std::to_string(i);
      const std::uint32_t lengths[] = {static_cast<std::uint32_t>(key.size()),
                                       static_cast<std::uint32_t>(key.size() + 2)};
      std::string entry(reinterpret_cast<const char*>(lengths), sizeof(lengths));
      entry += key;
      const std::size_t at = bytes.find(entry);
      ASSERT_NE(at, std::string::npos);
      std::uint64_t next = 0;
      std::memcpy(&next, bytes.data() + at - sizeof(next), sizeof(next));
      if (next == 0) continue;
      next |= std::uint64_t{1} << 40;
      std::memcpy(bytes.data() + at - sizeof(next), &next, sizeof(next));
      std::ofstream(pool_, std::ios::binary) << bytes;
      return;
    }
    FAIL() << "no entry is followed by another";
  }
  Json json_of(const std::vector<std::string>& arguments, int code = 0) {
    const ToolRun ran = run(arguments);
    EXPECT_EQ(ran.code, code) << ran.err;
    return Json::parse(ran.out);
  }
  /// Expects that every command refuses the file with `code`, says `why`, and leaves it byte for
  /// byte as it is.
  void expect_refused(const std::string& why, int check_code = 3) {
    const std::string before = read(pool_);
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{"info", pool_},
                                                      {"dump", pool_},
                                                      {"recover", pool_},
                                                      {"kv", "get", pool_, "a"},
                                                      {"kv", "put", pool_, "a", "b"},
                                                      {"kv", "del", pool_, "a"},
                                                      {"kv", "load", pool_},
                                                      {"kv", "stats", pool_},
                                                      {"kv", "demo", pool_}}) {
      const ToolRun refused = run(arguments);
      EXPECT_EQ(refused.code, 3) << arguments[0] << ": " << refused.err;
      EXPECT_EQ(refused.out, "") << arguments[0];
      EXPECT_EQ(refused.err.rfind("perdure: ", 0), 0u) << refused.err;
      EXPECT_NE(refused.err.find(pool_), std::string::npos) << refused.err;
      EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
    }
    const ToolRun checked = run({"check", pool_});
    EXPECT_EQ(checked.code, check_code) << checked.out << checked.err;
    EXPECT_NE((checked.out + checked.err).find(why), std::string::npos)
        << checked.out << checked.err;
    EXPECT_EQ(read(pool_), before);
  }

  std::string pool_;
};

}  // namespace perdure
