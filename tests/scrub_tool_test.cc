// SPDX-License-Identifier: BSD-3-Clause
// A value that the storage has changed: who finds it, who refuses it, and that nobody sees damage where
// none is.
#include <fstream>
#include <string>

#include "perdure/perdure.h"
#include "tests/cli_fixture.h"

namespace perdure {
namespace {

class ScrubTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    create();
    fill(200);
  }
  /// Changes a value, which no structure can tell. Returns where.
  std::size_t damage_a_value() {
    std::string bytes = read(pool_);
    const std::size_t at = bytes.find("value 123") + 6;
    bytes[at] ^= 1;
    std::ofstream(pool_, std::ios::binary) << bytes;
    return at;
  }
};

TEST_F(ScrubTest, AChangedValueIsFound) {
  EXPECT_EQ(json_of({"scrub", pool_, "--json"})["areas_without_sums"], 0);
  EXPECT_GT(json_of({"check", pool_, "--json"})["pages_compared"], 10);
  const std::size_t at = damage_a_value();
  for (const char* command : {"scrub", "check"}) {
    const Json found = json_of({command, pool_, "--json"}, 1);
    EXPECT_FALSE(found["sound"]);
    ASSERT_EQ(found["findings"].size(), 1u) << command;
    EXPECT_EQ(found["findings"][0]["part"], "pages");
    EXPECT_EQ(found["findings"][0]["at_byte"], at / kPageBytes * kPageBytes);
    EXPECT_NE(found["findings"][0]["remedy"].dump().find("backup"), std::string::npos);
  }
}

TEST_F(ScrubTest, AChangedValueIsNotSpread) {
  damage_a_value();
  const std::string copy = path("copy.pool");
  for (const char* command : {"compact", "backup"}) {
    const ToolRun refused = run({command, pool_, copy});
    EXPECT_EQ(refused.code, 3) << command;
    EXPECT_NE(refused.err.find("differs from its checksum"), std::string::npos) << refused.err;
    EXPECT_NE(run({"info", copy}).code, 0) << command << ": there is no copy";
  }
  const Json salvaged = json_of({"salvage", pool_, copy, "--json"}, 1);
  EXPECT_EQ(salvaged["entries"], 200);
  ASSERT_EQ(salvaged["left_out"], 1);
  EXPECT_NE(salvaged["what_was_left_out"].dump().find("differs from its checksum"),
            std::string::npos);
  EXPECT_EQ(run({"scrub", copy}).code, 0);
}

TEST_F(ScrubTest, APoolThatIsOpenIsScrubbed) {
  Pool pool = Pool::open(pool_).value();
  auto* map = pool.root<hash_map<std::uint64_t, std::uint64_t>>("mine");
  for (std::uint64_t i = 0; i < 20; ++i) {
    for (std::uint64_t key = 0; key < 50; ++key)
      pool.atomically([&](Tx& tx) { map->put(tx, key, i); });
    if (i % 5 == 0) pool.checkpoint();
    EXPECT_EQ(run({"scrub", pool_}).code, 0);
    EXPECT_EQ(run({"check", pool_}).code, 0);
  }
  EXPECT_EQ(run({"scrub", pool_, "--complete"}).code, 3) << "it is in use";
}

TEST_F(ScrubTest, SumsAreCompletedOnRequest) {
  {
    // As a process that is killed leaves it.
    Pool pool = Pool::open(pool_).value();
    auto* map = pool.root<hash_map<std::uint64_t, std::uint64_t>>("mine");
    pool.atomically([&](Tx& tx) { map->put(tx, 1, 2); });
    pool.checkpoint();
    std::ofstream(path("killed.pool"), std::ios::binary) << read(pool_);
  }
  const std::string killed = path("killed.pool");
  EXPECT_GT(json_of({"scrub", killed, "--json"})["areas_without_sums"], 0);
  EXPECT_EQ(json_of({"scrub", killed, "--complete", "--json"})["areas_without_sums"], 0);
  EXPECT_EQ(run({"check", killed}).code, 0);
}

TEST_F(ScrubTest, OtherFilesAreRefused) {
  std::ofstream(path("text")) << std::string(10000, 'x');
  const ToolRun foreign = run({"scrub", path("text")});
  EXPECT_EQ(foreign.code, 3);
  EXPECT_NE(foreign.err.find("not a Perdure pool"), std::string::npos) << foreign.err;
  EXPECT_EQ(run({"scrub", path("nothing")}).code, 3);
}

}  // namespace
}  // namespace perdure
