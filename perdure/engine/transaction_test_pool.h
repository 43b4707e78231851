// SPDX-License-Identifier: BSD-3-Clause
// The pool that the tests of transactions run on, for each engine.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "perdure/engine/transaction.h"
#include "tests/small_pool.h"

namespace perdure::testing {

inline constexpr Geometry kWide = {std::uint64_t{16} << 20, std::uint64_t{128} << 10, 64 << 10, 20,
                                   16};
inline constexpr int kRounds = kSanitized ? 2000 : 20000;

struct Accounts {
  std::array<std::uint64_t, 64> balance;
};
struct Bytes {
  std::array<std::uint8_t, 64> byte;
};
struct Node {
  std::uint64_t value;
  perdure::pptr<Node> next;
};

/// A pool in memory that can be restarted as if the process had been killed.
struct TransactionTest : ::testing::TestWithParam<EngineKind> {
  explicit TransactionTest(const Geometry& geometry = kWide) : image(Image::formatted(geometry)) {}
  /// The state that a kill at this moment would leave.
  Pool after_kill() {
    // Nobody writes while the memory is copied.
    if (is_softwrap(GetParam())) pool.set_truncation(Truncation::kWhenFull);
    killed = std::make_unique<Image>(image);
    return killed->pool(GetParam()).value();
  }
  /// The field as it was committed last; not every engine has it home yet.
  template <class T>
  T committed(const T& field) {
    return pool.read_only([&](Tx& tx) { return tx.load(field); });
  }
  Image image;
  std::unique_ptr<Image> killed;
  Pool pool = image.pool(GetParam(), 12).value();
};

/// Two threads that take turns.
class Turns {
 public:
  void wait_for(int turn) {
    while (turn_.load() < turn) std::this_thread::yield();
  }
  void next() { ++turn_; }

 private:
  std::atomic<int> turn_{0};
};

}  // namespace perdure::testing
