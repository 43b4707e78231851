// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/driver.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "bench/system.h"
#include "bench/tpcc/loader.h"
#include "bench/tpcc/report.h"

namespace perdure::bench::tpcc {
namespace {

// A VFS that is linked in, if only under another name.
const LinkedVfs kLinked([] {
  static sqlite3_vfs copy = [] {
    sqlite3_vfs made = *::sqlite3_vfs_find("unix");
    made.zName = "linked-in";
    return made;
  }();
  ::sqlite3_vfs_register(&copy, 0);
});

class TpccDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_vfses("");
    load_.size = {2, kMaxDivisor};
    load_.transactions = 100;
    load_.warm_up_seconds = 0;
    Connection connection(original_, "unix", Connection::Access::kCreate);
    load(connection, load_.size, load_.seed);
  }
  void change_original(const std::string& statement) {
    Connection(original_, "unix", Connection::Access::kWrite).run(statement);
  }
  Outcome run(const std::string& mode) const {
    return run_round(load_, mode_of(mode), original_, home_.path(), 0);
  }
  static std::size_t count(const Outcome& outcome, Kind kind) {
    return outcome.tally.ns[static_cast<std::size_t>(kind)].size();
  }

  ScratchDirectory home_{std::filesystem::temp_directory_path().string(), "tpcc-test"};
  std::string original_ = home_.path() + "/original.sqlite";
  Load load_;
};

TEST_F(TpccDriverTest, TheMixIsTheStandards) {
  const Outcome outcome = run("unix/wal/normal");
  EXPECT_EQ(outcome.violations, std::vector<std::string>{});
  EXPECT_EQ(outcome.tally.transactions(), 100u);
  EXPECT_EQ(count(outcome, Kind::kNewOrder), 45u);
  EXPECT_EQ(count(outcome, Kind::kPayment), 43u);
  EXPECT_EQ(count(outcome, Kind::kOrderStatus), 4u);
  EXPECT_EQ(count(outcome, Kind::kDelivery), 4u);
  EXPECT_EQ(count(outcome, Kind::kStockLevel), 4u);
  EXPECT_EQ(outcome.tally.delivered + outcome.tally.skipped, 40u);
  EXPECT_EQ(outcome.rows[3], 600 + 43) << "history";
  EXPECT_GT(outcome.transactions_per_s(), outcome.new_orders_per_s());
}

TEST_F(TpccDriverTest, EveryModeDoesTheSameWork) {
  const Outcome first = run("unix/delete/full");
  for (const char* mode : {"unix/wal/full", "unix/memory/off", "linked-in/delete/full"}) {
    const Outcome other = run(mode);
    EXPECT_EQ(other.violations, std::vector<std::string>{}) << mode;
    EXPECT_EQ(other.rows, first.rows) << mode;
    EXPECT_EQ(other.tally.rollbacks, first.tally.rollbacks) << mode;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(home_.path()), {}), 1)
      << "only the original is left";
}

TEST_F(TpccDriverTest, ConnectionsShareTheWork) {
  load_.connections = 3;
  for (const char* mode : {"unix/wal/normal", "unix/truncate/off"}) {
    const Outcome outcome = run(mode);
    EXPECT_EQ(outcome.violations, std::vector<std::string>{}) << mode;
    EXPECT_EQ(outcome.tally.transactions(), 100u) << mode;
  }
}

TEST_F(TpccDriverTest, TimeEndsARunAndWarmingUpIsNotCounted) {
  load_.transactions = 0;
  load_.seconds = 0.05;
  load_.warm_up_seconds = 0.1;
  const Outcome outcome = run("unix/memory/off");
  EXPECT_EQ(outcome.violations, std::vector<std::string>{});
  EXPECT_GE(outcome.wall_seconds, 0.05);
  EXPECT_GT(outcome.rows[3], 600 + static_cast<std::int64_t>(count(outcome, Kind::kPayment)))
      << "payments of the warm-up are there";
}

TEST_F(TpccDriverTest, DamageIsNoticedBeforeClosingAndAfter) {
  change_original("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2");
  const Outcome outcome = run("unix/memory/off");
  ASSERT_EQ(outcome.violations.size(), 4u) << "conditions 1 and 8, twice";
  EXPECT_NE(outcome.violations[0].find("at the end: condition 1"), std::string::npos);
  EXPECT_NE(outcome.violations[3].find("reopened: condition 8"), std::string::npos);
}

