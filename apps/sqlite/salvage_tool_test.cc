// SPDX-License-Identifier: BSD-3-Clause
// A database whose table of chunks is damaged: `perdure check` tells, `perdure salvage` brings back the rest, where it was.
#include <filesystem>
#include <string>

#include "apps/sqlite/layout.h"
#include "apps/sqlite/sql_fixture.h"
#include "perdure/pool.h"
#include "tests/cli_fixture.h"

namespace perdure::sqlite::testing {
namespace {

class SalvageOfADatabase : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    copy_ = path("copy.db");
    Sql sql(uri(pool_, "capacity=64M"));
    sql.must(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        "INSERT INTO t SELECT i, 'row number ' || i FROM n");
    ASSERT_EQ(sql.ask(kSum), "20000|200010000");
  }
  static constexpr char kSum[] = "SELECT count(*), sum(id) FROM t";

  /// As a flipped bit of a link would.
  void damage_link(std::uint64_t chunk) const {
    Pool pool = Pool::open(pool_).value();
    auto* const file = pool.root<StoredFile>(kRoot);
    pool.atomically([&](Tx& tx) {
      ASSERT_LT(chunk + 1, file->chunks.size(tx));
      const auto link = file->chunks.at(tx, chunk);
      file->chunks.set(tx, chunk, pptr<std::uint64_t>{link.offset ^ (std::uint64_t{1} << 20)});
    });
  }
  std::string copy_;
};

TEST_F(SalvageOfADatabase, OfASoundOneAllIsTaken) {
  EXPECT_EQ(run({"check", pool_}).code, 0);
  EXPECT_EQ(json_of({"salvage", pool_, copy_, "--json"})["left_out"], 0);
  EXPECT_EQ(run({"check", copy_}).code, 0);
  EXPECT_EQ(Sql(uri(copy_)).ask(std::string(kSum) + "; PRAGMA integrity_check"),
            "20000|200010000;ok");
}

TEST_F(SalvageOfADatabase, WithABrokenLinkTheRestIsTaken) {
  damage_link(4);
  EXPECT_EQ(run({"check", pool_}).code, 1);
  EXPECT_EQ(run({"compact", pool_, copy_}).code, 3);
  const Json made = json_of({"salvage", pool_, copy_, "--json"}, 1);
  EXPECT_NE(made["what_was_left_out"].dump().find("database: bytes 262144 to 327680"),
            std::string::npos)
      << made.dump();
  EXPECT_EQ(run({"check", copy_}).code, 0) << "as a pool it is whole";
  Sql sql(uri(copy_));
  EXPECT_NE(sql.ask("PRAGMA integrity_check"), "ok") << "SQLite sees what is missing";
  EXPECT_EQ(sql.ask("SELECT v FROM t WHERE id = 5"), "row number 5");
  EXPECT_EQ(sql.ask("SELECT v FROM t WHERE id = 19999"), "row number 19999");
}

class SalvageOfAPlainDatabase : public SalvageOfADatabase {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    copy_ = path("copy.db");
    whole_ = path("whole.db");
    const std::string live = path("live.db");
    Sql sql(plain_uri(live, "capacity=64M"));
    sql.must(
        "PRAGMA cache_size = 10; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        "INSERT INTO t SELECT i, 'row number ' || i FROM n");
    std::filesystem::copy_file(live, whole_);
    // In the middle of a transaction whose pages are in the database already, and its journal before them.
    sql.must("BEGIN; UPDATE t SET v = 'nothing'");
    // As of one moment: while the log is emptied in the background, a copy would be of several.
    run({"backup", live, pool_});
  }
  static constexpr char kRows[] =
      "SELECT count(*) FROM t WHERE v = 'row number ' || id; PRAGMA integrity_check";
  std::string whole_;
};

TEST_F(SalvageOfAPlainDatabase, OfASoundOneAllIsTakenAlsoItsJournal) {
  EXPECT_EQ(json_of({"salvage", whole_, copy_, "--json"})["left_out"], 0);
  EXPECT_EQ(run({"check", copy_}).code, 0);
  EXPECT_EQ(Sql(plain_uri(copy_)).ask(kRows), "20000;ok");
  std::filesystem::remove(copy_);
  EXPECT_EQ(json_of({"salvage", pool_, copy_, "--json"})["left_out"], 0);
  std::filesystem::copy_file(copy_, path("again.db"));
  {
    Pool pool = Pool::open(copy_).value();
    auto* const store = pool.root<PlainStore>(kPlainRoot);
    pool.atomically([&](Tx& tx) { tx.store(store->journal_exists, std::uint64_t{0}); });
  }
  EXPECT_NE(Sql(plain_uri(copy_)).ask(kRows), "20000;ok") << "a test without a journal is none";
  EXPECT_EQ(Sql(plain_uri(path("again.db"))).ask(kRows), "20000;ok") << "it was taken back";
}

TEST_F(SalvageOfAPlainDatabase, EachDamagedLinkIsToldAndTheRestIsTaken) {
  const std::string whole = read(pool_);
  std::uint64_t chunks[2] = {};
  for (const int part : {0, 1}) {
    for (std::uint64_t chunk = 0; chunk == 0 || chunk < chunks[part]; ++chunk) {
      write(pool_, whole);
      std::filesystem::remove(copy_);
      {
        Pool pool = Pool::open(pool_).value();
        auto* const store = pool.root<PlainStore>(kPlainRoot);
        auto& file = part == 0 ? store->database : store->journal;
        pool.atomically([&](Tx& tx) {
          chunks[part] = file.chunks.size(tx);
          const auto link = file.chunks.at(tx, chunk);
          file.chunks.set(tx, chunk,
                          pptr<std::uint64_t>{link.offset ^ (std::uint64_t{1} << chunk % 30)});
        });
      }
      const Json made = json_of({"salvage", pool_, copy_, "--json"}, 1);
      const std::string lost = made["what_was_left_out"].dump();
      EXPECT_NE(lost.find("bytes " + std::to_string(chunk * kChunkBytes) + " to"),
                std::string::npos)
          << lost;
      EXPECT_EQ(lost.find("the journal") != std::string::npos, part == 1) << lost;
      EXPECT_EQ(run({"check", copy_}).code, 0) << "as a pool it is whole";
    }
    EXPECT_GT(chunks[part], 4u) << part;
  }
}

TEST_F(SalvageOfAPlainDatabase, WhatItSaysOfItsJournalMustAgree) {
  {
    Pool pool = Pool::open(pool_).value();
    auto* const store = pool.root<PlainStore>(kPlainRoot);
    pool.atomically([&](Tx& tx) { tx.store(store->journal_exists, std::uint64_t{0}); });
  }
  const Json made = json_of({"salvage", pool_, copy_, "--json"}, 1);
  EXPECT_NE(made["what_was_left_out"].dump().find("of whether it exists"), std::string::npos);
}

}  // namespace
}  // namespace perdure::sqlite::testing
