// SPDX-License-Identifier: BSD-3-Clause
// The verification of the comparison notices what a store may do wrong.
#include "bench/comparison/lane.h"

#include <map>

#include <gtest/gtest.h>

namespace perdure::bench::comparison {
namespace {

enum class Fault { kNone, kLosesAPut, kKeepsTheOldValue, kKeepsTheDeleted, kTearsAValue };

/// In ordinary memory, with a fault in the update that `at` counts down to.
class ToyStore final : public Store {
 public:
  void break_at(Fault fault, int at) {
    fault_ = fault;
    at_ = at;
  }
  void put(unsigned, std::span<const Record> records) override {
    ++puts_;
    for (const Record& record : records) {
      std::string value(record.value);
      if (strikes(Fault::kLosesAPut)) {
        records_.erase(record.key);
        continue;
      }
      if (records_.contains(record.key) && strikes(Fault::kKeepsTheOldValue)) continue;
      if (strikes(Fault::kTearsAValue)) value.back() = static_cast<char>(~value.back());
      records_[record.key] = value;
    }
  }
  void erase(unsigned, std::uint64_t key) override {
    ASSERT_TRUE(records_.contains(key)) << "only what is there is deleted";
    if (!strikes(Fault::kKeepsTheDeleted)) records_.erase(key);
  }
  bool get(unsigned, std::uint64_t key, std::string& value) override {
    const auto found = records_.find(key);
    if (found == records_.end()) return false;
    value = found->second;
    return true;
  }
  void scan(unsigned, std::uint64_t from, std::uint64_t count, const Visit& visit) override {
    for (auto at = records_.lower_bound(from); at != records_.end() && count > 0; ++at, --count)
      visit(at->first, at->second);
  }
  std::uint64_t size() const { return records_.size(); }
  std::uint64_t puts() const { return puts_; }
  void lose_one() { records_.erase(records_.begin()); }

 private:
  bool strikes(Fault fault) { return fault_ == fault && at_-- == 0; }
  Fault fault_ = Fault::kNone;
  int at_ = 0;
  std::uint64_t puts_ = 0;
  std::map<std::uint64_t, std::string> records_;
};

constexpr std::uint64_t kLive = 100;
constexpr std::uint64_t kAll = ~std::uint64_t{0};

TEST(Lane, FindsNothingWrongInAStoreThatHoldsEverything) {
  for (const std::uint64_t bytes : {8, 64, 4096}) {
    ToyStore store;
    std::vector<std::unique_ptr<Lane>> lanes;
    for (unsigned thread = 0; thread < 2; ++thread) {
      lanes.push_back(std::make_unique<Lane>(thread, kLive, bytes, /*seed=*/7));
      lanes.back()->fill(store);
    }
    EXPECT_EQ(store.size(), 2 * kLive) << "threads have keys of their own";
    for (const auto& lane : lanes) {
      for (const Work work : {Work::kChurn, Work::kLookUp, Work::kScan, Work::kBatch})
        lane->run(store, work, 501);
      EXPECT_EQ(lane->verify(store, kAll), 2 * kLive) << "those that are there and those that not";
      EXPECT_LE(lane->verify(store, 10), 20u) << "a sample";
    }
    verify_order(store, lanes);
  }
}

TEST(Lane, ABatchIsOneTransactionOfTenRecords) {
  ToyStore store;
  Lane lane(0, kLive, 64, 7);
  lane.fill(store);
  const std::uint64_t before = store.puts();
  lane.run(store, Work::kBatch, 25);
  EXPECT_EQ(store.puts() - before, 25u);
  EXPECT_EQ(store.size(), kLive) << "it replaces";
}

class LaneFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(LaneFaults, OneWrongUpdateIsNoticed) {
  ToyStore store;
  Lane lane(0, kLive, 64, 7);
  lane.fill(store);
  store.break_at(GetParam(), 3);
  if (GetParam() == Fault::kKeepsTheOldValue) {
    lane.run(store, Work::kBatch, 1);  // more of them might mend it
  } else {
    lane.run(store, Work::kChurn, 10);
  }
  EXPECT_THROW(lane.verify(store, kAll), Exception);
}

INSTANTIATE_TEST_SUITE_P(All, LaneFaults,
                         ::testing::Values(Fault::kLosesAPut, Fault::kKeepsTheOldValue,
                                           Fault::kKeepsTheDeleted, Fault::kTearsAValue));

TEST(Lane, AScanThatMissesARecordIsNoticed) {
  ToyStore store;
  std::vector<std::unique_ptr<Lane>> lanes;
  lanes.push_back(std::make_unique<Lane>(0, kLive, 64, 7));
  lanes[0]->fill(store);
  store.lose_one();
  EXPECT_THROW(verify_order(store, lanes), Exception);
}

TEST(Lane, EveryStoreGetsTheSameWork) {
  ToyStore first;
  ToyStore second;
  for (ToyStore* store : {&first, &second}) {
    Lane lane(1, kLive, 8, 3);
    lane.fill(*store);
    lane.run(*store, Work::kChurn, 77);
  }
  std::vector<std::pair<std::uint64_t, std::string>> seen;
  first.scan(0, 0, kAll,
             [&](std::uint64_t key, std::string_view value) { seen.emplace_back(key, value); });
  std::size_t at = 0;
  second.scan(0, 0, kAll, [&](std::uint64_t key, std::string_view value) {
    ASSERT_LT(at, seen.size());
    EXPECT_EQ(seen[at].first, key);
    EXPECT_EQ(seen[at++].second, value);
  });
  EXPECT_EQ(at, seen.size());
}

}  // namespace
}  // namespace perdure::bench::comparison
