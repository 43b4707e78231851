// SPDX-License-Identifier: BSD-3-Clause
// One container source, two lives: in a pool under transactions, and in ordinary memory with
// PlainTx. The second is the baseline of what durability costs, and lets the logic be tested
// without any file.
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "perdure/container/hash_map.h"
#include "perdure/pool.h"

namespace {

using Squares = perdure::hash_map<std::uint64_t, std::uint64_t>;
constexpr std::uint64_t kCount = 200;

/// `run(body)` runs body(tx) as a transaction of its world.
template <class Run>
bool fill_and_check(const char* name, Squares& squares, Run run) {
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < kCount; ++i) {
    run([&](auto& tx) { squares.put(tx, i, i * i); });
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  std::printf("%-10s %8.2f us per insertion\n", name, took.count() / kCount);
  bool right = true;
  run([&](auto& tx) {
    right = squares.size(tx) == kCount && squares.get(tx, 12) == 144u;
    squares.clear(tx);
  });
  return right;
}

}  // namespace

int main() {  // NOLINT(bugprone-exception-escape): an error may end an example
  perdure::PlainTx plain;
  Squares in_memory{};
  const bool first = fill_and_check("volatile", in_memory, [&](auto body) { body(plain); });

  auto pool = perdure::Pool::open_or_create("squares.pool").value();
  const bool second = fill_and_check("durable", *pool.root<Squares>("squares"),
                                     [&](auto body) { pool.atomically(body); });
  return first && second ? 0 : 1;
}
