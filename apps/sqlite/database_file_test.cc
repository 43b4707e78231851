// SPDX-License-Identifier: BSD-3-Clause
// The database in the pool, without SQLite: against a model, and under the crash explorer.
#include "apps/sqlite/database_file.h"

#include <cstdio>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "apps/sqlite/places.h"
#include "papers/pool.h"
#include "papers/scenarios.h"
#include "perdure/api/pool_core.h"
#include "sim/crash/explorer.h"
#include "tests/small_pool.h"

namespace perdure::sqlite {
namespace {

using perdure::testing::code_thrown_by;
using perdure::testing::kSanitized;
using perdure::testing::TempDir;
using testing::kOnDisk;
using testing::kOnMemory;
using testing::place_name;

constexpr DatabaseFile::Shape kSmall = {
    .chunk_bytes = 4096, .block_bytes = 512, .fresh_bytes = 2048};

StoredFile* root_of(Pool& pool) { return pool.root<StoredFile>(kRoot); }

std::string content_of(const DatabaseFile& file) {
  std::string content(file.bytes() + 100, '?');
  content.resize(file.read(content.data(), content.size(), 0));
  return content;
}

void put(DatabaseFile& file, const std::string& bytes, std::uint64_t at) {
  file.write(bytes.data(), bytes.size(), at);
}

struct DatabaseFileTest : ::testing::TestWithParam<const char*> {
  Pool open() { return Pool::open_or_create(dir / "pool").value(); }
  TempDir dir{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(, DatabaseFileTest, ::testing::Values(kOnMemory, kOnDisk), place_name);

TEST_P(DatabaseFileTest, HoldsWhatAnOrdinaryFileWould) {
  std::mt19937 random(7);
  std::string now;        // with what is pending
  std::string committed;  // after the last commit
  for (int opening = 0; opening < 6; ++opening) {
    Pool pool = open();
    DatabaseFile file(pool, root_of(pool), kSmall);
    now = committed;
    ASSERT_EQ(content_of(file), committed) << "what was pending is gone";
    for (int step = 0; step < 400; ++step) {
      SCOPED_TRACE(std::to_string(opening) + ", step " + std::to_string(step));
      const std::uint64_t at = random() % (now.size() + 700);
      switch (random() % 10) {
        case 0:
          file.commit(random() % 2 == 0 ? Durability::kStrict : Durability::kRelaxed);
          committed = now;
          break;
        case 1:
          if (random() % 2 == 0) {
            file.discard();
            now = committed;
          }
          break;
        case 2:
          file.truncate(at);
          now.resize(at);
          break;
        default: {
          if (at > 60000) break;
          const std::string bytes(random() % 1500, static_cast<char>('a' + random() % 26));
          put(file, bytes, at);
          if (bytes.empty() && at > now.size()) now.resize(at);
          if (at + bytes.size() > now.size()) now.resize(at + bytes.size());
          now.replace(at, bytes.size(), bytes);
        }
      }
      ASSERT_EQ(content_of(file), now);
      ASSERT_EQ(file.bytes(), now.size());
      ASSERT_EQ(file.pending(), file.pending() || now != committed);
    }
    pool.sync();
    pool.read_only([&](auto& tx) {
      const auto* stored = pool.find_root<StoredFile>(kRoot);
      EXPECT_EQ(DatabaseFile::audit(tx, *stored, [](auto) { return kChunkBytes; }), std::nullopt);
    });
  }
}

TEST_P(DatabaseFileTest, ACommitWritesWhatDiffersOnly) {
  papers::LabOptions options;
  options.count = true;
  papers::LabPool pool = papers::open_or_create(dir / "pool", options).value();
  DatabaseFile file(pool, root_of(pool));
  put(file, std::string(100 * 4096, 'x'), 0);
  file.commit(Durability::kStrict);
  const auto before = pool.counts();
  for (std::uint64_t at = 0; at < 100; ++at) put(file, std::string(4096, 'x'), at * 4096);
  EXPECT_TRUE(file.pending());
  file.commit(Durability::kStrict);
  EXPECT_EQ(pool.counts().stores, before.stores) << "nothing differs, nothing is written";
  put(file, "12345678", 50 * 4096 + 8);
  file.commit(Durability::kStrict);
  EXPECT_LE(pool.counts().stores, before.stores + 8) << "one word differs, and has a record";
  EXPECT_FALSE(file.pending());
}

TEST_P(DatabaseFileTest, WithoutSpaceNothingChangesAndAllStaysPending) {
  papers::LabOptions options;
  options.capacity_bytes = 32 << 20;
  options.log_slots = 4;
  papers::LabPool pool = papers::open_or_create(dir / "pool", options).value();
  DatabaseFile file(pool, root_of(pool));
  put(file, std::string(4096, 'x'), 0);
  file.commit(Durability::kStrict);
  put(file, std::string(4096, 'y'), 0);
  file.truncate(64 << 20);
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(code_thrown_by([&] { file.commit(Durability::kStrict); }), "no-space");
  EXPECT_EQ(file.bytes(), 64u << 20);
  EXPECT_EQ(DatabaseFile(pool, root_of(pool)).bytes(), 4096u);
  file.truncate(8192);
  file.commit(Durability::kStrict);
  EXPECT_EQ(content_of(DatabaseFile(pool, root_of(pool))),
            std::string(4096, 'y') + std::string(4096, '\0'));
  pool.read_only([&](auto& tx) {
    EXPECT_EQ(pool.find_root<StoredFile>(kRoot)->chunks.size(tx), 1u)
        << "what was too much is free";
  });
}

// ---- power cuts ----------------------------------------------------------------------------------

/// What the file holds after a step: some of it rewritten, then longer, then shorter.
std::string content_after(std::uint64_t step) {
  if (step == 0) return {};
  static constexpr std::uint64_t kBlocks[] = {3, 12, 12,
                                              1, 20, 9};  // beyond a chunk, and beyond fresh_bytes
  std::string content;
  for (std::uint64_t block = 0; block < kBlocks[(step - 1) % std::size(kBlocks)]; ++block) {
    // Every third block changes in each step, of the others a word.
    std::string bytes(512, static_cast<char>('a' + (block % 3 == 0 ? step % 26 : block % 26)));
    bytes[block * 8] = static_cast<char>('0' + step % 10);
    content += bytes;
  }
  return content;
}

crash::Scenario growth(std::string name) {
  crash::Scenario s;
  s.name = std::move(name);
  s.claim = "A database's size, chunks and contents change together, at each sync point";
  s.steps = 6;
  s.geometry.capacity_bytes = 1 << 20;
  s.step = [](Pool& pool, std::uint64_t step) {
    DatabaseFile file(pool, root_of(pool), kSmall);
    const std::string content = content_after(step);
    for (std::uint64_t at = 0; at < content.size(); at += 512)
      put(file, content.substr(at, 512), at);
    file.truncate(content.size());
    file.commit(Durability::kStrict);
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](auto& tx) -> std::optional<std::string> {
      const auto* stored = pool.find_root<StoredFile>(kRoot);
      const std::string expected = content_after(step);
      if (stored == nullptr) {
        if (expected.empty()) return std::nullopt;
        return "there is no file";
      }
      if (auto wrong = DatabaseFile::audit(tx, *stored, [](auto) { return kChunkBytes; }))
        return wrong;
      std::string content(tx.load(stored->bytes), '?');
      if (content.size() != expected.size())
        return "it has " + std::to_string(content.size()) + " bytes";
      for (std::size_t at = 0; at < content.size(); at += 512) {
        const pptr<std::uint64_t> chunk = stored->chunks.at(tx, at / kSmall.chunk_bytes);
        tx.read(content.data() + at,
                reinterpret_cast<const char*>(tx.at(chunk)) + at % kSmall.chunk_bytes, 512);
      }
      if (content != expected) return "it is not that of step " + std::to_string(step);
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const crash::Scenario::Visit& visit) {
    pool.read_only([&](auto& tx) {
      const auto* stored = pool.find_root<StoredFile>(kRoot);
      if (stored == nullptr) return;
      const Heap& heap = core_of(pool).heap();
      const auto wrong = DatabaseFile::audit(tx, *stored, [&](Offset object) {
        heap.check_live(object);  // throws before a dangling link is followed
        visit(tx.at(pptr<std::byte>{object}));
      });
      if (wrong) throw Exception(Code::kCorrupt, *wrong);
    });
  };
  return s;
}

struct DatabaseFileUnderPowerCuts : ::testing::TestWithParam<EngineKind> {};

TEST_P(DatabaseFileUnderPowerCuts, ChangesByWholeCommits) {
  crash::Scenario scenario = growth("sqlite-growth");
  papers::LabOptions lab;
  lab.tables.limits = {1024, 16, 64};
  scenario.engine =
      papers::with_engine(GetParam(), [&]<class E>(E) { return papers::explored<E>(lab); });
  if (papers::is_softwrap(GetParam())) scenario.truncation = Truncation::kWhenFull;
  if (kSanitized) scenario.steps = scenario.resume_steps = 1;
  crash::Options options;
  options.full_limit = kSanitized ? 2 : 32;
  if (kSanitized) options.most_points = 60;
  options.samples = kSanitized ? 1 : 2;
  options.nested_full_limit = 2;
  options.nested_samples = 1;
  options.nest_every = 4096;
  options.kill_every = 2048;
  const crash::Report report = crash::explore(scenario, options);
  for (const auto& violation : report.violations) ADD_FAILURE() << violation.what;
  EXPECT_GT(report.images, kSanitized ? 50u : 1000u);
  std::printf("%lu crash images, %lu of cut recoveries, in %.1f s\n", report.images,
              report.nested_images, report.seconds);
}

INSTANTIATE_TEST_SUITE_P(, DatabaseFileUnderPowerCuts,
                         ::testing::Values(EngineKind::kMnemosyne, EngineKind::kBlurred,
                                           EngineKind::kSoftwrapTables),
                         [](const auto& engine) {
                           return perdure::testing::name_of(engine.param);
                         });

/// A canary: the size is set by a transaction of its own.
TEST(DatabaseFileUnderPowerCutsCanary, AGapBetweenContentAndSizeIsNoticed) {
  crash::Scenario scenario = growth("sqlite-gap");
  scenario.step = [](Pool& pool, std::uint64_t step) {
    DatabaseFile file(pool, root_of(pool), kSmall);
    const std::string content = content_after(step);
    file.truncate(content.size());
    file.commit(Durability::kStrict);
    put(file, content, 0);
    file.commit(Durability::kStrict);
  };
  crash::Options options;
  options.full_limit = 64;
  options.samples = 4;
  EXPECT_FALSE(crash::explore(scenario, options).violations.empty());
}

}  // namespace
}  // namespace perdure::sqlite
