// SPDX-License-Identifier: BSD-3-Clause
// A pool that loses pages while it is open: what a program is told is right, or a refusal, and nothing is made of the zeros that
// it read instead. Each test runs in a child, whose handlers are its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/expert.h"
#include "perdure/perdure.h"
#include "perdure/region/mapped_file.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

constexpr std::uint64_t kRecords = 4000;
/// Of testing::in_child(): by SIGBUS, or what a sanitizer makes of it.
bool was_ended_by_it(int status) {
  return testing::kSanitized ? status != 0 && status != 1000 + SIGALRM : status == 1000 + SIGBUS;
}

/// Calls, each a transaction of its own.
class Map {
 public:
  explicit Map(Pool& pool) : pool_(pool), map_(pool.root<Stored>("map")) {}
  void put(std::uint64_t key, std::uint64_t value) {
    pool_.atomically([&](Tx& tx) { map_->put(tx, key, value); });
  }
  std::optional<std::uint64_t> get(std::uint64_t key) const {
    return pool_.read_only([&](Tx& tx) { return map_->get(tx, key); });
  }

 private:
  using Stored = hash_map<std::uint64_t, std::uint64_t>;
  Pool& pool_;
  Stored* map_;
};

struct Kind {
  const char* name;
  DomainKind domain;
  Placement placement;
};

