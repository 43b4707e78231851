// SPDX-License-Identifier: BSD-3-Clause
// Pools that are looked at, and copied, while a program has them open and goes on: what is seen is one
// state of the writer's history, and stays.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/expert.h"
#include "perdure/perdure.h"
#include "tests/pool_history.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::History;

std::uint64_t state_of(const std::string& path) {
  Pool seen = Pool::inspect(path).value();
  const auto state = History(seen).state();
  EXPECT_TRUE(state.has_value());
  return state.value_or(~std::uint64_t{0});
}

struct Case {
  DomainKind domain;
  bool large;  // small pools are read at once, large ones by page faults
};

class LivePool : public ::testing::TestWithParam<Case> {
 protected:
  static ExpertOptions options() {
    ExpertOptions options;
    options.domain = GetParam().domain;
    options.let_others_look = true;
    options.capacity_bytes = std::uint64_t{256} << 20;
    options.ring_bytes = std::uint64_t{256} << 10;
    options.log_slots = 8;
    return options;
  }
  Pool create() const {
    Pool pool = Pool::create(path_, options()).value();
    History(pool).step();
    if (GetParam().large)
      pool.atomically([](Tx& tx) { tx.free(tx.allocate(std::uint64_t{70} << 20)); });
    return pool;
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "pool";
};

TEST_P(LivePool, WhatIsSeenIsOfOneMomentAndStays) {
  Pool pool = create();
  History history(pool);
  for (int i = 0; i < 700; ++i) history.step();
  Pool first = Pool::inspect(path_).value();
  for (int i = 0; i < 300; ++i) history.step();
  pool.checkpoint();  // pages go home
  Pool second = Pool::inspect(path_).value();
  for (int i = 0; i < 2000; ++i) history.step(Durability::kRelaxed);
  pool.sync();
  pool.checkpoint();
  EXPECT_EQ(History(first).state(), 701u);
  EXPECT_EQ(History(second).state(), 1001u);
  EXPECT_EQ(state_of(path_), 3001u);
  EXPECT_EQ(history.state(), 3001u);
}

TEST_P(LivePool, WhatIsStoredInTheCopyIsNobodyElses) {
  Pool pool = create();
  {
    Pool seen = Pool::inspect(path_).value();
    History(seen).step();
    EXPECT_EQ(History(seen).state(), 2u);
  }
  EXPECT_EQ(History(pool).state(), 1u);
  EXPECT_EQ(state_of(path_), 1u);
}

TEST_P(LivePool, WriterThatClosesLeavesNothingWrong) {
  std::optional<Pool> pool = create();
  for (int i = 0; i < 700; ++i) History(*pool).step();
  Pool seen = Pool::inspect(path_).value();
  pool.reset();
  {
    // Another writer knows nothing of the first one's readers.
    Pool next = Pool::open(path_, options()).value();
    for (int i = 0; i < 700; ++i) History(next).step();
  }
  try {
    EXPECT_EQ(History(seen).state(), 701u);
    EXPECT_FALSE(GetParam().large);
  } catch (const Exception& error) {
    EXPECT_TRUE(GetParam().large);
    EXPECT_EQ(error.code(), Code::kBusy) << error.what();
    EXPECT_TRUE(std::string(error.what()).starts_with(path_ + ": ")) << error.what();
  }
  EXPECT_EQ(state_of(path_), 1401u);
}

TEST_P(LivePool, OnMemoryOthersAreToldWhereNobodyLetsThemLook) {
  if (GetParam().domain == DomainKind::kSync) GTEST_SKIP() << "on files they may look";
  ExpertOptions not_let = options();
  not_let.let_others_look = false;
  Pool pool = Pool::create(path_, not_let).value();
  auto seen = Pool::inspect(path_);
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code, Code::kBusy);
  EXPECT_NE(seen.error().message.find(std::to_string(::getpid())), std::string::npos)
      << seen.error().message;
}

TEST_P(LivePool, NobodyMayWriteBeside) {
  Pool pool = create();
  EXPECT_EQ(Pool::open(path_, options()).error().code, Code::kBusy);
}

