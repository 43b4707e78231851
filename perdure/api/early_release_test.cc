// SPDX-License-Identifier: BSD-3-Clause
// On files a commit is visible before it is durable: what others see of it, and what they return.
#include <array>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/domain/sync.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::Image;

/// A device that can be stopped: whoever waits for it then waits until it goes on, or fails.
class Gate {
 public:
  void close() { set(State::kClosed); }
  void open() { set(State::kOpen); }
  void fail() { set(State::kFails); }
  /// Returns when somebody waits at the closed gate.
  void await_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }
  bool pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return state_ != State::kClosed; });
    --waiting_;
    return state_ == State::kOpen;
  }

 private:
  enum class State { kOpen, kClosed, kFails };
  void set(State state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kOpen;
  int waiting_ = 0;
};

struct GatedDevice {
  Gate* gate;
  bool write(Offset, const void*, std::size_t) { return true; }
  bool write_durable(Offset, const void*, std::size_t) { return gate->pass(); }
  bool sync() { return gate->pass(); }
};

struct alignas(kLineBytes) Line {
  std::uint64_t word;
  std::uint32_t part;
};
struct Root {
  Line counter;
  Line other;
};

class EarlyRelease : public ::testing::Test {
 protected:
  EarlyRelease()
      : memory_(Image::formatted(
            {std::uint64_t{1} << 20, std::uint64_t{128} << 10, 4 * kPageBytes, 8, 4})),
        group_(GatedDevice{&gate_}, memory_.base()),
        pool_(adopt_region(memory_.region(DomainKind::kSync).value(), {[&](EngineParts parts) {
                             return std::make_unique<Redo<Sync<GatedDevice>>>(
                                 parts, Sync<GatedDevice>(group_));
                           }},
                           10)
                  .value()),
        root_(pool_.root<Root>("root")) {
    // Two threads are there: one alone would show its commits to nobody.
    std::thread([&] { pool_.read_only([](Tx&) {}); }).join();
  }

  std::uint64_t increment() {
    return pool_.atomically([&](Tx& tx) {
      const std::uint64_t next = tx.load(root_->counter.word) + 1;
      tx.store(root_->counter.word, next);
      return next;
    });
  }
  std::uint64_t read() {
    return pool_.read_only([&](Tx& tx) { return tx.load(root_->counter.word); });
  }
  /// A commit that waits at the closed gate.
  std::future<std::uint64_t> begin_increment() {
    gate_.close();
    auto first = std::async(std::launch::async, [&] { return increment(); });
    gate_.await_visitor();
    return first;
  }
  /// While a commit waits, `call` throws what it has seen of it; it must wait, too.
  template <class Call>
  void expect_told_late(const char* seen, Call call) {
    auto first = begin_increment();
    auto failing = std::async(std::launch::async, call);
    EXPECT_FALSE(has_returned(failing));
    gate_.open();
    try {
      failing.get();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), seen);
    }
    first.get();
  }
  template <class T>
  static bool has_returned(std::future<T>& call) {
    return call.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
  }

  Gate gate_;
  Image memory_;
  SyncGroup<GatedDevice> group_;
  Pool pool_;
  Root* root_;
};

TEST_F(EarlyRelease, OthersBuildOnACommitThatStillWaitsAndReturnWithIt) {
  auto first = begin_increment();
  std::promise<std::uint64_t> seen;
  auto second = std::async(std::launch::async, [&] {
    return pool_.atomically([&](Tx& tx) {
      const std::uint64_t before = tx.load(root_->counter.word);
      seen.set_value(before);
      tx.store(root_->counter.word, before + 1);
      return before + 1;
    });
  });
  EXPECT_EQ(seen.get_future().get(), 1u);
  EXPECT_FALSE(has_returned(first));
  EXPECT_FALSE(has_returned(second));
  gate_.open();
  EXPECT_EQ(first.get(), 1u);
  EXPECT_EQ(second.get(), 2u);
}