class LostPages : public ::testing::TestWithParam<Kind> {
 protected:
  ExpertOptions options() const {
    ExpertOptions options;
    options.domain = GetParam().domain;
    options.placement = GetParam().placement;
    options.capacity_bytes = std::uint64_t{16} << 20;
    options.segment_bytes = std::uint64_t{128} << 10;
    options.ring_bytes = std::uint64_t{64} << 10;
    options.log_slots = 8;
    return options;
  }
  void SetUp() override {
    Pool pool = Pool::create(path_, options()).value();
    Map map(pool);
    for (std::uint64_t key = 0; key < kRecords; ++key) map.put(key, key + 1);
  }
  /// Leaves the pool's first half, whatever is in memory of the rest.
  void cut() const {
    ASSERT_EQ(::truncate(path_.c_str(),
                         static_cast<off_t>(std::filesystem::file_size(path_) / 8192 * 4096)),
              0);
  }
  /// 0: the text names the file and an offset.
  int told(const Exception& error) const {
    const std::string text = error.what();
    const bool names_both = error.code() == Code::kPoisoned && text.starts_with(path_ + ": ") &&
                            text.find("at offset ") != std::string::npos;
    if (!names_both) std::fprintf(stderr, "%s\n", text.c_str());
    return names_both ? 0 : 1;
  }
  /// How many of the calls `work(key)` were refused; 1,000,000 if one was wrong or told badly.
  template <class Work>
  std::uint64_t refused(Work work) const {
    std::uint64_t refusals = 0;
    for (std::uint64_t key = 0; key < kRecords; ++key) {
      try {
        if (!work(key)) return 1'000'000;
      } catch (const Exception& error) {
        if (told(error) != 0) return 1'000'000;
        ++refusals;
      }
    }
    return refusals;
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "pool";
};

TEST_P(LostPages, EndTheProcessUnlessItAskedToSurvive) {
  EXPECT_TRUE(was_ended_by_it(testing::in_child([&] {
    Pool pool = Pool::open(path_, options()).value();
    Map map(pool);
    cut();
    for (std::uint64_t key = 0; key < kRecords; ++key) (void)map.get(key);
    return 0;
  })));
}

TEST_P(LostPages, AreRefusedAndNothingWrongIsRead) {
  EXPECT_EQ(testing::in_child([&] {
              survive_lost_pages();
              Pool pool = Pool::open(path_, options()).value();
              Map map(pool);
              cut();
              const std::uint64_t refusals =
                  refused([&](std::uint64_t key) { return map.get(key) == key + 1; });
              if (refusals == 0 || refusals > kRecords) return 2;
              // Once refused, always: also where no lost page would be met.
              return refused([&](std::uint64_t key) { return map.get(key) == key + 1; }) == kRecords
                         ? 0
                         : 3;
            }),
            0);
}

TEST_P(LostPages, AreNotWrittenOver) {
  const std::string before = testing::contents_of(path_);
  EXPECT_EQ(testing::in_child([&] {
              survive_lost_pages();
              {
                Pool pool = Pool::open(path_, options()).value();
                Map map(pool);
                cut();
                const std::uint64_t refusals =
                    refused([&](std::uint64_t key) { return map.get(key) == key + 1; });
                if (refusals == 0 || refusals > kRecords) return 2;
                if (refused([&](std::uint64_t key) {
                      map.put(key, 7);
                      return true;
                    }) != kRecords)
                  return 3;
                try {
                  pool.checkpoint();
                  return 4;
                } catch (const Exception& error) {
                  if (told(error) != 0) return 5;
                }
              }
              return MappedFile::first_loss() ? 0 : 6;
            }),
            0);
  // Whoever has the other half puts it back, and has all that was acknowledged.
  std::string now = testing::contents_of(path_);
  ASSERT_LT(now.size(), before.size());
  now += before.substr(now.size());
  std::ofstream(path_, std::ios::binary) << now;
  Pool pool = Pool::open(path_, options()).value();
  Map map(pool);
  for (std::uint64_t key = 0; key < kRecords; ++key) EXPECT_EQ(map.get(key), key + 1);
}

TEST_P(LostPages, OfSeveralThreadsEndEachWithARefusal) {
  if (testing::kSanitized)
    GTEST_SKIP()
        << "ThreadSanitizer makes atomic accesses itself, and no fault can be handled there";
  EXPECT_EQ(testing::in_child([&] {
              survive_lost_pages();
              Pool pool = Pool::open(path_, options()).value();
              Map map(pool);
              std::vector<std::uint64_t> refusals(6);
              std::vector<std::thread> threads;
              for (std::size_t t = 0; t < refusals.size(); ++t) {
                threads.emplace_back([&, t] {
                  do {
                    refusals[t] = refused([&](std::uint64_t key) {
                      if (t % 2 == 0) return map.get(key) == key + 1;
                      map.put(key, key + 1);
                      return true;
                    });
                  } while (refusals[t] == 0);
                });
              }
              ::usleep(20'000);
              cut();
              for (std::thread& thread : threads) thread.join();
              for (const std::uint64_t each : refusals) {
                if (each == 0 || each > kRecords) return 2;
              }
              return 0;
            }),
            0);
}

TEST_P(LostPages, OfOnePoolDoNotConcernAnother) {
  EXPECT_EQ(testing::in_child([&] {
              survive_lost_pages();
              Pool sound = Pool::create(dir_ / "sound", options()).value();
              Map kept(sound);
              {
                Pool pool = Pool::open(path_, options()).value();
                Map map(pool);
                cut();
                (void)refused([&](std::uint64_t key) { return map.get(key) == key + 1; });
              }
              return refused([&](std::uint64_t key) {
                       kept.put(key, key);
                       return kept.get(key) == key;
                     }) == 0
                         ? 0
                         : 2;
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Domains, LostPages,
                         ::testing::Values(Kind{"File", DomainKind::kSync, Placement::kShared},
                                           Kind{"Memory", DomainKind::kAdr, Placement::kShared},
                                           Kind{"PrivatePages", DomainKind::kAdr,
                                                Placement::kPrivatePages}),
                         [](const auto& of) { return of.param.name; });

// ---- the handler --------------------------------------------------------------------------------

TEST(LossHandler, LeavesToOthersWhatIsTheirs) {
  static volatile sig_atomic_t asked = 0;
  EXPECT_EQ(testing::in_child([] {
              std::signal(SIGBUS, [](int) { asked = asked + 1; });
              survive_lost_pages();
              survive_lost_pages();
              ::raise(SIGBUS);
              return asked == 1 ? 0 : 1;
            }),
            0);
}

TEST(LossHandler, LetsASignalThatIsSentEndTheProcess) {
  EXPECT_TRUE(was_ended_by_it(testing::in_child([] {
    survive_lost_pages();
    ::raise(SIGBUS);
    return 0;
  })));
}

TEST(LossHandler, LetsAnAccessElsewhereEndTheProcess) {
  const testing::TempDir dir;
  EXPECT_TRUE(was_ended_by_it(testing::in_child([&] {
    survive_lost_pages();
    std::ofstream(dir / "empty");
    const int fd = ::open((dir / "empty").c_str(), O_RDWR);
    const auto* byte = static_cast<volatile char*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    return static_cast<int>(*byte);
  })));
}

TEST(LossHandler, NamesTheFirstPage) {
  const testing::TempDir dir;
  EXPECT_EQ(testing::in_child([&] {
              survive_lost_pages();
              std::ofstream(dir / "short") << std::string(5000, 'x');
              const int fd = ::open((dir / "short").c_str(), O_RDWR);
              auto* const base = static_cast<std::byte*>(
                  ::mmap(nullptr, 8 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
              std::atomic<bool> flag{false};
              const MappedFile file(base, 8 * 4096, 4 * 4096, "short");
              {
                MappedFile other(base + 8 * 4096, 4096, 4096, "other");
                other.raise(&flag);
              }
              auto* const bytes = reinterpret_cast<volatile char*>(base);
              if (bytes[4999] != 'x' || bytes[5000] != 0 || file.loss()) return 1;
              if (bytes[3 * 4096 + 5] != 0) return 2;
              bytes[6 * 4096] = 1;
              if (flag || bytes[6 * 4096] != 1) return 3;
              if (file.loss()->message.find("short: the page at offset 12288 cannot") != 0)
                return 4;
              return MappedFile::first_loss()->message == file.loss()->message ? 0 : 5;
            }),
            0);
}

}  // namespace
}  // namespace perdure
