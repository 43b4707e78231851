// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::contents_of;
using testing::Image;
using testing::in_child;
using testing::TempDir;

struct Counter {
  std::uint64_t value;
};
struct Other {
  std::uint64_t value;
  std::uint64_t more;
};

papers::LabOptions small_options() {
  papers::LabOptions options;
  options.capacity_bytes = std::uint64_t{16} << 20;
  options.segment_bytes = std::uint64_t{128} << 10;
  options.ring_bytes = 4096;
  options.log_slots = 4;
  options.root_entries = 4;
  options.lock_bits = 10;
  return options;
}

class PoolOnFile : public ::testing::TestWithParam<DomainKind> {
 protected:
  papers::LabOptions options() {
    papers::LabOptions with = small_options();
    with.domain = GetParam();
    return with;
  }
  TempDir dir_;
  std::string path_ = dir_ / "pool";
};
INSTANTIATE_TEST_SUITE_P(Domains, PoolOnFile,
                         ::testing::Values(DomainKind::kAuto, DomainKind::kAdr, DomainKind::kEadr,
                                           DomainKind::kSync, DomainKind::kDram),
                         [](const auto& of) { return std::string(domain_name(of.param)); });

// ---- life of a pool -----------------------------------------------------------------------------

TEST_P(PoolOnFile, DataIsThereAfterReopening) {
  {
    papers::LabPool pool = papers::create(path_, options()).value();
    auto* counter = pool.root<Counter>("counter");
    EXPECT_EQ(counter->value, 0u) << "a new root is zeroed";
    for (int i = 0; i < 1000; ++i)
      pool.atomically([&](Tx& tx) { tx.store(counter->value, tx.load(counter->value) + 1); });
  }
  for (int opening = 0; opening < 3; ++opening) {
    papers::LabPool pool = papers::open(path_, options()).value();
    EXPECT_EQ(pool.recovery().records_replayed, 0u) << "a closed pool has nothing to replay";
    ASSERT_NE(pool.find_root<Counter>("counter"), nullptr);
    EXPECT_EQ(pool.find_root<Counter>("counter")->value, 1000u);
  }
}

TEST_P(PoolOnFile, WhatAChildCommittedBeforeItDiedIsThere) {
  papers::create(path_, options()).value();
  const int status = in_child([&] {
    papers::LabPool pool = papers::open(path_, options()).value();
    auto* counter = pool.root<Counter>("counter");
    for (int i = 0; i < 500; ++i) {
      pool.atomically([&](Tx& tx) { tx.store(counter->value, tx.load(counter->value) + 1); });
      if (i == 479) pool.checkpoint();  // the background empties no log that is less than half full
    }
    ::_exit(0);  // without closing
    return 1;
  });
  ASSERT_EQ(status, 0);
  papers::LabPool pool = papers::open(path_, options()).value();
  EXPECT_GT(pool.recovery().records_replayed, 0u);
  EXPECT_EQ(pool.find_root<Counter>("counter")->value, 500u);
}

TEST_P(PoolOnFile, GrowsWithoutMovingAnything) {
  papers::LabPool pool = papers::create(path_, options()).value();
  auto* counter = pool.root<Counter>("counter");
  const auto before = std::filesystem::file_size(path_);
  std::vector<std::uint64_t*> objects;
  for (std::uint64_t i = 0; i < 300; ++i) {
    objects.push_back(pool.atomically([&](Tx& tx) {
      auto* object = static_cast<std::uint64_t*>(tx.allocate(4000));
      tx.store(*object, i);
      return object;
    }));
  }
  EXPECT_GT(std::filesystem::file_size(path_), before + 300 * 4000 - 200000);
  EXPECT_EQ(pool.find_root<Counter>("counter"), counter);
  for (std::uint64_t i = 0; i < objects.size(); ++i) EXPECT_EQ(*objects[i], i);
}

TEST_P(PoolOnFile, SaysWhatItGuarantees) {
  papers::LabPool pool = papers::create(path_, options()).value();
  EXPECT_NE(pool.domain(), DomainKind::kAuto);
  EXPECT_FALSE(pool.guarantee().empty());
  EXPECT_TRUE(GetParam() == DomainKind::kAuto || pool.domain() == GetParam());
}

