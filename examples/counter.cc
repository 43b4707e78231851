// SPDX-License-Identifier: BSD-3-Clause
// The smallest program that remembers: counts how often it was started.
#include <cstdint>
#include <cstdio>

#include "perdure/pool.h"

int main() {  // NOLINT(bugprone-exception-escape): an error may end an example
  auto opened = perdure::Pool::open_or_create("counter.pool");
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 1;
  }
  perdure::Pool& pool = opened.value();
  auto* runs = pool.root<std::uint64_t>("runs");
  const std::uint64_t count = pool.atomically([&](auto& tx) {
    const std::uint64_t next = tx.load(*runs) + 1;
    tx.store(*runs, next);
    return next;
  });
  std::printf("started %llu times; this survives %s\n", static_cast<unsigned long long>(count),
              std::string(pool.guarantee()).c_str());
}
