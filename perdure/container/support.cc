// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/support.h"

#include <algorithm>
#include <random>

#include "perdure/error.h"

namespace perdure::detail {

void ChainLength::refuse() {
  throw Exception(Code::kCorrupt,
                  "a chain of more entries than any sound table has; the pool is damaged, run "
                  "`perdure check` on it");
}

std::uint64_t random_seed() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

bool any_twice(GrowingArray<std::uint64_t>& hashes) {
  std::sort(hashes.begin(), hashes.end());
  return std::adjacent_find(hashes.begin(), hashes.end()) != hashes.end();
}

}  // namespace perdure::detail
