// SPDX-License-Identifier: BSD-3-Clause
// A database whose table of chunks is damaged: `perdure check` tells, `perdure salvage` brings back the rest, where it was.
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

TEST_F(SalvageOfADatabase, OfTheVfsPlainNothingIsMadeUp) {
  const std::string plain = path("plain.db");
  {
    Sql(plain_uri(plain)).must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  }
  EXPECT_EQ(run({"check", plain}).code, 0);
  EXPECT_EQ(run({"salvage", plain, copy_}).code, 1);
}

}  // namespace
}  // namespace perdure::sqlite::testing
