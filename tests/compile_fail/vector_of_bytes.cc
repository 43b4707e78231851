// Expect: perdure: a vector's elements have one size
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/vector.h"

std::uint64_t size(perdure::PlainTx& tx, perdure::vector<perdure::bytes>& texts) {
  return texts.size(tx);
}
