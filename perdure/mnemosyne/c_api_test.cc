// SPDX-License-Identifier: BSD-3-Clause
// The functions of perdure/mnemosyne.h with good and bad arguments. Each test works on an address
// space of its own, to which it binds its threads; the program's, which opens before main() as in
// every program, is used by one test only.
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/mnemosyne.h"
#include "perdure/mnemosyne/program.h"
#include "tests/small_space.h"

namespace {

char program_directory[] = "/dev/shm/perdure-c-api-XXXXXX";

/// Before the library opens the program's address space: it has the same priority, and comes later
/// in the link.
__attribute__((constructor(101))) void choose_directory() {
  if (::mkdtemp(program_directory) == nullptr) std::abort();
  ::setenv("PERDURE_REGION_PATH", program_directory, 1);
#if defined(__SANITIZE_THREAD__)
  ::setenv("PERDURE_RESERVED_BYTES", "0x40000000", 1);
#endif
  std::atexit([] { std::filesystem::remove_all(program_directory); });
}

pstatic long of_the_program = 5;

}  // namespace

namespace perdure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::in_child;
using testing::kReadWrite;
using testing::Receivers;
using testing::small_space_options;
using testing::TempDir;
using testing::TestStatics;

struct CApi : ::testing::Test {
  CApi() { open(); }
  ~CApi() override { mnemosyne::bind(nullptr); }
  void open() {
    auto options = small_space_options();
    options.statics = statics.declared({1}, {{"variables", 0, 4096}});
    space = AddressSpace::open_or_create(dir / "space", options).value();
    mnemosyne::bind(space.get());
    known = &testing::receivers_of(*space);
  }
  void reopen() {
    mnemosyne::bind(nullptr);
    space.reset();
    open();
  }
  void*& variable(std::size_t index) { return *known->variable(index); }

  TempDir dir{"/dev/shm/"};
  TestStatics statics;
  std::unique_ptr<AddressSpace> space;
  Receivers* known = nullptr;
};

/// Checks that `call` failed with `code` and a message that has `text`.
#define EXPECT_FAILURE(call, failed, code, text)   \
  do {                                             \
    errno = 0;                                     \
    EXPECT_EQ(call, failed);                       \
    EXPECT_EQ(errno, code) << perdure_error();     \
    EXPECT_THAT(perdure_error(), HasSubstr(text)); \
  } while (0)

// ---- the program's own --------------------------------------------------------------------------

TEST(CApiOfTheProgram, IsOpenBeforeMain) {
  EXPECT_TRUE(std::filesystem::exists(std::string(program_directory) + "/heap.pool"));
  EXPECT_TRUE(std::filesystem::exists(std::string(program_directory) + "/statics.region"));
  EXPECT_EQ(of_the_program, 5);
  EXPECT_EQ(perdure_is_persistent(&of_the_program), 1);
  auto* fixed = static_cast<long*>(perdure_fixed_address(&of_the_program));
  EXPECT_NE(fixed, &of_the_program);
  EXPECT_EQ(perdure_fixed_address(fixed), fixed);
  store(&of_the_program, 6);
  flush(&of_the_program);
  fence();
  EXPECT_EQ(*fixed, 6) << "one variable at two addresses";
  EXPECT_EQ(std::string(perdure_error()), "");
}

// ---- heap ---------------------------------------------------------------------------------------

TEST_F(CApi, PmallocStoresTheAddressAndPfreeTakesItAway) {
  const auto objects = [&] { return core_of(space->pool()).heap().usage().objects; };
  const auto before = objects();
  for (const std::size_t size : {1u, 16u, 100u, 5000u, 100'000u}) {
    void* const object = pmalloc(size, &variable(0));
    ASSERT_NE(object, nullptr) << perdure_error();
    EXPECT_EQ(variable(0), object);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % 16, 0u);
    EXPECT_EQ(perdure_is_persistent(object), 1);
    EXPECT_EQ(objects(), before + 1);
    EXPECT_EQ(pfree(&variable(0)), 0);
    EXPECT_EQ(variable(0), nullptr);
    EXPECT_EQ(pfree(&variable(0)), 0) << "NULL is fine";
    EXPECT_EQ(objects(), before);
  }
}

TEST_F(CApi, WhatPmallocGaveIsThereInTheNextRun) {
  void** const own = reinterpret_cast<void**>(&statics.word(3));
  ASSERT_NE(pmalloc(64, own), nullptr);
  void* const object = *own;
  const long value = 42;
  perdure_wtstore(object, &value, sizeof(value));
  perdure_fence();
  reopen();
  EXPECT_EQ(*own, object);
  EXPECT_EQ(*static_cast<long*>(object), 42);
}

