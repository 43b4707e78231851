// SPDX-License-Identifier: BSD-3-Clause
// `perdure check` and `perdure info` of arena files.
#include <array>
#include <random>

#include <gmock/gmock.h>

#include "perdure/arena.h"
#include "tests/cli_fixture.h"

namespace perdure {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ArenaCheckTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    file_ = path("test.arena");
    options_.capacity_bytes = 1 << 20;
    options_.log_bytes = 64 << 10;
    auto arena = Arena::create(file_, options_).value();
    auto& first = arena.make_root<std::array<long, 1000>>("first");
    arena.make_root<int>("second", 2);
    for (std::size_t i = 0; i < 30; ++i) {
      for (std::size_t at = 0; at < first.size(); at += 3) ++first[at];
      arena.persist().value();
    }
    address_ = reinterpret_cast<std::uintptr_t>(arena.address());
  }

  std::string file_;
  ArenaOptions options_;
  std::uint64_t address_ = 0;
};

TEST_F(ArenaCheckTest, ASoundArenaIsSoundAndStaysAsItIs) {
  const std::string before = read(file_);
  const Json report = json_of({"check", file_, "--json"});
  EXPECT_EQ(report["kind"], "arena");
  EXPECT_EQ(report["sound"], true);
  EXPECT_EQ(report["epoch"], 30);
  EXPECT_EQ(report["objects"], 2);
  EXPECT_EQ(report["roots"], 2);
  EXPECT_EQ(report["findings"], Json::array());
  const ToolRun told = run({"check", file_});
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("findings: none"));
  EXPECT_EQ(read(file_), before);
}

TEST_F(ArenaCheckTest, InfoTellsAddressesEpochsAndRoots) {
  const Json report = json_of({"info", file_, "--json"});
  EXPECT_EQ(report["kind"], "arena");
  EXPECT_EQ(report["capacity_bytes"], 1 << 20);
  EXPECT_EQ(report["epoch"], 30);
  EXPECT_GT(report["epoch_at_home"], 0);
  EXPECT_EQ(report["objects"], 2);
  EXPECT_EQ(report["damage_found"], false);
  ASSERT_THAT(report["roots"], SizeIs(2));
  EXPECT_EQ(report["roots"][0]["root"], "first");
  EXPECT_EQ(report["roots"][1]["root"], "second");
  EXPECT_LT(report["roots"][1]["at_byte"], 1 << 20);
  char address[32];
  std::snprintf(address, sizeof(address), "0x%llx to ", static_cast<unsigned long long>(address_));
  EXPECT_THAT(report["addresses"].get<std::string>(), HasSubstr(address));
}

TEST_F(ArenaCheckTest, DamageIsNamedWithPlaceAndRemedy) {
  const std::string whole = read(file_);
  struct Case {
    std::uint64_t at;
    std::string part, what;
  };
  const std::uint64_t home = 12288;
  const std::vector<Case> cases = {
      {40, "superblock", "the superblock (bytes 0-103) fails its checksum"},
      {4096 + 8, "state", "the state slot at byte 4096 fails its checksum"},
      {home + (1 << 20) + 8, "log", "the segment head at byte 1060864 fails its checksum"},
      // The number of chunks; no epoch of the log says it again.
      {home + 32, "heap", "the arena's heap is one of another size"},
  };
  for (const auto& [at, part, what] : cases) {
    overwrite(file_, at, std::string(1, static_cast<char>(~whole[at])));
    const Json report = json_of({"check", file_, "--json"}, 1);
    EXPECT_EQ(report["sound"], false);
    std::string told;
    for (const Json& finding : report["findings"]) {
      EXPECT_THAT(finding["remedy"].get<std::string>(), HasSubstr("restore it from a backup"));
      told += finding["part"].get<std::string>() + ": " + finding["what"].get<std::string>() + "\n";
    }
    EXPECT_THAT(told, HasSubstr(part + ": " + what)) << at;
    const ToolRun info = run({"info", file_});
    EXPECT_EQ(info.code, part == "superblock" ? 3 : 0) << info.out << info.err;
    overwrite(file_, at, whole.substr(at, 1));
  }
  EXPECT_EQ(run({"check", file_}).code, 0);
}

TEST_F(ArenaCheckTest, RandomDamageIsNamedOrHarmless) {
  const std::string whole = read(file_);
  std::mt19937_64 random(4);
  int named = 0;
  for (int turn = 0; turn < 60; ++turn) {
    const std::uint64_t at = turn % 3 == 0 ? random() % 20'000 : random() % whole.size();
    std::string bytes = whole.substr(at, 1 + random() % 5000);
    for (char& byte : bytes) byte = static_cast<char>(random());
    overwrite(file_, at, bytes);
    const std::string damaged = read(file_);
    const ToolRun checked = run({"check", file_});
    ASSERT_THAT(checked.code, AnyOf(0, 1, 3)) << at << checked.err;
    if (checked.code == 1) {
      ASSERT_THAT(checked.out, HasSubstr("remedy"));
    }
    if (checked.code == 3) {
      ASSERT_LT(at, 32u) << "only the magic, the version and the features make it another file";
      ASSERT_THAT(checked.err, HasSubstr(file_));
    }
    named += checked.code != 0 ? 1 : 0;
    ASSERT_TRUE(read(file_) == damaged) << "it was changed";
    overwrite(file_, at, whole.substr(at, bytes.size()));
  }
  EXPECT_GT(named, 8);
}

TEST_F(ArenaCheckTest, FilesThatCannotBeJudgedEndWith3) {
  const auto expect_refused = [&](const std::string& why) {
    for (const char* command : {"check", "info"}) {
      const ToolRun refused = run({command, file_});
      EXPECT_EQ(refused.code, 3) << refused.out;
      EXPECT_THAT(refused.err, HasSubstr(file_));
      EXPECT_THAT(refused.err, HasSubstr(why));
    }
  };
  {
    const auto arena = Arena::open(file_, options_).value();
    expect_refused("in use by process " + std::to_string(::getpid()));
  }
  overwrite(file_, 8, "\x02");
  expect_refused("use a newer release");
  overwrite(file_, 0, "x");
  expect_refused("no magic");
}

TEST_F(ArenaCheckTest, ATruncatedArenaIsDamaged) {
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - 1);
  const ToolRun checked = run({"check", file_});
  EXPECT_EQ(checked.code, 1);
  EXPECT_THAT(checked.out, HasSubstr("its superblock says"));
}

}  // namespace
}  // namespace perdure
