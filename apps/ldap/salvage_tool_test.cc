// SPDX-License-Identifier: BSD-3-Clause
// A damaged directory: `perdure salvage` makes a directory of the entries that can be proved, in which each has a place.
#include <algorithm>
#include <string>
#include <vector>

#include "apps/ldap/directory.h"
#include "perdure/pool.h"
#include "tests/cli_fixture.h"

namespace perdure::ldap {
namespace {

constexpr int kPeople = 300;
constexpr char kPeopleAre[] = "ou=people,dc=example,dc=com";

class SalvageOfADirectory : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    copy_ = path("copy.pool");
    PoolOptions options;
    options.capacity_bytes = 64 << 20;
    Pool pool = Pool::create(pool_, options).value();
    Directory directory(pool);
    add(directory, "dc=example,dc=com", {{"objectClass", "domain"}, {"dc", "example"}});
    add(directory, kPeopleAre, {{"objectClass", "organizationalUnit"}, {"ou", "people"}});
    for (int i = 0; i < kPeople; ++i) {
      const std::string uid = "jürgen" + std::to_string(i);
      add(directory, "uid=" + uid + "," + kPeopleAre, {{"objectClass", "account"}, {"uid", uid}});
    }
  }
  static void add(Directory& directory, const std::string& dn, const Values& values) {
    ASSERT_EQ(directory.add(parse_dn(dn).value(), values, dn.starts_with("dc=")).code,
              ResultCode::kSuccess);
  }
  /// How many people are found below a name, by name.
  static int people(Directory& directory, const std::string& below) {
    int found = 0;
    for (int i = 0; i < kPeople; ++i) {
      const std::string uid = "jürgen" + std::to_string(i);
      const Outcome outcome =
          directory.compare(parse_dn("uid=" + uid + "," + below).value(), "uid", uid);
      found += outcome.code == ResultCode::kCompareTrue ? 1 : 0;
    }
    return found;
  }
  /// Calls `body(tx, store, entries)` with the places of the entries' objects whose record has `text` in it.
  template <class Body>
  void damage(const std::string& text, Body body) {
    Pool pool = Pool::open(pool_).value();
    auto* const store = pool.find_root<Store>(kRoot);
    pool.atomically([&](Tx& tx) {
      std::vector<std::uint64_t*> found;
      ASSERT_EQ(store->entries.audit(tx,
                                     [&](std::uint64_t at) {
                                       auto* const object = pool.at(pptr<std::uint64_t>{at});
                                       // A link, the lengths of the number and of the record, both.
                                       if (static_cast<std::uint32_t>(object[1]) != 8) return;
                                       const std::string_view record(
                                           reinterpret_cast<const char*>(object + 3),
                                           object[1] >> 32);
                                       if (record.find(text) != record.npos)
                                         found.push_back(object);
                                     }),
                std::nullopt);
      ASSERT_FALSE(found.empty());
      body(tx, *store, found);
    });
  }
  Json salvaged(int code) {
    const Json made = json_of({"salvage", pool_, copy_, "--json"}, code);
    EXPECT_EQ(run({"check", copy_}).code, 0);
    return made;
  }

  std::string copy_;
};

TEST_F(SalvageOfADirectory, OfASoundOneAllIsTaken) {
  const Json made = salvaged(0);
  EXPECT_EQ(made["left_out"], 0) << made.dump();
  EXPECT_EQ(made["entries"], kPeople + 2);
  Pool pool = Pool::open(copy_).value();
  Directory directory(pool);
  EXPECT_EQ(directory.verify(), std::vector<std::string>());
  EXPECT_EQ(people(directory, kPeopleAre), kPeople);
  add(directory, std::string("uid=new,") + kPeopleAre,
      {{"objectClass", "account"}, {"uid", "new"}});
}

TEST_F(SalvageOfADirectory, WithABrokenLinkTheRestIsTaken) {
  damage("uid", [](Tx& tx, Store&, const std::vector<std::uint64_t*>& entries) {
    const auto with_next = std::find_if(entries.begin(), entries.end(),
                                        [](const std::uint64_t* entry) { return *entry != 0; });
    ASSERT_NE(with_next, entries.end());
    tx.store(**with_next, **with_next | std::uint64_t{1} << 40);
  });
  EXPECT_GE(salvaged(1)["entries"], kPeople + 1);
  Pool pool = Pool::open(copy_).value();
  Directory directory(pool);
  EXPECT_EQ(directory.verify(), std::vector<std::string>());
  EXPECT_GE(people(directory, kPeopleAre), kPeople - 1);
}

TEST_F(SalvageOfADirectory, WhatFindsEntriesIsMadeAnew) {
  damage("uid", [](Tx& tx, Store& store, const auto&) {
    tx.store(*reinterpret_cast<std::uint64_t*>(&store.names), 8);
    tx.store(*reinterpret_cast<std::uint64_t*>(&store.children), 16);
    tx.store(*reinterpret_cast<std::uint64_t*>(&store.equality), 24);
  });
  EXPECT_EQ(run({"check", pool_}).code, 1);
  EXPECT_EQ(salvaged(1)["entries"], kPeople + 2);
  Pool pool = Pool::open(copy_).value();
  Directory directory(pool);
  EXPECT_EQ(directory.verify(), std::vector<std::string>());
  EXPECT_EQ(people(directory, kPeopleAre), kPeople);
}

TEST_F(SalvageOfADirectory, EntriesWhoseSuperiorIsLostStandBelowAnother) {
  damage("organizationalUnit", [](Tx& tx, Store&, const std::vector<std::uint64_t*>& entries) {
    tx.store(entries[0][1], entries[0][1] + (std::uint64_t{1000} << 32));
  });
  const Json made = salvaged(1);
  EXPECT_NE(made["what_was_left_out"].dump().find("below cn=salvaged-2"), std::string::npos)
      << made.dump();
  Pool pool = Pool::open(copy_).value();
  Directory directory(pool);
  EXPECT_EQ(directory.verify(), std::vector<std::string>());
  EXPECT_GE(people(directory, "cn=salvaged-2"), kPeople - 1);
}

TEST_F(SalvageOfADirectory, AnEntryAboveItselfIsPutElsewhere) {
  damage("organizationalUnit", [](Tx& tx, Store&, const std::vector<std::uint64_t*>& entries) {
    tx.store(entries[0][3], 3);  // the superior: one of the people
  });
  const Json made = salvaged(1);
  EXPECT_NE(made["what_was_left_out"].dump().find("stands above itself"), std::string::npos)
      << made.dump();
  Pool pool = Pool::open(copy_).value();
  Directory directory(pool);
  EXPECT_EQ(directory.verify(), std::vector<std::string>());
  EXPECT_EQ(directory.size(), kPeople + 3u);
}

}  // namespace
}  // namespace perdure::ldap
