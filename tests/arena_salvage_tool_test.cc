// SPDX-License-Identifier: BSD-3-Clause
// `perdure salvage` of arena files.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>

#include "perdure/arena.h"
#include "tests/cli_fixture.h"

namespace perdure {
namespace {

class ArenaSalvageTest : public CliTest {
 protected:
  using Words = std::map<int, int, std::less<>, arena_allocator<std::pair<const int, int>>>;
  static constexpr int kEpochs = 12;

  void SetUp() override {
    CliTest::SetUp();
    file_ = path("test.arena");
    copy_ = path("copy.arena");
    options_.capacity_bytes = 1 << 20;
    auto arena = Arena::create(file_, options_).value();
    auto& words = arena.make_root<Words>("words");
    for (int epoch = 1; epoch <= kEpochs; ++epoch) {
      for (int i = 0; i < 20; ++i) words[epoch * 20 + i] = epoch;
      arena.persist().value();
    }
  }
  /// The map in the copy is the one of some epoch; returns which.
  int epoch_in_copy() {
    const auto arena = Arena::open(copy_, options_).value();
    const auto& words = *arena.root<Words>("words");
    const auto epochs = static_cast<int>(words.size()) / 20;
    for (const auto& [key, epoch] : words) EXPECT_EQ(epoch, key / 20);
    EXPECT_EQ(words.size(), 20u * static_cast<std::size_t>(epochs));
    return epochs;
  }
  std::uint64_t log_begin() {
    return 3 * 4096 + options_.capacity_bytes + 4096;  // segment 0 behind home, its head first
  }
  void expect_refused(const std::string& why) {
    const ToolRun refused = run({"salvage", file_, copy_});
    EXPECT_EQ(refused.code, 3) << refused.out;
    EXPECT_EQ(refused.out, "");
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(copy_));
  }

  std::string file_;
  std::string copy_;
  ArenaOptions options_;
};

TEST_F(ArenaSalvageTest, OfASoundOneAllIsTaken) {
  const std::string before = read(file_);
  const Json made = json_of({"salvage", file_, copy_, "--json"});
  EXPECT_EQ(made["kind"], "arena");
  EXPECT_EQ(made["epoch"], kEpochs);
  EXPECT_EQ(made["epochs_dropped"], 0);
  EXPECT_EQ(made["left_out"], 0);
  EXPECT_EQ(made["what_was_put_right"].size(), 0u);
  EXPECT_EQ(run({"check", copy_}).code, 0);
  EXPECT_EQ(epoch_in_copy(), kEpochs);
  EXPECT_EQ(read(file_), before);
  const ToolRun again = run({"salvage", file_, copy_});
  EXPECT_EQ(again.code, 3);
  EXPECT_NE(again.err.find("exists already"), std::string::npos) << again.err;
}

TEST_F(ArenaSalvageTest, OfADamagedLogAnOlderEpochAsAWhole) {
  const std::string whole = read(file_);
  const std::uint64_t end = whole.find_last_not_of('\0');
  overwrite(file_, (log_begin() + end) / 2, "damaged!");
  EXPECT_EQ(Arena::open(file_, options_).error().code, Code::kCorrupt);
  const Json checked = json_of({"check", file_, "--json"}, 1);
  EXPECT_NE(checked["findings"][0]["remedy"].get<std::string>().find("perdure salvage"),
            std::string::npos)
      << checked.dump();
  const Json made = json_of({"salvage", file_, copy_, "--json"}, 1);
  const int epoch = made["epoch"];
  EXPECT_GT(epoch, 0);
  EXPECT_LT(epoch, kEpochs);
  EXPECT_EQ(made["epochs_dropped"], kEpochs - epoch);
  EXPECT_EQ(made["left_out"], 1);
  EXPECT_NE(made["what_was_left_out"].dump().find("epochs " + std::to_string(epoch + 1) + " to 12"),
            std::string::npos)
      << made.dump();
  EXPECT_EQ(epoch_in_copy(), epoch);
  // It goes on from there.
  auto arena = Arena::open(copy_, options_).value();
  (*arena.root<Words>("words"))[1] = 1;
  arena.persist().value();
  EXPECT_EQ(arena.epoch().epoch, static_cast<std::uint64_t>(epoch) + 1);
}

TEST_F(ArenaSalvageTest, WithoutItsSuperblockItIsFoundByTheRest) {
  overwrite(file_, 0, std::string(512, '\0'));
  EXPECT_EQ(run({"check", file_}).code, 3);
  const Json made = json_of({"salvage", file_, copy_, "--json"});
  EXPECT_EQ(made["what_was_put_right"].size(), 1u) << made.dump();
  EXPECT_EQ(epoch_in_copy(), kEpochs);
}

TEST_F(ArenaSalvageTest, WhatCannotBeSalvagedIsRefusedAndLeavesNothing) {
  const std::string whole = read(file_);
  // Every record of the first epoch.
  overwrite(file_, log_begin(), std::string(128, 'x'));
  expect_refused("epoch 1 of the log is damaged");
  write(file_, whole.substr(0, whole.size() / 8));
  expect_refused(file_);
  write(file_, whole);
  {
    const auto arena = Arena::open(file_, options_).value();
    expect_refused("in use by process " + std::to_string(::getpid()));
  }
  overwrite(file_, 8, std::string(1, '\x7f'));  // the version
  EXPECT_EQ(run({"salvage", file_, copy_}).code, 0) << "which is damage if all else is as it was";
  EXPECT_EQ(epoch_in_copy(), kEpochs);
}

TEST_F(ArenaSalvageTest, WithoutSpaceThereIsNoHalfOfACopy) {
  const std::string before = read(file_);
  for (const int blocks : {100, 1000, 3000}) {
    const ToolRun full =
        run_with("/bin/sh",
                 {"-c", "trap '' XFSZ; ulimit -f " + std::to_string(blocks) + "; exec " +
                            quoted(tool_) + " salvage " + quoted(file_) + " " + quoted(copy_)},
                 "");
    EXPECT_EQ(full.code, 3) << full.err;
    EXPECT_NE(full.err.find(copy_), std::string::npos) << full.err;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 4)
        << "the arena, and the three files of the run";
  }
  EXPECT_EQ(read(file_), before);
}

}  // namespace
}  // namespace perdure