TEST_F(TpccDriverTest, AnAcknowledgedRowThatIsLostIsNoticed) {
  // Lost in a way that no condition looks at: a payment without an amount.
  change_original(
      "CREATE TRIGGER thief AFTER INSERT ON history BEGIN"
      " UPDATE history SET h_amount = h_amount + new.h_amount WHERE rowid = (SELECT min(rowid) FROM"
      "  history WHERE h_c_w_id = new.h_c_w_id AND h_c_d_id = new.h_c_d_id AND h_c_id = new.h_c_id"
      "  AND h_w_id = new.h_w_id AND h_d_id = new.h_d_id AND rowid < new.rowid)"
      "  AND new.h_c_w_id = new.h_w_id AND new.h_c_d_id = new.h_d_id;"
      " DELETE FROM history WHERE rowid = new.rowid AND new.h_c_w_id = new.h_w_id"
      "  AND new.h_c_d_id = new.h_d_id; END");
  const Outcome outcome = run("unix/memory/off");
  ASSERT_EQ(outcome.violations.size(), 1u);
  EXPECT_NE(outcome.violations[0].find("history has"), std::string::npos) << outcome.violations[0];
}

TEST_F(TpccDriverTest, AnIndexThatDiffersFromItsTableIsNoticed) {
  change_original(
      "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'c_first)', "
      "'c_city)') WHERE name = 'customer_by_name'");
  const Outcome outcome = run("unix/memory/off");
  ASSERT_FALSE(outcome.violations.empty());
  EXPECT_NE(outcome.violations.back().find("integrity_check"), std::string::npos);
}

TEST(TpccLatencyTest, QuantilesAreThoseOfTheSortedValues) {
  std::vector<std::uint64_t> ns;
  for (std::uint64_t i = 201; i > 0; --i) ns.push_back(i);
  const Latency latency = latency_of(ns);
  EXPECT_EQ(latency.p50_ns, 101);
  EXPECT_EQ(latency.p99_ns, 199);
  EXPECT_EQ(latency.max_ns, 201);
  EXPECT_EQ(latency_of({}).max_ns, 0);
}

TEST(TpccRatioTest, IsOfTheSameRound) {
  const auto round_of = [](std::size_t transactions) {
    Outcome outcome;
    outcome.wall_seconds = 1;
    outcome.tally.ns[0].resize(transactions);
    return outcome;
  };
  const ModeResult baseline{{"unix", "wal", "full"}, {round_of(10), round_of(100), round_of(40)}};
  const ModeResult other{{"x", "delete", "full"}, {round_of(30), round_of(200), round_of(40)}};
  const PlaceResult place{"tmpfs", "", "", 0, {baseline, other}};
  EXPECT_EQ(ratio_of(place, baseline)->median, 1);
  EXPECT_EQ(ratio_of(place, other)->median, 2);
  EXPECT_EQ(ratio_of(place, other)->max, 3);
  EXPECT_FALSE(ratio_of(PlaceResult{"tmpfs", "", "", 0, {other}}, other));
}

TEST(TpccModesTest, AModeIsAVfsAJournalAndASetting) {
  EXPECT_EQ(mode_of("unix/wal/normal").name(), "unix/wal/normal");
  EXPECT_EQ(mode_of("unix").name(), "unix/delete/full");
  EXPECT_EQ(mode_of("unix?cache=private/wal/full").name(), "unix?cache=private/wal/full");
  for (const char* wrong :
       {"moon", "unix/wal", "unix/wal/most", "unix/log/full", "/wal/full", "unix/wal/full/full"})
    EXPECT_THROW(mode_of(wrong), Exception) << wrong;
  EXPECT_EQ(default_modes().size(), 4u) << "no VFS of ours is there";
}

TEST_F(TpccDriverTest, AVfsThatCannotDoAModeIsTold) {
  try {
    run("unix-none/wal/full");
    FAIL();
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_NE(std::string(error.what()).find("cannot do this journal mode"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace perdure::bench::tpcc
