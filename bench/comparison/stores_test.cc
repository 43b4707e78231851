// SPDX-License-Identifier: BSD-3-Clause
// Every store of the comparison that was built in, against a map in ordinary memory: what it
// acknowledged is there, also when it was closed and opened again.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "bench/comparison/apart.h"
#include "bench/comparison/kinds.h"
#include "bench/comparison/lane.h"

namespace perdure::bench::comparison {
namespace {

struct Case {
  const StoreKind* kind;
  Place place;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const StoreKind& kind : store_kinds()) {
    for (const Place place : {Place::kMemory, Place::kDisk}) {
      if (kind.terms(place) && maker_of(kind) != nullptr) all.push_back({&kind, place});
    }
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string name(info.param.kind->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name + "_" + std::string(place_name(info.param.place));
}

constexpr std::uint64_t kKeys = 600;
constexpr const char* kMemory = "/dev/shm";

void require(bool holds, const std::string& what) {
  if (!holds) throw Exception(Code::kCorrupt, what);
}

/// A store and what it must hold. Throws, for it runs in a process apart, which libpmemobj needs: it
/// chooses its mode once.
class Checked {
 public:
  Checked(const Case& tested, const StoreOptions& options)
      : tested_(tested), options_(options), random_(options.value_bytes) {}

  void open() { store_ = maker_of(*tested_.kind)(options_); }
  void close() { store_.reset(); }

  void update() {
    const std::uint64_t thread = random_.below(2);
    std::vector<std::string> values(1 + random_.below(5), std::string(options_.value_bytes, '\0'));
    std::vector<Record> records;
    for (std::string& value : values) {
      for (char& byte : value) byte = static_cast<char>(random_.next());
      records.push_back({key_of(thread), value});
      model_[records.back().key] = value;
    }
    store_->put(static_cast<unsigned>(thread), records);
    for (int i = 0; i < 2; ++i) {
      const auto gone = model_.find(key_of(thread));
      if (gone == model_.end()) continue;
      store_->erase(static_cast<unsigned>(thread), gone->first);
      model_.erase(gone);
    }
  }

  void require_model() {
    std::string found;
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const auto known = model_.find(key);
      const std::string name = "key " + std::to_string(key);
      require(store_->get(key % 2, key, found) == (known != model_.end()), name + " is there");
      require(known == model_.end() || found == known->second, name + " has its value");
    }
    if (!tested_.kind->ordered) return;
    require_scan(0, kKeys);
    require_scan(kKeys / 3, 7);
  }

 private:
  std::uint64_t key_of(std::uint64_t thread) { return 2 * random_.below(kKeys / 2) + thread; }

  void require_scan(std::uint64_t from, std::uint64_t count) {
    auto expected = model_.lower_bound(from);
    std::uint64_t seen = 0;
    store_->scan(0, from, count, [&](std::uint64_t key, std::string_view value) {
      require(expected != model_.end() && key == expected->first && value == expected->second,
              "a scan visits key " + std::to_string(key));
      ++expected;
      ++seen;
    });
    require(seen == count || expected == model_.end(), "a scan ends early");
  }

  Case tested_;
  StoreOptions options_;
  Random random_;
  std::unique_ptr<Store> store_;
  std::map<std::uint64_t, std::string> model_;
};

class Stores : public ::testing::TestWithParam<Case> {};

TEST_P(Stores, HoldWhatTheyAcknowledgedAlsoWhenReopened) {
  EXPECT_NO_THROW(run_apart([] {
    // A device that waits for every update gets few of them.
    const bool in_memory = GetParam().place == Place::kMemory && std::filesystem::exists(kMemory);
    const std::string place = in_memory ? kMemory : std::filesystem::temp_directory_path().string();
    const int updates = in_memory ? 60 : 8;
    for (const std::uint64_t bytes : {8, 64, 1024, 4096}) {
      const ScratchDirectory directory(place, GetParam().kind->name);
      Checked checked(GetParam(),
                      {directory.path(), GetParam().place, bytes, kKeys, /*threads=*/2});
      for (int opened = 0; opened < 3; ++opened) {
        checked.open();
        checked.require_model();
        for (int i = 0; i < updates; ++i) checked.update();
        checked.require_model();
        checked.close();
      }
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(All, Stores, ::testing::ValuesIn(cases()), name_of);

TEST(StoreKinds, EveryPeerTellsItsTermsAndItsPackage) {
  std::set<std::string_view> names;
  for (const StoreKind& kind : store_kinds()) {
    SCOPED_TRACE(kind.name);
    EXPECT_TRUE(names.insert(kind.name).second) << "names are unique";
    EXPECT_TRUE(kind.in_memory || kind.on_disk);
    for (const Place place : {Place::kMemory, Place::kDisk}) {
      if (!kind.terms(place)) continue;
      EXPECT_FALSE(kind.terms(place)->setting.empty());
      EXPECT_FALSE(kind.terms(place)->survives.empty());
    }
    if (kind.ours()) {
      EXPECT_NE(maker_of(kind), nullptr);
    } else {
      EXPECT_TRUE(kind.in_memory && kind.on_disk) << "a peer is measured in both places";
    }
  }
}

TEST(RunApart, HandsOverWhatWasThrown) {
  try {
    run_apart([] { throw Exception(Code::kNoSpace, "no room left"); });
    FAIL() << "nothing was thrown";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), Code::kNoSpace);
    EXPECT_STREQ(error.what(), "no room left");
  }
}

TEST(RunApart, TellsThatASignalEndedIt) {
  try {
    run_apart([] { std::raise(SIGKILL); });
    FAIL() << "nothing was thrown";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), Code::kIo);
    EXPECT_NE(std::string(error.what()).find("signal 9"), std::string::npos);
  }
}

TEST(RunApart, SharesMemory) {
  const SharedMemory memory(sizeof(int));
  run_apart([&] { *static_cast<int*>(memory.data()) = 42; });
  EXPECT_EQ(*static_cast<int*>(memory.data()), 42);
}

}  // namespace
}  // namespace perdure::bench::comparison
