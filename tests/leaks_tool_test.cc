// SPDX-License-Identifier: BSD-3-Clause
// Leaks from the outside: what `perdure check` finds of them, and what `perdure compact` leaves out.
#include <sys/mman.h>

#include <array>

#include "perdure/address_space.h"
#include "perdure/append_log.h"
#include "tests/cli_fixture.h"

namespace perdure {
namespace {

using LeaksTest = CliTest;

/// A root of a type that the tool does not know.
struct Mine {
  pptr<Mine> first;
  std::array<std::uint64_t, 3> numbers;
};

struct Chain {
  Chain* next;
  std::uint64_t value;
};

TEST_F(LeaksTest, CheckListsLeakedObjects) {
  create();
  fill(3);
  {
    Pool pool = Pool::open(pool_).value();
    pool.atomically([&](Tx& tx) { static_cast<void>(tx.allocate(100)); });
  }
  const Json check = json_of({"check", pool_, "--json"}, 1);
  EXPECT_EQ(check["sound"], false);
  EXPECT_EQ(check["leaked_objects"], 1);
  ASSERT_EQ(check["findings"].size(), 1u);
  EXPECT_GT(check["findings"][0]["at_byte"], 0);
  EXPECT_NE(check["findings"][0]["what"].get<std::string>().find("112 bytes"), std::string::npos);
}

TEST_F(LeaksTest, CheckLooksForLinksInRootsOfUnknownTypes) {
  create();
  {
    Pool pool = Pool::open(pool_).value();
    auto* mine = pool.root<Mine>("mine");
    pool.atomically([&](Tx& tx) {
      auto* first = static_cast<Mine*>(tx.allocate(sizeof(Mine)));
      auto* second = static_cast<Mine*>(tx.allocate(sizeof(Mine)));
      tx.store(mine->first, tx.link_to(first));
      tx.store(first->first, tx.link_to(second));
      tx.store(second->first, pptr<Mine>{});
    });
  }
  Json check = json_of({"check", pool_, "--json"});
  EXPECT_EQ(check["opaque_roots"], Json({"root 'mine'"}));
  EXPECT_EQ(check["leaked_objects"], 0);
  {
    Pool pool = Pool::open(pool_).value();
    auto* mine = pool.root<Mine>("mine");
    pool.atomically([&](Tx& tx) {
      tx.store(tx.at(tx.load(mine->first))->first, pptr<Mine>{});  // loses the second
    });
  }
  check = json_of({"check", pool_, "--json"}, 1);
  EXPECT_EQ(check["leaked_objects"], 1);
  EXPECT_NE(check["findings"][0]["remedy"].get<std::string>().find("compact"), std::string::npos);
}

TEST_F(LeaksTest, CompactLeavesOutWhatNobodyCanFind) {
  create();
  fill(200);
  const std::string before = run({"kv", "scan", pool_}).out;
  {
    Pool pool = Pool::open(pool_).value();
    // A log's records are packed: what only they refer to is found all the same.
    Log log = Log::open_or_create(pool, "log", 4096).value();
    const Offset only_there = pool.atomically(
        [&](Tx& tx) { return tx.link_to(static_cast<Mine*>(tx.allocate(sizeof(Mine)))).offset; });
    ASSERT_TRUE(log.append(&only_there, sizeof(only_there)));
    log.flush();
    pool.atomically([&](Tx& tx) {
      for (int i = 0; i < 700; ++i) static_cast<void>(tx.allocate(4000));
    });
  }
  const std::string copy = pool_ + ".fresh";
  const Json done = json_of({"compact", pool_, copy, "--json"});
  EXPECT_EQ(done["objects_left_out"], 700);
  EXPECT_LT(done["file_after_bytes"], done["file_before_bytes"]);
  EXPECT_EQ(run({"kv", "scan", copy}).out, before);
  EXPECT_EQ(json_of({"check", copy, "--json"})["leaked_objects"], 0);
  Pool pool = Pool::open(copy).value();
  EXPECT_EQ(pool.recovery().records_replayed, 0u);
  pool.atomically([&](Tx& tx) { static_cast<void>(tx.allocate(3 << 20)); });  // it grows again
}

TEST_F(LeaksTest, CompactNeverTouchesWhatIsThere) {
  create();
  fill(3);
  const ToolRun busy = run({"compact", pool_, pool_});
  EXPECT_EQ(busy.code, 3);
  EXPECT_NE(busy.err.find("exists already"), std::string::npos) << busy.err;
  EXPECT_EQ(run({"compact", pool_ + ".none", pool_ + ".copy"}).code, 3);
  EXPECT_FALSE(std::filesystem::exists(pool_ + ".copy"));
  overwrite(pool_, 200 << 10, std::string(64, 'x'));
  std::filesystem::resize_file(pool_, std::filesystem::file_size(pool_) - 4096);
  EXPECT_EQ(run({"compact", pool_, pool_ + ".copy"}).code, 3) << "damaged";
  EXPECT_FALSE(std::filesystem::exists(pool_ + ".copy"));
}

/// A chain of objects in the heap, half of them lost; a region, and a second one that nobody knows any more.
TEST_F(LeaksTest, AddressSpacesAreCheckedAndCompacted) {
  const std::string space = pool_ + ".space";
  constexpr std::uint64_t kPages = 8;
  const auto open = [](const std::string& at) {
    AddressSpace::Options options;
    options.range_bytes = std::uint64_t{1} << 30;
    options.pool.ring_bytes = 64 << 10;
    options.pool.log_slots = 4;
    return AddressSpace::open_or_create(at, options).value();
  };
  {
    const auto opened = open(space);
    Pool& pool = opened->pool();
    auto* root = reinterpret_cast<Chain**>(pool.root<std::uint64_t>("chain"));
    auto* regions = reinterpret_cast<void**>(pool.root<std::array<std::uint64_t, 2>>("regions"));
    opened->map(&regions[0], kPages * kPageBytes, PROT_READ | PROT_WRITE).value();
    opened->map(&regions[1], kPages * kPageBytes, PROT_READ | PROT_WRITE).value();
    pool.atomically([&](Tx& tx) {
      Chain* last = nullptr;
      for (std::uint64_t i = 0; i < 100; ++i) {
        auto* fresh = static_cast<Chain*>(tx.allocate(sizeof(Chain)));
        tx.write_exact(&fresh->next, &last, sizeof(last));
        tx.store(fresh->value, i);
        if (i % 2 == 0) last = fresh;  // the others are lost
      }
      tx.write_exact(root, &last, sizeof(last));
      auto* words = static_cast<std::uint64_t*>(regions[0]);
      tx.store(words[5], std::uint64_t{55});
      void* const nowhere = nullptr;
      tx.write_exact(&regions[1], &nowhere, sizeof(nowhere));
    });
    opened->unmap(static_cast<std::byte*>(regions[0]) + 2 * kPageBytes, kPageBytes).value();
  }
  Json check = json_of({"check", space, "--json"}, 1);
  EXPECT_EQ(check["leaked_objects"], 50);
  EXPECT_EQ(check["regions"], 3) << "two pieces of the first, and the second";
  EXPECT_NE(check.dump().find("2.region: nothing refers to it"), std::string::npos) << check;
  const Json info = json_of({"info", space, "--json"});
  EXPECT_EQ(info["regions"].size(), 3u);

  const std::string copy = space + ".fresh";
  const Json done = json_of({"compact", space, copy, "--json"});
  EXPECT_EQ(done["objects_left_out"], 50);
  EXPECT_EQ(json_of({"check", copy, "--json"}, 1)["leaked_objects"], 0) << "but a lost region";
  const auto opened = open(copy);
  auto* root = reinterpret_cast<Chain**>(opened->pool().root<std::uint64_t>("chain"));
  auto* regions =
      reinterpret_cast<void**>(opened->pool().root<std::array<std::uint64_t, 2>>("regions"));
  std::uint64_t found = 0;
  for (const Chain* at = *root; at != nullptr; at = at->next) found += at->value;
  EXPECT_EQ(found, 49u * 50u);
  EXPECT_EQ(static_cast<std::uint64_t*>(regions[0])[5], 55u);
  EXPECT_EQ(run({"check", pool_ + ".nowhere"}).code, 3);
  ASSERT_TRUE(std::filesystem::create_directory(pool_ + ".empty"));
  EXPECT_EQ(run({"check", pool_ + ".empty"}).code, 3) << "a directory without an address space";
}

}  // namespace
}  // namespace perdure
