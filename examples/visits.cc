// SPDX-License-Identifier: BSD-3-Clause
// Counts visits, thousands in a second, on a disk that takes a tenth of a millisecond for each write: no single visit is
// worth waiting for, but none may be counted without those before it, and a bill is only sent when its visits are safe.
#include <cstdio>

#include "perdure/pool.h"

struct Visits {
  std::uint64_t count;
  std::uint64_t billed;
};

int main() {  // NOLINT(bugprone-exception-escape): an error may end an example
  perdure::Pool pool = perdure::Pool::open_or_create("visits.pool").value();
  Visits& visits = *pool.root<Visits>("visits");
  for (int i = 0; i < 1000; ++i) {
    pool.atomically(perdure::Durability::kRelaxed, [&](perdure::Tx& tx) {
      tx.store(visits.count, tx.load(visits.count) + 1);
    });
  }
  // Waits for the disk, once for all.
  const auto bill = pool.atomically([&](perdure::Tx& tx) {
    const std::uint64_t due = tx.load(visits.count) - tx.load(visits.billed);
    tx.store(visits.billed, tx.load(visits.count));
    return due;
  });
  std::printf("%llu visits to pay\n", static_cast<unsigned long long>(bill));
}