TEST_P(PoolOnFile, CheckpointLeavesNothingToReplay) {
  const int status = in_child([&] {
    papers::LabPool pool = papers::create(path_, options()).value();
    auto* counter = pool.root<Counter>("counter");
    pool.atomically([&](Tx& tx) { tx.store(counter->value, 5); });
    pool.checkpoint();
    ::_exit(0);
    return 1;
  });
  ASSERT_EQ(status, 0);
  papers::LabPool pool = papers::open(path_, options()).value();
  EXPECT_EQ(pool.recovery().records_replayed, 0u);
  EXPECT_EQ(pool.find_root<Counter>("counter")->value, 5u);
}

TEST_P(PoolOnFile, AssigningAnotherPoolClosesTheFirst) {
  papers::LabOptions counted = options();
  counted.count = true;
  papers::LabPool pool = papers::create(path_, counted).value();
  auto* counter = pool.root<Counter>("counter");
  pool.atomically([&](Tx& tx) { tx.store(counter->value, 5); });
  pool = papers::create(dir_ / "second", counted).value();
  EXPECT_EQ(pool.find_root<Counter>("counter"), nullptr);
  EXPECT_EQ(papers::open(path_, options()).value().find_root<Counter>("counter")->value, 5u);
}

TEST_P(PoolOnFile, AnUpdateInsideATransactionOnAnotherPoolIsRefused) {
  papers::LabPool first = papers::create(path_, options()).value();
  papers::LabPool second = papers::create(dir_ / "second", options()).value();
  auto* a = first.root<Counter>("counter");
  auto* b = second.root<Counter>("counter");
  second.atomically([&](Tx& tx) { tx.store(b->value, 7); });
  for (const bool read_only : {false, true}) {
    try {
      const auto body = [&](Tx& tx) {
        EXPECT_EQ(second.read_only([&](Tx& inner) { return inner.load(b->value); }), 7u);
        if (!read_only) tx.store(a->value, 1);
        EXPECT_EQ(first.read_only([&](Tx& inner) { return inner.load(a->value); }),
                  read_only ? 0u : 1u);
        second.atomically([&](Tx& inner) { inner.store(b->value, 2); });
      };
      read_only ? first.read_only(body) : first.atomically(body);
      ADD_FAILURE() << "two pools in one transaction";
    } catch (const Exception& refused) {
      EXPECT_EQ(refused.code(), Code::kMisuse);
      EXPECT_NE(std::string(refused.what()).find("another pool"), std::string::npos);
    }
  }
  EXPECT_EQ(a->value, 0u);
  EXPECT_EQ(b->value, 7u);
  second.atomically([&](Tx& tx) { tx.store(b->value, 2); });
  first.atomically([&](Tx& tx) { tx.store(a->value, 1); });
  EXPECT_EQ(a->value, 1u);
  EXPECT_EQ(b->value, 2u);
}

// ---- files that nobody changes ------------------------------------------------------------------

TEST(PoolFile, OpenAndCloseWriteNothingUnlessSomethingChanges) {
  TempDir dir;
  const std::string path = dir / "pool";
  ExpertOptions options;
  options.capacity_bytes = std::uint64_t{32} << 20;
  options.domain = DomainKind::kSync;
  const auto add = [](Pool& pool) {
    auto* counter = pool.root<Counter>("counter");
    pool.atomically([&](Tx& tx) { tx.store(counter->value, tx.load(counter->value) + 1); });
    return counter->value;
  };
  const auto written_at = [&] {
    struct stat now{};
    EXPECT_EQ(::stat(path.c_str(), &now), 0);
    return std::pair(now.st_mtim.tv_sec, now.st_mtim.tv_nsec);
  };
  {
    Pool pool = Pool::create(path, options).value();
    EXPECT_EQ(add(pool), 1u);
  }
  const auto before = written_at();
  const std::string bytes = contents_of(path);
  for (int i = 0; i < 3; ++i) {
    Pool pool = Pool::open(path, options).value();
    EXPECT_TRUE(pool.recovery().unchanged);
    const auto* counter = pool.find_root<Counter>("counter");
    ASSERT_NE(counter, nullptr);
    EXPECT_EQ(pool.read_only([&](Tx& tx) { return tx.load(counter->value); }), 1u);
  }
  EXPECT_EQ(written_at(), before);
  EXPECT_TRUE(contents_of(path) == bytes);

  // As a process that is killed leaves it: what is in caches only is made durable again.
  const std::string killed = dir / "killed";
  {
    Pool pool = Pool::open(path, options).value();
    EXPECT_EQ(add(pool), 2u);
    std::filesystem::copy_file(path, killed);
  }
  {
    Pool pool = Pool::open(killed, options).value();
    EXPECT_FALSE(pool.recovery().unchanged);
    EXPECT_EQ(pool.recovery().records_replayed, 1u);
    EXPECT_EQ(add(pool), 3u);
  }
  EXPECT_TRUE(Pool::open(killed, options).value().recovery().unchanged);
  EXPECT_TRUE(Pool::open(path, options).value().recovery().unchanged);
}

