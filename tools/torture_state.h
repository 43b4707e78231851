// SPDX-License-Identifier: BSD-3-Clause
// What the torture workload keeps in its pool, and what it must be after any number of its
// transactions.
//
// Everything that thread t does in its n-th transaction follows from (t, n). So the numbers of
// committed transactions, which the pool stores, determine every balance, every record and the
// ledger: the verifier compares all of them, and a lost, half-done or repeated transaction cannot
// hide.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "perdure/container/hash_map.h"

namespace perdure::tools {

inline constexpr std::size_t kAccounts = 64;
inline constexpr std::size_t kMaxTortureThreads = 16;
inline constexpr std::uint64_t kKeysPerThread = 64;
inline constexpr std::int64_t kOpeningBalance = 1000;

struct TortureState {
  struct Line {
    std::uint64_t value;
    std::array<std::uint64_t, 7> padding;  // threads do not conflict over their own numbers
  };
  std::array<std::int64_t, kAccounts> balances;
  std::array<Line, kMaxTortureThreads> committed;  // by thread: its last transaction's number
  std::uint64_t ledger;                            // how many records there are
  std::uint64_t opened;                            // 1 when the accounts have their opening balance
};

using TortureMap = hash_map<bytes, bytes>;

/// The n-th transaction of a thread.
struct TortureStep {
  bool transfer;
  std::size_t from;
  std::size_t to;
  std::int64_t amount;
  bool erase;
  std::uint64_t key;
};

inline std::uint64_t torture_random(std::uint64_t thread, std::uint64_t n, std::uint64_t salt) {
  std::uint64_t x =
      (thread + 1) * 0x9e3779b97f4a7c15u ^ n * 0xd1342543de82ef95u ^ salt * 0xaf251af3b0f025b5u;
  x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
  x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
  return x ^ x >> 33;
}

inline TortureStep torture_step(std::uint64_t thread, std::uint64_t n) {
  const std::uint64_t r = torture_random(thread, n, 1);
  return {.transfer = r % 2 == 0,
          .from = r / 2 % kAccounts,
          .to = r / 128 % kAccounts,
          .amount = static_cast<std::int64_t>(r >> 16 & 127),
          .erase = (r >> 24) % 3 == 0,
          .key = (r >> 32) % kKeysPerThread};
}

inline std::string torture_key(std::uint64_t thread, std::uint64_t key) {
  return std::to_string(thread) + ":" + std::to_string(key);
}

/// Mostly small; one in 64 needs an extent, one in 512 is larger than half a log, so that its
/// record is spilled.
inline std::string torture_value(std::uint64_t thread, std::uint64_t n) {
  const std::uint64_t r = torture_random(thread, n, 2);
  std::uint64_t size = r % 400;
  if (r >> 32 & 1023) {
    if ((r >> 32) % 64 == 0) size += 5000;
  } else {
    size += 150000;
  }
  std::string value(size, '\0');
  for (std::uint64_t i = 0; i < size; ++i)
    value[i] = static_cast<char>(torture_random(thread, n, 3 + i / 8) >> i % 8 * 8);
  return value;
}

}  // namespace perdure::tools
