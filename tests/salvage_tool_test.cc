// SPDX-License-Identifier: BSD-3-Clause
// A store with a damaged link: what refuses it, and what gets its records out.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "perdure/pool.h"
#include "tests/cli_fixture.h"

namespace perdure {
namespace {

class SalvageTest : public CliTest {
 protected:
  static constexpr int kRecords = 400;

  void SetUp() override {
    CliTest::SetUp();
    copy_ = path("copy.pool");
  }

  /// Makes a store, and damages the link from an entry to the next one of its bucket.
  void make_damaged() {
    create();
    fill(kRecords);
    damage_a_link(kRecords);
  }
  static std::ptrdiff_t lines(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  }
  std::string copy_;
};

TEST_F(SalvageTest, ADamagedPoolIsNotCompacted) {
  make_damaged();
  EXPECT_EQ(run({"check", pool_}).code, 1);
  const ToolRun compacted = run({"compact", pool_, copy_});
  EXPECT_EQ(compacted.code, 3);
  EXPECT_NE(compacted.err.find("nothing was copied"), std::string::npos) << compacted.err;
  EXPECT_NE(compacted.err.find("salvage"), std::string::npos) << compacted.err;
  EXPECT_NE(run({"info", copy_}).code, 0) << "there is no copy";
}

TEST_F(SalvageTest, ItsRecordsComeBackInANewPool) {
  make_damaged();
  const std::string before = read(pool_);
  const ToolRun dumped = run({"kv", "dump", pool_});
  EXPECT_NE(dumped.code, 0);
  EXPECT_LT(lines(dumped.out), kRecords - 1);
  const ToolRun all = run({"kv", "dump", pool_, "--salvage"});
  EXPECT_EQ(all.code, 1) << all.err;
  EXPECT_GE(lines(all.out), kRecords - 1);
  EXPECT_NE(all.err.find("left out"), std::string::npos) << all.err;

  const Json made = json_of({"salvage", pool_, copy_, "--json"}, 1);
  EXPECT_GE(made["entries"], kRecords - 1);
  EXPECT_GE(made["left_out"], 1);
  EXPECT_EQ(made["roots"][0]["root"], "kv");
  EXPECT_EQ(made["what_was_left_out"].size(), made["left_out"]);
  EXPECT_EQ(run({"check", copy_}).code, 0);
  EXPECT_EQ(json_of({"kv", "count", copy_, "--json"})["records"], made["entries"]);
  EXPECT_EQ(run({"kv", "get", copy_, "key 7"}).out, "value 7\n");
  EXPECT_EQ(read(pool_), before) << "the damaged pool stays as it is";
  EXPECT_EQ(run({"salvage", pool_, copy_}).code, 3) << "a pool is never overwritten";
}

TEST_F(SalvageTest, OfASoundPoolEverythingIsTaken) {
  create();
  fill(kRecords);
  const Json made = json_of({"salvage", pool_, copy_, "--json"});
  EXPECT_EQ(made["entries"], kRecords);
  EXPECT_EQ(made["left_out"], 0);
  const ToolRun sound = run({"kv", "dump", pool_, "--salvage"});
  EXPECT_EQ(sound.code, 0);
  EXPECT_EQ(lines(sound.out), kRecords);
}

TEST_F(SalvageTest, OfAPoolThatIsOpenNothingIsTaken) {
  create();
  fill(kRecords);
  const Pool pool = Pool::open(pool_).value();
  for (const ToolRun& refused :
       {run({"salvage", pool_, copy_}), run({"kv", "dump", pool_, "--salvage"})}) {
    EXPECT_EQ(refused.code, 3);
    EXPECT_NE(refused.err.find("in use by process " + std::to_string(::getpid())),
              std::string::npos)
        << refused.err;
    EXPECT_EQ(refused.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(copy_));
}

TEST_F(SalvageTest, WithoutSpaceThereIsNoHalfOfACopy) {
  create();
  const auto empty = std::filesystem::file_size(pool_);
  std::string records;
  for (int i = 0; i < kRecords; ++i)
    records += "key " + std::to_string(i) + "\t" + std::string(20'000, 'v') + "\n";
  ASSERT_EQ(run({"kv", "load", pool_}, records).code, 0);
  ASSERT_GT(std::filesystem::file_size(pool_), empty + (4 << 20));
  const std::string before = read(pool_);
  // The new pool may have as many bytes as an empty one, and some more, or not even these.
  for (const std::uint64_t most : {empty + (1 << 20), empty / 2}) {
    const ToolRun full =
        run_with("/bin/sh",
                 {"-c", "trap '' XFSZ; ulimit -f " + std::to_string(most / 512) + "; exec " +
                            quoted(tool_) + " salvage " + quoted(pool_) + " " + quoted(copy_)},
                 "");
    EXPECT_EQ(full.code, 3) << full.err;
    EXPECT_NE(full.err.find(copy_), std::string::npos) << full.err;
    EXPECT_FALSE(std::filesystem::exists(copy_)) << most;
    EXPECT_TRUE(read(pool_) == before);
  }
}

TEST_F(SalvageTest, WhatIsNoPoolOrCannotBeOpenedIsRefused) {
  std::ofstream(pool_) << "no pool at all";
  const ToolRun refused = run({"salvage", pool_, copy_});
  EXPECT_EQ(refused.code, 3);
  EXPECT_NE(refused.err.find(pool_), std::string::npos) << refused.err;
  EXPECT_NE(run({"info", copy_}).code, 0) << "there is no copy";
}

}  // namespace
}  // namespace perdure