// ---- files and errors ---------------------------------------------------------------------------

TEST(PoolFile, CreateNeverOverwrites) {
  TempDir dir;
  const std::string path = dir / "pool";
  std::ofstream(path) << "precious";
  EXPECT_EQ(papers::create(path, small_options()).error().code, Code::kExists);
  EXPECT_EQ(contents_of(path), "precious");
}

TEST(PoolFile, OpenOrCreateDoesEither) {
  TempDir dir;
  const std::string path = dir / "pool";
  EXPECT_EQ(papers::open(path, small_options()).error().code, Code::kNotFound);
  papers::open_or_create(path, small_options()).value().root<Counter>("counter");
  EXPECT_NE(papers::open_or_create(path, small_options()).value().find_root<Counter>("counter"),
            nullptr);
  std::ofstream(dir / "foreign") << "precious, and longer than a superblock: "
                                 << std::string(200, 'x');
  EXPECT_EQ(papers::open_or_create(dir / "foreign", small_options()).error().code, Code::kForeign);
}

TEST(PoolFile, BadOptionsAreRefusedAsErrors) {
  TempDir dir;
  const auto refused = [&](auto change) {
    papers::LabOptions options = small_options();
    change(options);
    auto created = papers::create(dir / "pool", options);
    std::string code = created.ok() ? "created" : std::string(code_name(created.error().code));
    EXPECT_EQ(std::filesystem::exists(dir / "pool"), false) << code;
    std::filesystem::remove(dir / "pool");
    return code;
  };
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.segment_bytes = 100000; }), "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.segment_bytes = 0; }), "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.segment_bytes = std::uint64_t{1} << 40; }),
            "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.capacity_bytes = 0; }), "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.capacity_bytes = ~std::uint64_t{0}; }),
            "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.ring_bytes = 100; }), "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.log_slots = 0; }), "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.log_slots = 1000000; }), "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.root_entries = 0; }), "invalid");
  EXPECT_EQ(refused([](papers::LabOptions& o) { o.latency = LatencyModel{}; }), "invalid");
}

TEST(PoolFile, UnlessAskedForALogHasTheSizeThatSuitsTheStorage) {
  TempDir dir;
  const auto ring_kib = [&](DomainKind domain, std::uint64_t capacity_mib) {
    papers::LabOptions options = small_options();
    options.domain = domain;
    options.ring_bytes = 0;
    options.capacity_bytes = capacity_mib << 20;
    options.log_slots = 8;
    std::filesystem::remove(dir / "pool");
    papers::LabPool pool = papers::create(dir / "pool", options).value();
    pool.atomically([&](Tx& tx) { tx.store(*pool.root<std::uint64_t>("word"), 1); });
    return core_of(pool).region().geometry().ring_bytes >> 10;
  };
  EXPECT_EQ(ring_kib(DomainKind::kDram, 1024), 256u);
  EXPECT_EQ(ring_kib(DomainKind::kSync, 1024), 4096u);
  EXPECT_EQ(ring_kib(DomainKind::kSync, 64), 512u);
  EXPECT_EQ(ring_kib(DomainKind::kSync, 4), 256u);
}

