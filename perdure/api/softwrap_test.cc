// SPDX-License-Identifier: BSD-3-Clause
// The functions of perdure/softwrap.h with good and bad arguments. examples/softwrap is the same
// face in C.
#include "perdure/softwrap.h"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/pool.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;
using testing::in_child;
using testing::kSanitized;
using testing::TempDir;

struct Words {
  long first, second;
  double third;
  short fourth;
  char text[600];
};

/// On memory and on a disk, with tables that are full soon.
struct CFace : ::testing::TestWithParam<const char*> {
  CFace() { settings.words = 256, settings.pages = 16, settings.page_bytes = 128; }
  ~CFace() override {
    wrapAbort();
    while (perdure_wrap_depth() != 0) (void)wrapClose();
    (void)wrapDetach();
  }
  void attach() {
    ASSERT_EQ(wrapAttach(path.c_str(), &settings), 0) << wrapError();
    words = static_cast<Words*>(wrapRoot("words", sizeof(Words)));
    ASSERT_NE(words, nullptr) << wrapError();
  }

  TempDir dir{GetParam()};
  std::string path = dir / "wraps.pool";
  perdure_wrap_settings settings{};
  Words* words = nullptr;
};
INSTANTIATE_TEST_SUITE_P(, CFace, ::testing::Values("/dev/shm/", "/var/tmp/"),
                         [](const auto& place) {
                           return std::string(place.param).find("shm") != std::string::npos
                                      ? "Memory"
                                      : "Disk";
                         });

TEST_P(CFace, KeepsWhatAClosedWrapHasStored) {
  attach();
  const std::string text(500, 'x');
  ASSERT_EQ(wrapOpen(0), 0);
  EXPECT_EQ(wrapStore(&words->first, -1), 0);
  EXPECT_EQ(wrapStore(&words->third, 2.5), 0);
  EXPECT_EQ(wrapStore(&words->fourth, 3), 0);
  EXPECT_EQ(wrapWrite(words->text + 7, text.data(), text.size()), 0);
  EXPECT_EQ(wrapLoad(&words->first), -1);
  EXPECT_EQ(wrapClose(), 0) << wrapError();
  ASSERT_EQ(wrapOpen(WRAP_RELAXED | WRAP_LOCAL), 0);
  EXPECT_EQ(wrapStore(&words->second, 77), 0);
  EXPECT_EQ(wrapClose(), 0) << wrapError();
  const Words* const before = words;
  ASSERT_EQ(wrapDetach(), 0);
  attach();
  EXPECT_EQ(words, before) << "it is at the same address in each run";
  EXPECT_EQ(wrapLoad(&words->first), -1);
  EXPECT_EQ(wrapLoad(&words->second), 77);
  EXPECT_EQ(wrapLoad(&words->third), 2.5);
  EXPECT_EQ(wrapLoad(&words->fourth), 3);
  std::string found(500, '?');
  EXPECT_EQ(wrapRead(found.data(), words->text + 7, found.size()), 0);
  EXPECT_EQ(found, text);
}

TEST_P(CFace, WhatAKilledProcessHadOpenIsGone) {
  attach();
  ASSERT_EQ(wrapDetach(), 0);
  EXPECT_EQ(in_child([&] {
              if (wrapAttach(path.c_str(), &settings) != 0) return 1;
              auto* mine = static_cast<Words*>(wrapRoot("words", sizeof(Words)));
              wrapOpen(0);
              wrapStore(&mine->first, 1);
              if (wrapClose() != 0) return 2;
              wrapOpen(0);
              wrapStore(&mine->first, 2);
              void* object = pmalloc(100);
              wrapStore(&mine->second, reinterpret_cast<long>(object));
              std::thread([&] {
                wrapOpen(PERDURE_WRAP_LOCAL);
                wrapStore(&mine->third, 9.0);
                ::kill(::getpid(), SIGKILL);
              }).join();
              return 3;
            }),
            1000 + SIGKILL);
  attach();
  EXPECT_EQ(wrapLoad(&words->first), 1);
  EXPECT_EQ(wrapLoad(&words->second), 0);
  EXPECT_EQ(wrapLoad(&words->third), 0.0);
}

