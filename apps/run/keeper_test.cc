// SPDX-License-Identifier: BSD-3-Clause
// The supervisor's side of epochs without a program: a process stages changes as the runtime would, and is killed.
// What is recovered is what the epoch left, and after forget_last() what the one before left.
#include "apps/run/keeper.h"

#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "apps/run/layout.h"
#include "perdure/base/crc32c.h"

namespace perdure::run {
namespace {

constexpr std::uint32_t kSlots = 300, kBlocks = kPageBytes / 64;
constexpr std::uint64_t kTableBytes = 3 * kPageBytes;
using Page = std::array<std::byte, kPageBytes>;
using Changed = std::vector<SlotChange>;

void fill(std::byte* block, std::uint64_t number) {
  for (int i = 0; i < 8; ++i) {
    number = number * 6364136223846793005 + 1442695040888963407;
    std::memcpy(block + i * 8, &number, 8);
  }
}

/// What an epoch changes: blocks, pages, and pages that become zeros. Of each slot no more than one change.
Changed changed_in(std::uint64_t epoch) {
  std::mt19937_64 random(epoch);
  std::map<std::uint32_t, SlotChange> changes;
  for (int i = 0; i < 60; ++i) {
    const std::uint32_t slot = kMemorySlot + static_cast<std::uint32_t>(random() % kSlots);
    const std::uint64_t blocks = random() & random() & random();
    changes[slot] = {slot, 0, random() % 2 == 0 ? ~std::uint64_t{0} : blocks | 1};
  }
  const std::uint32_t first = kMemorySlot + static_cast<std::uint32_t>(random() % (kSlots - 8));
  for (std::uint32_t slot = first; slot < first + 8; ++slot) changes.erase(slot);
  if (random() % 2 == 0)
    changes[first] = {first, 1 + static_cast<std::uint32_t>(random() % 8), ~std::uint64_t{0}};
  for (std::uint32_t slot = kTableSlot; slot < kTableSlot + 3; ++slot)
    changes[slot] = {slot, 0, random() | 2};
  Changed all;
  for (const auto& [slot, change] : changes) all.push_back(change);
  return all;
}

void apply(const SlotChange& change, std::uint64_t epoch,
           const std::function<std::byte*(std::uint32_t)>& page) {
  if (change.zeros != 0) {
    for (std::uint32_t i = 0; i < change.zeros; ++i)
      std::memset(page(change.slot + i), 0, kPageBytes);
    return;
  }
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    if ((change.mask >> block & 1) != 0)
      fill(page(change.slot) + block * 64,
           (epoch << 40) + (std::uint64_t{change.slot} << 8) + block);
  }
}

/// The image that an epoch leaves.
std::map<std::uint32_t, Page> golden(std::uint64_t epoch) {
  std::map<std::uint32_t, Page> pages;
  for (std::uint64_t each = 1; each <= epoch; ++each)
    for (const SlotChange& change : changed_in(each))
      apply(change, each, [&](std::uint32_t slot) { return pages[slot].data(); });
  return pages;
}

void ignore_commits(Keeper& keeper) {
  keeper.before_commit = [](std::uint64_t) { return Result<void>(); };
  keeper.after_commit = [](std::uint64_t) {};
  keeper.on_refused = [] {};
}

/// As the runtime does, one epoch after the other. Tells `committed` of each.
[[noreturn]] void stage_for_ever(const std::string& directory, bool power, int committed) {
  Keeper::Options options;
  options.power = power;
  const auto keeper = std::filesystem::exists(directory + "/image")
                          ? Keeper::open(directory, options)
                          : Keeper::create(directory, options);
  ignore_commits(*keeper);
  keeper->start();
  Shared& with = keeper->shared();
  for (;;) {
    const std::uint64_t epoch = with.epoch;
    with.memory_slots = kSlots;
    const auto page = [&](std::uint32_t slot) {
      return keeper->shadow() + std::uint64_t{slot} * kPageBytes;
    };
    for (const SlotChange& change : changed_in(epoch)) {
      apply(change, epoch, page);
      with.changes[with.change_count++] = change;
    }
    ImageHead head{kImageMagic, kFormatVersion, sizeof head, kTableBytes, kSlots, 0};
    head.crc = crc32c(&head, sizeof head - sizeof head.crc);
    std::memcpy(page(0), &head, sizeof head);
    with.changes[with.change_count++] = {0, 0, 1};
    ++with.epoch;
    ++with.staged;
    ::syscall(SYS_futex, &with.staged, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    while (with.committed != with.staged) std::this_thread::yield();
    if (::write(committed, &epoch, sizeof epoch) != sizeof epoch) ::_exit(1);
  }
}

class KeeperTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  /// Kills a process that stages, some time after it has begun to. Returns the last epoch that it was told of.
  std::uint64_t kill_one(int ms) const {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      stage_for_ever(directory_, GetParam(), ends[1]);
    }
    ::close(ends[1]);
    pollfd told{ends[0], POLLIN, 0};
    std::uint64_t last = 0;
    if (::poll(&told, 1, 20'000) == 1) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(ends[0], &last, sizeof last) == sizeof last) continue;
    ::close(ends[0]);
    return last;
  }

  /// Opens what is there, as a resume does. Returns its epoch; the image is that of this epoch.
  std::uint64_t recovered() const {
    const auto keeper = Keeper::open(directory_, {});
    const std::uint64_t epoch = keeper->store().epoch();
    ImageReader reader = keeper->reader();
    EXPECT_EQ(keeper->shared().epoch, epoch + 1);
    EXPECT_EQ(keeper->shared().memory_slots, kSlots);
    Page there;
    for (const auto& [slot, want] : golden(epoch)) {
      reader.read(slot, there.data());
      EXPECT_TRUE(there == want) << "slot " << slot << " of epoch " << epoch;
      if (slot >= kMemorySlot) continue;  // The runtime fetches memory itself.
      EXPECT_EQ(std::memcmp(keeper->shadow() + slot * kPageBytes, want.data(), kPageBytes), 0);
    }
    return epoch;
  }

  const std::string directory_ = (std::filesystem::temp_directory_path() /
                                  ("perdure-keeper-test-" + std::to_string(::getpid())))
                                     .string();
};

TEST_P(KeeperTest, TheNewestEpochAndTheOneBeforeAreThereAfterAnyKill) {
  std::mt19937 random(7);
  const char* more = std::getenv("PERDURE_RUN_KILLS");
  const int kills = more != nullptr ? std::atoi(more) : 25;
  std::uint64_t before = 0;
  int forgotten = 0;
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    const std::uint64_t told = kill_one(static_cast<int>(random() % 60));
    const std::uint64_t epoch = recovered();
    EXPECT_GE(epoch, told);
    EXPECT_LE(epoch, std::max(told, before) + 1);
    before = epoch;
    if (random() % 3 != 0 || epoch < 2) continue;
    Keeper::forget_last(directory_);
    EXPECT_EQ(recovered(), epoch - 1);
    before = epoch - 1;
    ++forgotten;
  }
  std::printf("killed %d times, %lu epochs, %d taken back\n", kills, before, forgotten);
  EXPECT_GE(forgotten, 1);
}
INSTANTIATE_TEST_SUITE_P(Durable, KeeperTest, ::testing::Bool(), [](const auto& power) {
  return std::string(power.param ? "Power" : "Process");
});

}  // namespace
}  // namespace perdure::run