TEST(PoolFile, AnAbsurdLockTableIsRefusedAsAnError) {
  TempDir dir;
  papers::create(dir / "pool", small_options()).value();
  for (const unsigned bits : {61u, 64u, 200u}) {
    papers::LabOptions options = small_options();
    options.lock_bits = bits;
    std::optional<Result<papers::LabPool>> opened;
    ASSERT_NO_THROW(opened.emplace(papers::open(dir / "pool", options))) << bits;
    EXPECT_FALSE(opened->ok()) << bits;
  }
}

TEST(PoolFile, AFailedOpenLeavesTheFileAlone) {
  TempDir dir;
  const std::string path = dir / "pool";
  papers::create(path, small_options()).value().root<Counter>("counter");
  std::string bytes = contents_of(path);
  bytes[64] ^= 1;  // the geometry, in both copies of the superblock
  bytes[6144 + 64] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(papers::open(path, small_options()).error().code, Code::kCorrupt);
  EXPECT_EQ(contents_of(path), bytes);
}

TEST(PoolFile, InspectingChangesNothing) {
  TempDir dir;
  const std::string path = dir / "pool";
  in_child([&] {  // dies with records in its log
    papers::LabPool pool = papers::create(path, small_options()).value();
    pool.root<Counter>("counter");
    ::_exit(0);
    return 1;
  });
  const std::string before = contents_of(path);
  {
    Pool inspected = Pool::inspect(path).value();
    EXPECT_GT(inspected.recovery().records_replayed, 0u);
    const auto* counter = inspected.find_root<Counter>("counter");
    ASSERT_NE(counter, nullptr);
    inspected.atomically([&](Tx& tx) { tx.store(const_cast<Counter*>(counter)->value, 7); });
    EXPECT_EQ(counter->value, 7u);
    EXPECT_TRUE(Pool::inspect(path).ok()) << "two may look at the same time";
    EXPECT_EQ(papers::open(path, small_options()).error().code, Code::kBusy)
        << "but nobody writes meanwhile";
  }
  EXPECT_EQ(contents_of(path), before);
}

// ---- roots --------------------------------------------------------------------------------------

struct Roots : ::testing::Test {
  Image image = Image::formatted();
  Pool pool = image.pool().value();
};

TEST_F(Roots, NamesHaveOneTo32BytesAndNoZero) {
  EXPECT_EQ(code_thrown_by([&] { pool.root<Counter>(""); }), "invalid");
  EXPECT_EQ(code_thrown_by([&] { pool.root<Counter>(std::string(33, 'x')); }), "invalid");
  EXPECT_EQ(code_thrown_by([&] { pool.root<Counter>(std::string_view("a\0b", 3)); }), "invalid");
  Counter* longest = pool.root<Counter>(std::string(32, 'x'));
  EXPECT_EQ(pool.root<Counter>(std::string(32, 'x')), longest);
  EXPECT_NE(pool.root<Counter>(std::string(31, 'x')), longest);
  EXPECT_EQ(pool.find_root<Counter>("absent"), nullptr);
}

TEST_F(Roots, AnotherTypeIsRefused) {
  pool.root<Counter>("counter");
  EXPECT_EQ(code_thrown_by([&] { pool.root<Other>("counter"); }), "type-mismatch");
  EXPECT_EQ(code_thrown_by([&] { pool.find_root<std::uint64_t>("counter"); }), "type-mismatch");
  EXPECT_EQ(code_thrown_by([&] { pool.root<Counter>("counter"); }), "nothing");
}

TEST_F(Roots, AFullTableSaysSoAndLeaksNothing) {
  for (int i = 0; i < 4; ++i) pool.root<Counter>("counter" + std::to_string(i));
  const Heap::Usage before = core_of(pool).heap().usage();
  EXPECT_EQ(code_thrown_by([&] { pool.root<Counter>("one more"); }), "no-space");
  EXPECT_EQ(core_of(pool).heap().usage().objects, before.objects);
  EXPECT_NE(pool.root<Counter>("counter3"), nullptr);
}