TEST_F(CApi, BadUsesOfTheHeapAreErrorsAndChangeNothing) {
  void* volatile_variable = nullptr;
  const auto before = core_of(space->pool()).heap().usage().objects;
  EXPECT_FAILURE(pmalloc(16, &volatile_variable), nullptr, EINVAL, "must be persistent");
  EXPECT_FAILURE(pmalloc(16, nullptr), nullptr, EINVAL, "must be persistent");
  void* const nowhere = space->base() + space->range_bytes() - kPageBytes;
  EXPECT_FAILURE(pmalloc(16, nowhere), nullptr, EINVAL, "writable");
  EXPECT_FAILURE(pmalloc(0, &variable(0)), nullptr, EINVAL, "0 bytes");
  EXPECT_FAILURE(pmalloc(std::numeric_limits<std::size_t>::max(), &variable(0)), nullptr, ENOMEM,
                 "");
  EXPECT_FAILURE(pmalloc(std::size_t{1} << 29, &variable(0)), nullptr, ENOMEM, "");
  EXPECT_EQ(variable(0), nullptr);
  EXPECT_EQ(volatile_variable, nullptr);

  EXPECT_FAILURE(pfree(nowhere), -1, EINVAL, "pfree");
  pmalloc(64, &variable(0));
  for (void* const wrong :
       {static_cast<void*>(static_cast<char*>(variable(0)) + 16),
        static_cast<void*>(&volatile_variable), static_cast<void*>(known + 1),
        static_cast<void*>(space->base()), static_cast<void*>(&statics.word(0)), nowhere}) {
    variable(1) = wrong;
    EXPECT_FAILURE(pfree(&variable(1)), -1, EINVAL, "");
    EXPECT_EQ(variable(1), wrong) << "a failure leaves the variable alone";
  }
  variable(1) = variable(0);
  EXPECT_EQ(pfree(&variable(0)), 0);
  EXPECT_FAILURE(pfree(&variable(1)), -1, EINVAL, "");
  EXPECT_EQ(core_of(space->pool()).heap().usage().objects, before);
}

TEST_F(CApi, PfreeOfAVolatileVariableClearsItToo) {
  pmalloc(64, &variable(0));
  void* copy = variable(0);
  EXPECT_EQ(pfree(&copy), 0);
  EXPECT_EQ(copy, nullptr);
}

// ---- regions ------------------------------------------------------------------------------------

