// Expect: perdure: a hash_map key is compared byte by byte
// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>

#include "perdure/container/hash_map.h"

struct Key {
  std::uint8_t kind;  // three bytes of padding follow
  std::uint32_t number;
};

bool contains(perdure::PlainTx& tx, perdure::hash_map<Key, int>& map) {
  return map.contains(tx, {1, 2});
}