TEST_F(Roots, OnlyTheNamedRootIsRemoved) {
  const std::string name(32, 'x');
  Counter* counter = pool.root<Counter>(name);
  const auto remove = [&](std::string_view what) {
    return pool.atomically([&](Tx& tx) { return core_of(pool).remove_root(tx, what); });
  };
  EXPECT_FALSE(remove("absent"));
  EXPECT_FALSE(remove("")) << "a free entry is not a root";
  EXPECT_FALSE(remove(name + "y")) << "a longer name is another name";
  EXPECT_EQ(pool.find_root<Counter>(name), counter);
  EXPECT_TRUE(remove(name));
  EXPECT_EQ(pool.find_root<Counter>(name), nullptr);
  EXPECT_FALSE(remove(name));
}

TEST_F(Roots, CreationIsPartOfTheCallersTransaction) {
  EXPECT_THROW(pool.atomically([&](Tx&) {
    pool.root<Counter>("counter");
    throw std::runtime_error("user");
  }),
               std::runtime_error);
  EXPECT_EQ(pool.find_root<Counter>("counter"), nullptr);
  EXPECT_EQ(core_of(pool).heap().usage().objects, 0u);
}

TEST_F(Roots, OneNameIsCreatedOnceByManyThreads) {
  Image image_of_many =
      Image::formatted({std::uint64_t{4} << 20, std::uint64_t{128} << 10, 4096, 8, 16});
  Pool many = image_of_many.pool().value();
  for (int round = 0; round < 10; ++round) {
    const std::string name = "root" + std::to_string(round);
    std::vector<Counter*> found(8);
    std::vector<std::thread> threads;
    for (auto& mine : found) threads.emplace_back([&] { mine = many.root<Counter>(name); });
    for (std::thread& thread : threads) thread.join();
    for (const Counter* root : found) EXPECT_EQ(root, found[0]);
  }
  EXPECT_EQ(core_of(many).heap().usage().objects, 10u);
}

// ---- engines and counts -------------------------------------------------------------------------

TEST(PoolEngines, TheBaselinesRunTheSamePrograms) {
  for (const EngineKind engine :
       {EngineKind::kMnemosyne, EngineKind::kBlurred, EngineKind::kAdaptive, EngineKind::kSoftwrap,
        EngineKind::kSoftwrapTables, EngineKind::kBase, EngineKind::kUndo, EngineKind::kNonatomic,
        EngineKind::kVolatile}) {
    SCOPED_TRACE(engine_name(engine));
    Image image = Image::formatted({std::uint64_t{4} << 20, std::uint64_t{128} << 10, 4096, 8, 16});
    Pool pool = image.pool(engine).value();
    auto* counter = pool.root<Counter>("counter");
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          pool.atomically([&](Tx& tx) {
            tx.store(counter->value, tx.load(counter->value) + 1);
            tx.free(tx.allocate(100));
          });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.read_only([&](Tx& tx) { return tx.load(counter->value); }), 8000u);
    EXPECT_THROW(pool.atomically([&](Tx& tx) {
      tx.store(counter->value, 1);
      throw std::runtime_error("user");
    }),
                 std::runtime_error);
    EXPECT_EQ(pool.read_only([&](Tx& tx) { return tx.load(counter->value); }), 8000u);
  }
}

TEST(PoolEngines, CountsAreZeroUnlessAskedFor) {
  TempDir dir;
  papers::LabOptions options = small_options();
  options.domain = DomainKind::kDram;
  {
    papers::LabPool pool = papers::create(dir / "pool", options).value();
    pool.root<Counter>("counter");
    EXPECT_EQ(pool.counts().fences, 0u);
  }
  options.count = true;
  papers::LabPool pool = papers::open(dir / "pool", options).value();
  auto* counter = pool.root<Counter>("counter");
  const DomainCounts before = pool.counts();
  pool.atomically([&](Tx& tx) { tx.store(counter->value, 1); });
  const DomainCounts cost = pool.counts() - before;
  EXPECT_EQ(cost.fences, 1u);
  EXPECT_EQ(cost.stores, 5u) << "of a line the header, timestamp, head and value; and the word";
  EXPECT_EQ(cost.written_words, 0u);
  EXPECT_LE(cost.flushes, 2u);
}

// ---- threads and processes ----------------------------------------------------------------------

