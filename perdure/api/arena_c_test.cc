// SPDX-License-Identifier: BSD-3-Clause
// The functions of perdure/arena_c.h with good and bad arguments. examples/arena is the same face
// in C.
#include "perdure/arena_c.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/arena.h"
#include "tests/small_pool.h"

/// Not in a namespace: C has none.
struct shared_with_c {
  long first, second;
  shared_with_c* next;
};

namespace perdure {
namespace {

using ::testing::HasSubstr;
using testing::in_child;
using testing::TempDir;

struct ArenaCFace : ::testing::Test {
  ArenaCFace() { settings.capacity_bytes = 4 << 20; }
  ~ArenaCFace() override { perdure_arena_close(arena); }
  void reopen() {
    ASSERT_EQ(perdure_arena_close(std::exchange(arena, nullptr)), 0);
    arena = perdure_arena_open_or_create(path.c_str(), &settings);
    ASSERT_NE(arena, nullptr) << perdure_arena_error();
  }

  TempDir dir{"/var/tmp/"};
  std::string path = dir / "c.arena";
  perdure_arena_settings settings{};
  perdure_arena* arena = nullptr;
};

TEST_F(ArenaCFace, KeepsWhatWasPersisted) {
  reopen();
  auto* list = PERDURE_ARENA_MAKE_ROOT(arena, "list", shared_with_c);
  ASSERT_NE(list, nullptr) << perdure_arena_error();
  EXPECT_EQ(list->first, 0) << "it begins as zeros";
  for (long i = 1; i <= 1000; ++i) {
    auto* fresh = static_cast<shared_with_c*>(perdure_arena_allocate(arena, sizeof(*list)));
    *fresh = {i, -i, list->next};
    list->next = fresh;
  }
  ASSERT_EQ(perdure_arena_persist(arena), 0) << perdure_arena_error();
  list->next = nullptr;  // not persisted
  reopen();
  EXPECT_EQ(PERDURE_ARENA_MAKE_ROOT(arena, "list", shared_with_c), list);
  long expected = 1000;
  for (const auto* at = list->next; at != nullptr; at = at->next, --expected) {
    ASSERT_EQ(at->first, expected);
    ASSERT_EQ(at->second, -expected);
  }
  EXPECT_EQ(expected, 0);
}

TEST_F(ArenaCFace, SharesItsRootsWithCxx) {
  reopen();
  auto* object = static_cast<shared_with_c*>(
      perdure_arena_make_root(arena, "one", "struct shared_with_c", sizeof(shared_with_c)));
  ASSERT_NE(object, nullptr);
  object->first = 7;
  ASSERT_EQ(perdure_arena_persist(arena), 0);
  ASSERT_EQ(perdure_arena_close(std::exchange(arena, nullptr)), 0);
  {
    auto here = Arena::open(path).value();
    const auto* found = here.root<shared_with_c>("one");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->first, 7);
    here.set_root("two", here.make<shared_with_c>(shared_with_c{8, 0, nullptr}));
    here.persist().value();
  }
  reopen();
  const auto* two = PERDURE_ARENA_ROOT(arena, "two", struct shared_with_c);
  ASSERT_NE(two, nullptr) << perdure_arena_error();
  EXPECT_EQ(two->first, 8);
}

TEST_F(ArenaCFace, AllocatesAlignsResizesAndFrees) {
  reopen();
  const std::uint64_t used = perdure_arena_stats(arena).used_bytes;
  for (std::size_t alignment = 1; alignment <= 16384; alignment *= 2) {
    void* object = perdure_arena_allocate_aligned(arena, 100, alignment);
    ASSERT_NE(object, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % alignment, 0u);
    perdure_arena_free(arena, object);
  }
  char* text = static_cast<char*>(perdure_arena_resize(arena, nullptr, 5));
  std::strcpy(text, "five");
  for (const std::size_t size : {100, 100'000, 50'000, 10}) {
    text = static_cast<char*>(perdure_arena_resize(arena, text, size));
    ASSERT_NE(text, nullptr);
    EXPECT_STREQ(text, "five");
  }
  EXPECT_EQ(perdure_arena_resize(arena, text, std::size_t{1} << 40), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_STREQ(text, "five") << "what could not be resized is as it was";
  perdure_arena_free(arena, text);
  perdure_arena_free(arena, nullptr);
  EXPECT_EQ(perdure_arena_stats(arena).used_bytes, used);

  EXPECT_EQ(perdure_arena_allocate(arena, 5 << 20), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(perdure_arena_allocate_aligned(arena, 8, 24), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(ArenaCFace, NoEpochEndsBetweenEnterAndLeave) {
  settings.epoch_ms = 1;
  settings.durable = PERDURE_ARENA_PROCESS;
  reopen();
  auto* pair = PERDURE_ARENA_MAKE_ROOT(arena, "pair", shared_with_c);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      perdure_arena_enter(arena);
      perdure_arena_enter(arena);
      ++pair->first;
      perdure_arena_leave(arena);
      ++pair->second;
      perdure_arena_leave(arena);
    }
  });
  while (perdure_arena_stats(arena).ended < 30) std::this_thread::yield();
  stop = true;
  writer.join();
  settings.epoch_ms = 0;
  reopen();
  EXPECT_GT(pair->first, 0);
  EXPECT_EQ(pair->first, pair->second);
}

TEST_F(ArenaCFace, StatsTellWhatWasDone) {
  settings.tracking = PERDURE_ARENA_MPROTECT;
  reopen();
  auto* object = PERDURE_ARENA_MAKE_ROOT(arena, "one", shared_with_c);
  for (long i = 1; i <= 3; ++i) {
    object->first = i;
    ASSERT_EQ(perdure_arena_persist(arena), 0);
  }
  const struct perdure_arena_counts stats = perdure_arena_stats(arena);
  EXPECT_EQ(stats.epoch, 3u);
  EXPECT_EQ(stats.ended, 3u);
  EXPECT_GE(stats.blocks, 3u);
  EXPECT_GT(stats.log_bytes, 0u);
  EXPECT_GT(stats.pause_max_ns, 0u);
  EXPECT_GE(stats.pause_max_ns, stats.pause_p50_ns);
  EXPECT_EQ(stats.capacity_bytes, 4u << 20);
  EXPECT_GT(stats.used_bytes, 0u);
  EXPECT_EQ(stats.tracking, PERDURE_ARENA_MPROTECT);
}

TEST_F(ArenaCFace, TellsWhatIsWrong) {
  const auto fails = [&](int code) {
    EXPECT_EQ(perdure_arena_open(path.c_str(), &settings), nullptr);
    EXPECT_EQ(errno, code) << perdure_arena_error();
  };
  EXPECT_EQ(perdure_arena_open(nullptr, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  fails(ENOENT);
  EXPECT_THAT(perdure_arena_error(), HasSubstr(path));
  std::ofstream(path) << std::string(5000, 'x');
  fails(EBADMSG);
  std::filesystem::remove(path);
  settings.durable = 2;
  fails(EINVAL);
  settings.durable = 0;
  settings.tracking = -1;
  fails(EINVAL);
  settings.tracking = 0;

  arena = perdure_arena_create(path.c_str(), &settings);
  ASSERT_NE(arena, nullptr) << perdure_arena_error();
  EXPECT_EQ(perdure_arena_create(path.c_str(), &settings), nullptr);
  EXPECT_EQ(errno, EEXIST);
  fails(EBUSY);

  EXPECT_EQ(PERDURE_ARENA_ROOT(arena, "none", long), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_THAT(perdure_arena_error(), HasSubstr("\"none\""));
  ASSERT_NE(PERDURE_ARENA_MAKE_ROOT(arena, "number", long), nullptr);
  EXPECT_EQ(PERDURE_ARENA_ROOT(arena, "number", double), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(perdure_arena_root(arena, nullptr, "long", 8), nullptr);
  EXPECT_EQ(errno, EINVAL);
  long outside = 0;
  EXPECT_EQ(PERDURE_ARENA_SET_ROOT(arena, "outside", long, &outside), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(PERDURE_ARENA_SET_ROOT(arena, "number", long, nullptr), 0);
  EXPECT_EQ(PERDURE_ARENA_ROOT(arena, "number", long), nullptr) << "it was taken away";
  const std::uint64_t used = perdure_arena_stats(arena).used_bytes;
  for (int i = 0; i < 64; ++i)
    ASSERT_NE(perdure_arena_make_root(arena, std::to_string(i).c_str(), "char", 1), nullptr);
  EXPECT_EQ(PERDURE_ARENA_MAKE_ROOT(arena, "one more", long), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(perdure_arena_stats(arena).used_bytes, used + 64 * 16) << "no object is left behind";

  perdure_arena_enter(arena);
  EXPECT_EQ(perdure_arena_persist(arena), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(perdure_arena_close(arena), -1);
  EXPECT_EQ(errno, EPERM);
  perdure_arena_leave(arena);
  EXPECT_EQ(in_child([&] { return perdure_arena_persist(arena) == -1 && errno == EPERM ? 0 : 1; }),
            0);
  EXPECT_EQ(perdure_arena_persist(arena), 0);
}

}  // namespace
}  // namespace perdure