TEST_F(CApi, PmapAndPunmapReportAsMmapDoes) {
  void* const region = pmap(&variable(0), 10'000, kReadWrite, 0);
  ASSERT_NE(region, nullptr) << perdure_error();
  EXPECT_EQ(variable(0), region);
  EXPECT_EQ(static_cast<char*>(region)[9'999], 0);
  variable(1) = region;
  EXPECT_FAILURE(pmap(&variable(1), 1, kReadWrite, MAP_FIXED), nullptr, EEXIST, "punmap it first");
  EXPECT_EQ(variable(1), region);
  EXPECT_NE(pmap(&variable(1), 1, kReadWrite, 0), nullptr) << "a hint only";
  EXPECT_NE(variable(1), region);

  void* volatile_variable = nullptr;
  EXPECT_FAILURE(pmap(&volatile_variable, 1, kReadWrite, 0), nullptr, EINVAL, "persistent");
  EXPECT_FAILURE(pmap(nullptr, 1, kReadWrite, 0), nullptr, EINVAL, "persistent");
  EXPECT_FAILURE(pmap(&variable(2), 0, kReadWrite, 0), nullptr, EINVAL, "0 bytes");
  EXPECT_FAILURE(pmap(&variable(2), 1, 64, 0), nullptr, EINVAL, "protection");
  EXPECT_FAILURE(pmap(&variable(2), 1, kReadWrite, MAP_PRIVATE), nullptr, EINVAL, "flags");
  EXPECT_FAILURE(pmap(&variable(2), 1, kReadWrite, MAP_ANONYMOUS), nullptr, EINVAL, "flags");
  EXPECT_FAILURE(pmap(&variable(2), (std::size_t{1} << 30), kReadWrite, 0), nullptr, ENOMEM,
                 "free addresses");
  EXPECT_EQ(variable(2), nullptr);
  EXPECT_FAILURE(punmap(static_cast<char*>(region) + 1, 4096), -1, EINVAL, "whole pages");
  EXPECT_FAILURE(punmap(&volatile_variable, 4096), -1, EINVAL, "punmap");
  EXPECT_FAILURE(punmap(nullptr, 0), -1, EINVAL, "punmap");
  space->pool().atomically([&](Tx&) {
    EXPECT_FAILURE(pmap(&variable(2), 1, kReadWrite, 0), nullptr, EPERM, "inside a transaction");
    EXPECT_FAILURE(punmap(region, 4096), -1, EPERM, "inside a transaction");
  });
  EXPECT_EQ(punmap(region, 10'000), 0);
  EXPECT_FAILURE(punmap(region, 10'000), -1, EINVAL, "no region");
  EXPECT_EQ(space->regions().size(), 1u);
}

// ---- primitives ---------------------------------------------------------------------------------

TEST_F(CApi, StoresOfEverySizeAndAlignmentWriteTheirBytesAndNoOther) {
  pmalloc(3 * 4096, &variable(0));
  auto* const target = static_cast<unsigned char*>(variable(0));
  std::vector<unsigned char> expected(3 * 4096, 0xee);
  perdure_store(target, expected.data(), expected.size());
  std::vector<unsigned char> source(4096);
  unsigned next = 1;
  for (std::size_t size = 0; size <= 4096; size += size < 40 ? 1 : 101) {
    for (const std::size_t at : {0u, 1u, 3u, 7u, 8u, 60u, 63u, 4090u}) {
      for (unsigned char& byte : source) byte = static_cast<unsigned char>(next = next * 5 + 1);
      const auto put = next % 2 == 0 ? perdure_store : perdure_wtstore;
      put(target + at, source.data(), size);
      std::copy_n(source.begin(), size, expected.begin() + static_cast<std::ptrdiff_t>(at));
      ASSERT_EQ(std::memcmp(target, expected.data(), expected.size()), 0) << size << " at " << at;
    }
  }
  perdure_flush(target);
  perdure_fence();
  reopen();
  EXPECT_EQ(std::memcmp(variable(0), expected.data(), expected.size()), 0);
}

TEST_F(CApi, ThreadsThatStoreToNeighbouringBytesDoNotDisturbEachOther) {
  pmalloc(64, &variable(0));
  auto* const bytes = static_cast<unsigned char*>(variable(0));
  std::vector<std::thread> threads;
  std::atomic<int> lost{0};
  std::atomic<int> started{0};
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      mnemosyne::bind(space.get());
      // Until both had their share of a core or two.
      for (++started; started < 2;) std::this_thread::yield();
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
      for (unsigned i = 0; i % 1024 != 0 || std::chrono::steady_clock::now() < end; ++i) {
        const auto value = static_cast<unsigned char>(i);
        (i % 8 == 0 ? perdure_wtstore : perdure_store)(bytes + t, &value, 1);
        if (std::atomic_ref<unsigned char>(bytes[t]).load(std::memory_order_relaxed) != value)
          ++lost;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
}

TEST_F(CApi, PrimitivesOnVolatileMemoryEndTheProgramWithAMessage) {
  long variable = 0;
  const auto ends = [&](auto use) {
    const int status = in_child([&] {
      (void)!::freopen((dir / "stderr").c_str(), "w", stderr);
      use();
      return 0;
    });
    EXPECT_EQ(status, 3);
    EXPECT_THAT(testing::contents_of(dir / "stderr"), HasSubstr("memory that is not persistent"));
  };
  ends([&] { perdure_store(&variable, &variable, sizeof(variable)); });
  ends([&] { perdure_wtstore(&variable, &variable, sizeof(variable)); });
  ends([&] { perdure_flush(&variable); });
}

// ---- logs ---------------------------------------------------------------------------------------

/// A log_create call-back that collects the records.
void collect(const void* record, std::size_t size, void* argument) {
  static_cast<std::vector<std::string>*>(argument)->emplace_back(static_cast<const char*>(record),
                                                                 size);
}

TEST_F(CApi, ALogCallsBackWithWhatSurvivedOldestFirst) {
  std::vector<std::string> records;
  perdure_log* log = log_create("events", 8192, 0, collect, &records);
  ASSERT_NE(log, nullptr) << perdure_error();
  EXPECT_TRUE(records.empty());
  for (const char* text : {"one", "", "three, which is longer than a word"})
    EXPECT_EQ(log_append(log, text, std::strlen(text)), 0);
  EXPECT_EQ(log_flush(log), 0);
  perdure_log_close(log);
  reopen();
  log = log_create("events", 8192, 0, collect, &records);
  EXPECT_THAT(records, ElementsAre("one", "", "three, which is longer than a word"));
  EXPECT_EQ(log_append(log, "four", 4), 0);
  EXPECT_EQ(log_flush(log), 0);
  perdure_log_close(log);
  reopen();
  records.clear();
  log = log_create("events", 8192, PERDURE_LOG_TRUNCATE, collect, &records);
  EXPECT_EQ(records.size(), 4u) << "seen, and then dropped";
  perdure_log_close(log);
  records.clear();
  log = log_create("events", 8192, 0, collect, &records);
  EXPECT_TRUE(records.empty());
  EXPECT_EQ(log_append(log, "five", 4), 0);
  EXPECT_EQ(log_truncate(log), 0);
  EXPECT_EQ(log_append(log, "six", 3), 0);
  EXPECT_EQ(log_flush(log), 0);
  perdure_log_close(log);
  log = log_create("events", 8192, 0, nullptr, nullptr);
  perdure_log_close(log);
  perdure_log_close(log_create("events", 8192, 0, collect, &records));
  EXPECT_THAT(records, ElementsAre("six"));
}

TEST_F(CApi, AFullLogSaysSoAndIsUsableAfterTruncation) {
  perdure_log* const log = log_create("events", 4096, 0, nullptr, nullptr);
  ASSERT_NE(log, nullptr);
  const std::string record(100, 'r');
  int appended = 0;
  while (log_append(log, record.data(), record.size()) == 0) ++appended;
  EXPECT_GE(appended, 30);
  EXPECT_LE(appended, 40);
  EXPECT_FAILURE(log_append(log, record.data(), record.size()), -1, ENOSPC, "log_truncate()");
  EXPECT_EQ(log_flush(log), 0);
  EXPECT_EQ(log_truncate(log), 0);
  for (const std::size_t absurd :
       {std::size_t{5000}, std::numeric_limits<std::size_t>::max(),
        std::numeric_limits<std::size_t>::max() - 7, std::numeric_limits<std::size_t>::max() / 2,
        std::size_t{1} << 60})
    EXPECT_FAILURE(log_append(log, record.data(), absurd), -1, ENOSPC, "full");
  EXPECT_EQ(log_append(log, record.data(), record.size()), 0);
  EXPECT_EQ(log_flush(log), 0);
  perdure_log_close(log);
  std::vector<std::string> records;
  perdure_log_close(log_create("events", 4096, 0, collect, &records));
  EXPECT_THAT(records, ElementsAre(record));
}

TEST_F(CApi, WhoAppendsFlushes) {
  perdure_log* const log = log_create("events", 4096, 0, nullptr, nullptr);
  EXPECT_EQ(log_append(log, "mine", 4), 0);
  std::thread([&] {
    mnemosyne::bind(space.get());
    EXPECT_FAILURE(log_append(log, "theirs", 6), -1, EPERM, "another thread");
    EXPECT_FAILURE(log_flush(log), -1, EPERM, "another thread");
  }).join();
  EXPECT_EQ(std::string(perdure_error()).find("another thread"), std::string::npos)
      << "each thread has its own last error";
  EXPECT_EQ(log_flush(log), 0);
  std::thread([&] {
    mnemosyne::bind(space.get());
    EXPECT_EQ(log_append(log, "theirs", 6), 0);
    EXPECT_EQ(log_flush(log), 0);
  }).join();
  perdure_log_close(log);
  std::vector<std::string> records;
  perdure_log_close(log_create("events", 4096, 0, collect, &records));
  EXPECT_THAT(records, ElementsAre("mine", "theirs"));
}

TEST_F(CApi, BadLogsAreRefused) {
  EXPECT_FAILURE(log_create(nullptr, 8192, 0, nullptr, nullptr), nullptr, EINVAL, "name");
  EXPECT_FAILURE(log_create("events", 8192, 2, nullptr, nullptr), nullptr, EINVAL, "flags");
  EXPECT_FAILURE(log_create("events", 4095, 0, nullptr, nullptr), nullptr, EINVAL, "4096");
  EXPECT_FAILURE(log_create("", 8192, 0, nullptr, nullptr), nullptr, EINVAL, "name");
  EXPECT_FAILURE(log_create(std::string(33, 'x').c_str(), 8192, 0, nullptr, nullptr), nullptr,
                 EINVAL, "name");
  EXPECT_FAILURE(log_create("huge", std::numeric_limits<std::size_t>::max(), 0, nullptr, nullptr),
                 nullptr, EINVAL, "capacity");
  EXPECT_FAILURE(log_create("perdure.regions", 8192, 0, nullptr, nullptr), nullptr, EINVAL,
                 "another type");
  perdure_log_close(log_create("after all", 4096, 0, nullptr, nullptr));
  perdure_log_close(nullptr);
}

TEST_F(CApi, ADamagedLogIsRefused) {
  perdure_log* const log = log_create("events", 4096, 0, nullptr, nullptr);
  const std::string record(600, 'r');
  EXPECT_EQ(log_append(log, record.data(), record.size()), 0);
  EXPECT_EQ(log_flush(log), 0);
  perdure_log_close(log);
  // The ring, found by the record: the words of a log are packed by 63 bits, so only the first is
  // as it was written.
  std::uint64_t* root = nullptr;
  space->pool().read_only([&](Tx& tx) {
    const auto found = core_of(space->pool()).find_root(tx, "events", 0, 0, false);
    root = found ? static_cast<std::uint64_t*>(found->object) : nullptr;
  });
  ASSERT_NE(root, nullptr);
  auto* const ring = reinterpret_cast<std::uint64_t*>(space->base() + root[0]);
  ring[0] ^= 2;  // in the sealed length of the first record
  EXPECT_FAILURE(log_create("events", 4096, 0, nullptr, nullptr), nullptr, EBADMSG,
                 "damaged record");
  ring[0] ^= 2;
  root[2] ^= 1;  // the seal of the ring's place
  EXPECT_FAILURE(log_create("events", 4096, 0, nullptr, nullptr), nullptr, EBADMSG,
                 "fails its check");
  root[2] ^= 1;
  std::vector<std::string> records;
  perdure_log_close(log_create("events", 4096, 0, collect, &records));
  EXPECT_THAT(records, ElementsAre(record));
}

// ---- beside the paper ---------------------------------------------------------------------------

TEST_F(CApi, TruncationIsChosenByName) {
  for (const char* name : {"each-commit", "next-commit", "when-full", "background"}) {
    EXPECT_EQ(perdure_set_truncation(name), 0);
    EXPECT_EQ(truncation_name(core_of(space->pool()).engine().truncation()), name);
    EXPECT_NE(pmalloc(16, &variable(0)), nullptr);
    EXPECT_EQ(pfree(&variable(0)), 0);
  }
  EXPECT_EQ(perdure_set_truncation("auto"), 0);
  for (const char* name : {"", "never", "each_commit", static_cast<const char*>(nullptr)})
    EXPECT_FAILURE(perdure_set_truncation(name), -1, EINVAL, "when-full");
}

TEST_F(CApi, WhatIsPersistentIsKnown) {
  long local = 0;
  EXPECT_EQ(perdure_is_persistent(&local), 0);
  EXPECT_EQ(perdure_is_persistent(nullptr), 0);
  EXPECT_EQ(perdure_is_persistent(known), 1);
  EXPECT_EQ(perdure_is_persistent(&statics.word(0)), 1);
  EXPECT_EQ(perdure_is_persistent(&statics.word(511)), 1);
  EXPECT_EQ(perdure_is_persistent(&statics.word(512)), 0);
  EXPECT_EQ(perdure_fixed_address(&local), &local);
  EXPECT_EQ(perdure_fixed_address(nullptr), nullptr);
  EXPECT_EQ(perdure_fixed_address(known), known);
  EXPECT_EQ(space->contains(perdure_fixed_address(&statics.word(7))), true);
  EXPECT_EQ(space->base() < static_cast<std::byte*>(perdure_fixed_address(&statics.word(7))), true);
  EXPECT_THAT(perdure_guarantee(), HasSubstr("process death"));
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow into a child
TEST_F(CApi, AForkedChildIsRefusedByEveryFunction) {
  perdure_log* const log = log_create("events", 4096, 0, nullptr, nullptr);
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(perdure_set_truncation("background"), 0);
  EXPECT_EQ(in_child([&] {
              void** const pointer =
                  reinterpret_cast<void**>(space->fixed_address(&statics.word(0)));
              if (pmalloc(16, pointer) != nullptr || errno != EPERM) return 1;
              if (pmap(pointer, 16, kReadWrite, 0) != nullptr || errno != EPERM) return 2;
              if (punmap(space->base(), 16) != -1 || errno != EPERM) return 3;
              if (log_create("more", 4096, 0, nullptr, nullptr) != nullptr) return 4;
              if (perdure_set_truncation("auto") != -1 || errno != EPERM) return 5;
              if (pfree(pointer) != -1 || errno != EPERM) return 6;
              return 0;
            }),
            0);
  EXPECT_EQ(log_append(log, "x", 1), 0);
  EXPECT_EQ(log_flush(log), 0);
  perdure_log_close(log);
}
#endif

}  // namespace
}  // namespace perdure