TEST_F(EarlyRelease, AReaderReturnsWhatItHasSeenOnlyWhenThatIsDurable) {
  auto first = begin_increment();
  auto reader = std::async(std::launch::async, [&] { return read(); });
  auto elsewhere = std::async(std::launch::async, [&] {
    return pool_.read_only([&](Tx& tx) { return tx.load(root_->other.word); });
  });
  EXPECT_EQ(elsewhere.get(), 0u);  // it waits for nothing
  EXPECT_FALSE(has_returned(reader));
  gate_.open();
  EXPECT_EQ(reader.get(), 1u);
  EXPECT_EQ(first.get(), 1u);
}

TEST_F(EarlyRelease, ARelaxedReaderWaitsForNothing) {
  auto first = begin_increment();
  auto reader = std::async(std::launch::async, [&] {
    return pool_.atomically(Durability::kRelaxed,
                            [&](Tx& tx) { return tx.load(root_->counter.word); });
  });
  EXPECT_EQ(reader.get(), 1u);
  EXPECT_FALSE(has_returned(first));
  gate_.open();
  EXPECT_EQ(first.get(), 1u);
}

TEST_F(EarlyRelease, AReaderDoesNotWaitForWhatARelaxedCommitWrote) {
  gate_.close();
  std::thread([&] {
    pool_.atomically(Durability::kRelaxed,
                     [&](Tx& tx) { tx.store(root_->counter.word, std::uint64_t{7}); });
  }).join();
  auto reader = std::async(std::launch::async, [&] { return read(); });
  EXPECT_EQ(reader.get(), 7u);
  gate_.open();
}

TEST_F(EarlyRelease, AnExceptionThatTellsWhatWasSeenLeavesWhenThatIsDurable) {
  const auto tell = [&](Tx& tx) {
    throw std::runtime_error(std::to_string(tx.load(root_->counter.word)));
  };
  const auto own_and_tell = [&](Tx& tx) {
    tx.store(root_->counter.part, 5u);  // takes the line's ownership record
    tell(tx);
  };
  expect_told_late("1", [&] { pool_.atomically(tell); });
  expect_told_late("2", [&] { pool_.atomically(own_and_tell); });
  EXPECT_EQ(pool_.read_only([&](Tx& tx) { return tx.load(root_->counter.part); }), 0u);
}

TEST_F(EarlyRelease, WhenTheDeviceFailsNobodyReturnsWhatMayBeLost) {
  auto first = begin_increment();
  auto second = std::async(std::launch::async, [&] { return increment(); });
  auto reader = std::async(std::launch::async, [&] { return read(); });
  EXPECT_FALSE(has_returned(second));
  EXPECT_FALSE(has_returned(reader));
  gate_.fail();
  EXPECT_EQ(code_thrown_by([&] { first.get(); }), "poisoned");
  EXPECT_EQ(code_thrown_by([&] { second.get(); }), "poisoned");
  EXPECT_EQ(code_thrown_by([&] { reader.get(); }), "poisoned");
  gate_.open();  // the device says that all is well again, and has lost what it had
  EXPECT_EQ(code_thrown_by([&] { read(); }), "poisoned");
  EXPECT_EQ(code_thrown_by([&] { increment(); }), "poisoned");
  EXPECT_EQ(pool_.read_only([&](Tx& tx) { return tx.load(root_->other.word); }), 0u);
  // However long the thread stays alone.
  for (int i = 0; i < 2000; ++i)
    ASSERT_EQ(pool_.read_only([&](Tx& tx) { return tx.load(root_->other.word); }), 0u);
  EXPECT_EQ(code_thrown_by([&] { read(); }), "poisoned");
}

TEST_F(EarlyRelease, ManyThreadsOnOneCounterLoseNoUpdateAndShareTheDevicesWrites) {
  constexpr int kThreads = 7;  // and this one: as many as the pool has logs
  constexpr std::uint64_t kEach = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::uint64_t last = 0;
      for (std::uint64_t n = 0; n < kEach; ++n) {
        const std::uint64_t now = increment();
        EXPECT_GT(now, last);
        last = now;
        EXPECT_GE(read(), last);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read(), kThreads * kEach);
}

}  // namespace
}  // namespace perdure