TEST(PoolThreads, AThreadThatEndsHandsItsLogOver) {
  Image image = Image::formatted();  // two logs
  Pool pool = image.pool().value();
  auto* counter = pool.root<Counter>("counter");
  for (int i = 0; i < 50; ++i) {
    std::thread([&] {
      pool.atomically([&](Tx& tx) { tx.store(counter->value, tx.load(counter->value) + 1); });
    }).join();
  }
  EXPECT_EQ(counter->value, 50u);
  Image killed = image;
  EXPECT_EQ(killed.pool().value().find_root<Counter>("counter")->value, 50u);
}

TEST(PoolThreads, WhereEachHasALogMoreThreadsAreAClearError) {
  Image image = Image::formatted();  // two logs
  Pool pool = image.pool(EngineKind::kBlurred).value();
  auto* counter = pool.root<Counter>("counter");  // this thread has one
  std::atomic<int> arrived{0};
  std::atomic<bool> leave{false};
  std::thread second([&] {
    pool.atomically([&](Tx& tx) { tx.store(counter->value, 1); });
    ++arrived;
    while (!leave) std::this_thread::yield();
  });
  while (arrived == 0) std::this_thread::yield();
  std::thread([&] {
    try {
      pool.read_only([&](Tx& tx) { return tx.load(counter->value); });
      ADD_FAILURE() << "a third log appeared";
    } catch (const Exception& refused) {
      EXPECT_EQ(refused.code(), Code::kMisuse);
      EXPECT_NE(std::string(refused.what()).find("log_slots"), std::string::npos) << refused.what();
    }
  }).join();
  leave = true;
  second.join();
  std::thread([&] { pool.atomically([&](Tx& tx) { tx.store(counter->value, 2); }); }).join();
  EXPECT_EQ(counter->value, 2u);
}

TEST(PoolThreads, AThreadMayOutliveThePool) {
  for (int round = 0; round < 20; ++round) {
    Image image = Image::formatted();
    std::atomic<int> step{0};
    std::optional<Pool> pool(image.pool().value());
    auto* counter = pool->root<Counter>("counter");
    std::thread thread([&] {
      pool->atomically([&](Tx& tx) { tx.store(counter->value, 1); });
      step = 1;
      while (step == 1) std::this_thread::yield();
    });
    while (step == 0) std::this_thread::yield();
    pool.reset();
    step = 2;
    thread.join();
  }
}

#if !defined(__SANITIZE_THREAD__)
TEST_P(PoolOnFile, AForkedChildIsRefusedAndTheParentGoesOn) {
  papers::LabPool pool = papers::create(path_, options()).value();
  auto* counter = pool.root<Counter>("counter");
  pool.atomically([&](Tx& tx) { tx.store(counter->value, 1); });
  const int status = in_child([&] {
    if (code_thrown_by([&] { pool.atomically([](Tx&) {}); }) != "misuse") return 1;
    if (code_thrown_by([&] { pool.read_only([](Tx&) {}); }) != "misuse") return 2;
    if (papers::open(path_, options()).error().code != Code::kBusy) return 3;
    {
      Pool gone = std::move(pool);
    }  // closing in the child must not touch the parent's pool
    return 0;
  });
  EXPECT_EQ(status, 0);
  pool.atomically([&](Tx& tx) { tx.store(counter->value, 2); });
  EXPECT_EQ(counter->value, 2u);
  EXPECT_EQ(papers::open(path_, options()).error().code, Code::kBusy)
      << "the child's exit did not unlock it";
}

TEST_P(PoolOnFile, AChildThatLivesOnDoesNotKeepAClosedPoolBusy) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  pid_t child = 0;
  {
    papers::LabPool pool = papers::create(path_, options()).value();
    child = ::fork();
    if (child == 0) {
      char byte = 0;
      (void)!::read(pipe[0], &byte, 1);
      ::_exit(0);
    }
  }
  auto reopened = papers::open(path_, options());
  EXPECT_TRUE(reopened.ok()) << reopened.error().message;
  (void)!::write(pipe[1], "x", 1);
  ::waitpid(child, nullptr, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}
#endif

}  // namespace
}  // namespace perdure
