// SPDX-License-Identifier: BSD-3-Clause
// ChainedHash: a hash table with a fixed number of buckets, each a chain. One source for every system, so that what differs
// between them is their transactions, not their tables.
#pragma once

#include <bit>
#include <cstdint>

#include "perdure/pptr.h"

namespace perdure::bench {

/// Lives in memory of the transactions that it is used in; all-zero bytes until made.
/// Threads: as the transaction.
struct ChainedHash {
  struct Node {
    std::uint64_t key;
    std::uint64_t value;
    pptr<Node> next;
  };

  /// How many buckets a table for so many entries has.
  static std::uint64_t buckets_for(std::uint64_t entries) { return std::bit_ceil(entries); }
  /// The bytes of its array of buckets, all zero, which the caller allocates.
  static std::uint64_t array_bytes(std::uint64_t entries) {
    return buckets_for(entries) * sizeof(pptr<Node>);
  }
  template <class Tx>
  void make(Tx& tx, void* zeroed_array, std::uint64_t entries) {
    tx.store(buckets, tx.link_to(static_cast<pptr<Node>*>(zeroed_array)));
    tx.store(shift, std::uint64_t{64} - std::countr_zero(buckets_for(entries)));
  }

  /// Inserts, unless the key is there: false.
  template <class Tx>
  bool insert(Tx& tx, std::uint64_t key, std::uint64_t value) {
    pptr<Node>& bucket = bucket_of(tx, key);
    const pptr<Node> first = tx.load(bucket);
    for (pptr<Node> at = first; at;) {
      Node* node = tx.at(at);
      if (tx.load(node->key) == key) return false;
      at = tx.load(node->next);
    }
    auto* node = static_cast<Node*>(tx.allocate(sizeof(Node)));
    tx.store(node->key, key);
    tx.store(node->value, value);
    tx.store(node->next, first);
    tx.store(bucket, tx.link_to(node));
    return true;
  }
  template <class Tx>
  bool erase(Tx& tx, std::uint64_t key) {
    pptr<Node>* slot = &bucket_of(tx, key);
    for (pptr<Node> at = tx.load(*slot); at; at = tx.load(*slot)) {
      Node* node = tx.at(at);
      if (tx.load(node->key) == key) {
        tx.store(*slot, tx.load(node->next));
        tx.free(node);
        return true;
      }
      slot = &node->next;
    }
    return false;
  }
  template <class Tx>
  void clear(Tx& tx) {
    for (std::uint64_t place = 0; place <= ~std::uint64_t{0} >> tx.load(shift); ++place) {
      pptr<Node>& bucket = tx.at(tx.load(buckets))[place];
      while (const pptr<Node> at = tx.load(bucket)) {
        Node* node = tx.at(at);
        tx.store(bucket, tx.load(node->next));
        tx.free(node);
      }
    }
  }
  /// Its value; 0 if there is none.
  template <class Tx>
  std::uint64_t get(Tx& tx, std::uint64_t key) {
    for (pptr<Node> at = tx.load(bucket_of(tx, key)); at;) {
      Node* node = tx.at(at);
      if (tx.load(node->key) == key) return tx.load(node->value);
      at = tx.load(node->next);
    }
    return 0;
  }

  template <class Tx>
  pptr<Node>& bucket_of(Tx& tx, std::uint64_t key) {
    const std::uint64_t place = key * 0x9e3779b97f4a7c15u >> tx.load(shift);
    return tx.at(tx.load(buckets))[place];
  }

  pptr<pptr<Node>> buckets;
  std::uint64_t shift;
};

}  // namespace perdure::bench