/// A counter in each of two objects, the second of which is another one with every wrap: equal,
/// whenever a kill comes.
TEST_P(CFace, KillsAtAnyMomentLeaveWholeWraps) {
  struct Pair {
    long count;
    long* other;
  };
  const auto pair_of = [&] { return static_cast<Pair*>(wrapRoot("pair", sizeof(Pair))); };
  long last = 0;
  for (int kill = 0; kill < (kSanitized ? 2 : 12); ++kill) {
    const int status = in_child([&] {
      if (wrapAttach(path.c_str(), &settings) != 0) return 1;
      Pair* const pair = pair_of();
      std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20 + 13 * kill % 40));
        ::kill(::getpid(), SIGKILL);
      }).detach();
      for (;;) {
        wrapOpen(0);
        auto* fresh = static_cast<long*>(pmalloc(200));
        wrapStore(fresh, wrapLoad(&pair->count) + 1);
        wrapStore(&pair->count, wrapLoad(&pair->count) + 1);
        pfree(wrapLoad(&pair->other));
        wrapStore(&pair->other, fresh);
        if (wrapClose() != 0) return 2;
      }
    });
    ASSERT_EQ(status, 1000 + SIGKILL);
    ASSERT_EQ(wrapAttach(path.c_str(), &settings), 0) << wrapError();
    Pair* const pair = pair_of();
    const long count = wrapLoad(&pair->count);
    EXPECT_GE(count, last);
    ASSERT_NE(wrapLoad(&pair->other), nullptr);
    EXPECT_EQ(wrapLoad(wrapLoad(&pair->other)), count);
    last = count;
    ASSERT_EQ(wrapDetach(), 0);
  }
  EXPECT_GT(last, 0) << "a slow life may come to nothing, not all of them";
  const Pool pool = Pool::inspect(path).value();
  EXPECT_EQ(core_of(pool).heap().usage().objects, 2u) << "the root and its object";
}

TEST_P(CFace, TellsWhatIsWrong) {
  EXPECT_EQ(wrapOpen(0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_THAT(wrapError(), HasSubstr("wrapAttach"));
  EXPECT_EQ(wrapDetach(), -1);
  EXPECT_EQ(wrapRoot("words", 8), nullptr);
  EXPECT_EQ(perdure_wrap_guarantee(), nullptr);

  EXPECT_EQ(wrapAttach(nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  settings.placement = "paper";
  EXPECT_EQ(wrapAttach(path.c_str(), &settings), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_THAT(wrapError(), HasSubstr("private-pages, shared"));
  settings.placement = nullptr;
  settings.words = 100;
  EXPECT_EQ(wrapAttach(path.c_str(), &settings), -1);
  EXPECT_EQ(errno, EINVAL);
  settings.words = 64;
  std::ofstream(dir / "foreign") << std::string(10000, 'x');
  EXPECT_EQ(wrapAttach((dir / "foreign").c_str(), nullptr), -1);
  EXPECT_EQ(errno, EBADMSG);

  attach();
  EXPECT_EQ(wrapAttach(path.c_str(), nullptr), -1);
  EXPECT_EQ(errno, EBUSY);
  for (const char* name : {"words", static_cast<const char*>(nullptr)}) {
    EXPECT_EQ(wrapRoot(name, 8), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(wrapRoot("none", 0), nullptr);
  EXPECT_EQ(wrapStore(&words->first, 1), -1) << "no wrap is open";
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(wrapOpen(64), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(wrapClose(), -1);

  wrapOpen(0);
  EXPECT_EQ(wrapDetach(), -1) << "a wrap is open";
  wrapAbort();
  EXPECT_EQ(wrapClose(), -1);
  EXPECT_EQ(errno, ECANCELED);

  wrapOpen(0);
  EXPECT_EQ(perdure_wrap_store(&words->first, 1, 9), -1);
  EXPECT_EQ(errno, EINVAL);
  long outside = 7;
  EXPECT_EQ(wrapLoad(&outside), 7);
  EXPECT_EQ(wrapStore(&outside, 8), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(wrapClose(), -1) << "the store has aborted it";
  EXPECT_EQ(errno, EPERM);

  wrapOpen(0);
  EXPECT_EQ(pfree(&words->second), -1);
  EXPECT_EQ(wrapClose(), -1);
  EXPECT_EQ(wrapLoad(&words->first), 0);
  EXPECT_EQ(std::string(perdure_wrap_guarantee()).empty(), false);
}

}  // namespace
}  // namespace perdure