TEST_P(LivePool, ThreadsReadAndBackUpWhileOthersCommit) {
  Pool pool = create();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> told{1};
  std::thread writer([&] {
    History history(pool);
    for (std::uint64_t i = 2; !stop; ++i) {
      history.step();
      told = i;
      if (i % 500 == 0) pool.checkpoint();
    }
  });
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&, reader] {
      const std::string copy = dir_ / "copy" + std::to_string(reader);
      for (int i = 0; i < (testing::kSanitized ? 4 : 12); ++i) {
        const std::uint64_t before = told;
        std::uint64_t found = 0;
        if (reader == 0) {
          found = state_of(path_);
        } else {
          Pool::back_up(path_, copy).value();
          Pool restored = Pool::open(copy, options()).value();
          found = History(restored).state().value_or(0);
          std::filesystem::remove(copy);
        }
        if (found < before || found > told + 1) ++wrong;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  stop = true;
  writer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(History(pool).state(), told.load());
}

/// Readers are killed at any moment, beside a writer that is killed now and then, too.
TEST_P(LivePool, KillsOfReadersAndWritersHarmNobody) {
  {
    create();
  }
  const std::string acknowledged = dir_ / "acknowledged";
  const auto write = [&] {
    const int log = ::open(acknowledged.c_str(), O_CREAT | O_WRONLY, 0600);
    Pool pool = Pool::open(path_, options()).value();
    History history(pool);
    for (;;) {
      history.step();
      const std::uint64_t count = history.state().value();
      if (::pwrite(log, &count, sizeof(count), 0) != sizeof(count)) ::_exit(2);
    }
  };
  const auto read = [&] {
    std::uint64_t last = 0;
    for (;;) {
      std::uint64_t before = 0;
      const int log = ::open(acknowledged.c_str(), O_RDONLY);
      if (log >= 0 && ::pread(log, &before, sizeof(before), 0) < 0) ::_exit(3);
      ::close(log);
      auto seen = Pool::inspect(path_);
      if (!seen && seen.error().code == Code::kBusy) continue;  // the writer comes or goes
      if (!seen) ::_exit(4);
      try {
        const auto state = History(seen.value()).state();
        if (!state || *state < before || *state < last) ::_exit(5);
        last = *state;
      } catch (const Exception& error) {
        if (error.code() != Code::kBusy) ::_exit(6);
      }
    }
  };
  const auto start = [](auto work) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        work();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
      ::_exit(1);
    }
    return child;
  };
  const auto end = [](pid_t child) {
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "ended by itself: " << status;
  };
  std::minstd_rand random(22);
  pid_t writer = start(write);
  std::array<pid_t, 4> readers;
  for (pid_t& reader : readers) reader = start(read);
  for (int i = 0; i < (testing::kSanitized ? 20 : 60); ++i) {
    ::usleep(static_cast<useconds_t>(random() % 40'000));
    pid_t& reader = readers[random() % readers.size()];
    end(reader);
    if (i % 8 == 7) {
      end(writer);
      writer = start(write);
    }
    reader = start(read);
  }
  for (const pid_t reader : readers) end(reader);
  end(writer);
  EXPECT_GT(state_of(path_), 1u);
}

TEST_P(LivePool, ReadersOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  if (testing::kSanitized && GetParam().large)
    GTEST_SKIP() << "under ThreadSanitizer a forked child starts no threads";
  Pool pool = create();
  for (int i = 0; i < 700; ++i) History(pool).step();
  ASSERT_EQ(::chmod(std::filesystem::path(path_).parent_path().c_str(), 0755), 0);
  const auto as_another = [&] {
    return testing::in_child([&] {
      if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 9;
      auto seen = Pool::inspect(path_);
      if (!seen) return seen.error().code == Code::kIo ? 2 : 3;
      return History(seen.value()).state() == 701u ? 0 : 4;
    });
  };
  EXPECT_EQ(as_another(), 2);  // may not read the file
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(as_another(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    , LivePool,
    ::testing::Values(Case{DomainKind::kSync, false}, Case{DomainKind::kSync, true},
                      Case{DomainKind::kAdr, false}, Case{DomainKind::kAdr, true}),
    [](const auto& of) {
      return std::string(of.param.domain == DomainKind::kSync ? "OnFiles" : "OnMemory") +
             (of.param.large ? "ByPageFaults" : "AtOnce");
    });

}  // namespace
}  // namespace perdure
