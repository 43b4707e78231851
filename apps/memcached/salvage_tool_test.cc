// SPDX-License-Identifier: BSD-3-Clause
// A cache with a damaged link: `perdure salvage` makes a cache of the items that can be proved.
#include <optional>
#include <string>

#include "apps/memcached/item_table.h"
#include "apps/memcached/session_test_world.h"
#include "tests/cli_fixture.h"

namespace perdure::memcached {
namespace {

constexpr int kItems = 400;

class Served {
 public:
  explicit Served(const std::string& path)
      : clock_(World::kStart),
        pool_(Pool::open_or_create(path, options()).value()),
        syncer_(pool_, true),
        store_(pool_, syncer_, clock_, {}) {
    service_.item_size_max = 1 << 20;
    service_.clock = &clock_;
    service_.store = &store_;
    session_.emplace(service_, counters_);
  }
  std::string say(std::string_view request) { return World::say(*session_, request); }

 private:
  static PoolOptions options() {
    PoolOptions options;
    options.capacity_bytes = 64 << 20;
    return options;
  }
  Clock clock_;
  Pool pool_;
  Syncer syncer_;
  PoolStore store_;
  Service service_;
  Counters counters_;
  std::optional<Session> session_;
};

class SalvageOfACache : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    copy_ = path("copy.pool");
    Served served(pool_);
    for (int i = 0; i < kItems; ++i) {
      ASSERT_EQ(served.say("set " + key(i) + " " + std::to_string(i) + " 0 " + std::to_string(i) +
                           "\r\n" + value(i) + "\r\n"),
                "STORED\r\n");
    }
    before_ = answers(served);
  }
  static std::string key(int i) { return "clé-" + std::to_string(i); }
  static std::string value(int i) {
    return std::string(static_cast<std::size_t>(i), char('a' + i % 26));
  }
  static std::vector<std::string> answers(Served& served) {
    std::vector<std::string> answers;
    for (int i = 0; i < kItems; ++i) answers.push_back(served.say("gets " + key(i) + "\r\n"));
    return answers;
  }
  /// Calls `body(tx, table, cache)` on the damaged one.
  template <class Body>
  void damage(Body body) {
    Pool pool = Pool::open(pool_).value();
    auto* const cache = pool.find_root<Cache>(kRoot);
    pool.atomically([&](Tx& tx) { body(tx, *cache); });
  }

  std::string copy_;
  std::vector<std::string> before_;
};

TEST_F(SalvageOfACache, OfASoundOneAllIsTaken) {
  const Json made = json_of({"salvage", pool_, copy_, "--json"});
  EXPECT_EQ(made["entries"], kItems);
  EXPECT_EQ(made["left_out"], 0) << made.dump();
  EXPECT_EQ(run({"check", copy_}).code, 0);
  Served served(copy_);
  EXPECT_EQ(answers(served), before_) << "with flags and cas uniques";
  EXPECT_EQ(served.say("set new 0 0 1\r\nx\r\n"), "STORED\r\n");
  EXPECT_EQ(before_[0].find("VALUE"), 0u);
}

TEST_F(SalvageOfACache, WithABrokenLinkTheRestIsTaken) {
  damage([](Tx& tx, Cache& cache) {
    ItemTable<Tx> table(tx, cache);
    bool done = false;
    for (std::uint64_t bucket = 0; bucket < table.open_buckets() && !done; ++bucket) {
      table.for_each_in(bucket, [&](pptr<Item>*, Item* item, const Item& found) {
        if (!done && found.next) {
          tx.store(item->next, pptr<Item>{found.next.offset | std::uint64_t{1} << 40});
          done = true;
        }
        return done;
      });
    }
    ASSERT_TRUE(done);
  });
  EXPECT_EQ(run({"check", pool_}).code, 1);
  const Json made = json_of({"salvage", pool_, copy_, "--json"}, 1);
  EXPECT_GE(made["entries"], kItems - 1);
  EXPECT_EQ(run({"check", copy_}).code, 0);
  Served served(copy_);
  const std::vector<std::string> after = answers(served);
  int differ = 0;
  for (int i = 0; i < kItems; ++i)
    differ += after[static_cast<std::size_t>(i)] != before_[static_cast<std::size_t>(i)] ? 1 : 0;
  EXPECT_LE(differ, 1);
}

TEST_F(SalvageOfACache, NothingOfALostTableIsMadeUp) {
  damage([](Tx& tx, Cache& cache) { tx.store(cache.segments[0], pptr<pptr<Item>>{}); });
  const Json made = json_of({"salvage", pool_, copy_, "--json"}, 1);
  EXPECT_EQ(run({"check", copy_}).code, 0);
  Served served(copy_);
  const std::vector<std::string> after = answers(served);
  int kept = 0;
  for (int i = 0; i < kItems; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (after[at] == "END\r\n") continue;
    EXPECT_EQ(after[at], before_[at]);
    ++kept;
  }
  EXPECT_EQ(made["entries"], kept);
}

}  // namespace
}  // namespace perdure::memcached
