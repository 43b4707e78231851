// SPDX-License-Identifier: BSD-3-Clause
// What a pool that holds a directory looks like: one object at the root "ldap.directory".
//
//   entries    entry id -> the entry (see entry.h)
//   names      parent id, normalised level of the name -> entry id
//   children   (parent id, entry id), in order: an entry's children stand side by side
//   equality   which entries have this value of that attribute, for attributes that are indexed
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/string.h"

namespace perdure::ldap {

using EntryId = std::uint64_t;
inline constexpr EntryId kNoEntry = 0;  // above the suffixes

/// A pair in order of its first half, then of its second: (parent, child), (value, entry).
struct Pair {
  std::uint64_t first;
  std::uint64_t second;
  friend bool operator<(const Pair& a, const Pair& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  }
};
/// An ordered set of pairs; the mapped byte says nothing.
using PairSet = btree_map<Pair, std::uint8_t>;

/// (hash of attribute and value) -> entries. Most values belong to one entry, and stand in a hash
/// map; those of several stand in a tree. Different values may share a hash, so what is found is a
/// candidate.
class EqualityIndex {
 public:
  template <class Tx>
  void add(Tx& tx, std::uint64_t hash, EntryId id) {
    const std::optional<EntryId> single = single_.get(tx, hash);
    if (!single) {
      single_.put(tx, hash, id);
      return;
    }
    if (*single == id) return;
    if (*single != kSeveral) {
      shared_.put(tx, {hash, *single}, 0);
      single_.put(tx, hash, kSeveral);
    }
    shared_.put(tx, {hash, id}, 0);
  }

  template <class Tx>
  void remove(Tx& tx, std::uint64_t hash, EntryId id) {
    const std::optional<EntryId> single = single_.get(tx, hash);
    if (single == id) single_.erase(tx, hash);
    if (single != kSeveral || !shared_.erase(tx, {hash, id})) return;
    const auto left = shared_.lower_bound(tx, {hash, 0});
    if (!left || left->first.first != hash) single_.erase(tx, hash);
  }

  /// Calls `f(id)` for the entries with an id of `from` or more, in ascending order, until it says
  /// false.
  template <class Tx, class F>
  void for_each(Tx& tx, std::uint64_t hash, EntryId from, F&& f) const {
    const std::optional<EntryId> single = single_.get(tx, hash);
    if (!single) return;
    if (*single != kSeveral) {
      if (*single >= from) f(*single);
      return;
    }
    shared_.for_each_in(tx, {hash, from}, {hash, ~EntryId{0}},
                        [&](const Pair& pair, std::uint8_t) { return f(pair.second); });
  }

  /// Calls `f(hash, id)` for every posting.
  template <class Tx, class F>
  void for_each(Tx& tx, F&& f) const {
    single_.for_each(tx, [&](std::uint64_t hash, EntryId id) {
      if (id != kSeveral) f(hash, id);
    });
    shared_.for_each(tx, [&](const Pair& pair, std::uint8_t) { f(pair.first, pair.second); });
  }

  /// Erases about so many postings; true when none is left.
  template <class Tx>
  bool clear_some(Tx& tx, std::size_t count) {
    return single_.clear_some(tx, count) && shared_.clear_some(tx, count);
  }
  template <class Tx>
  void use_seed(Tx& tx, std::uint64_t seed) {
    single_.use_seed(tx, seed);
  }
  template <class Tx, class Visit>
  std::optional<std::string> audit(Tx& tx, Visit&& visit) const {
    if (auto wrong = single_.audit(tx, visit)) return wrong;
    return shared_.audit(tx, visit);
  }

 private:
  friend detail::Salvage<EqualityIndex>;
  static constexpr EntryId kSeveral = ~EntryId{0};

  hash_map<std::uint64_t, std::uint64_t> single_;
  PairSet shared_;
};

/// The root object; all-zero bytes are the empty directory.
/// Invariants, between transactions: names, children and equality say nothing but what the entries
/// say; of every entry but a suffix the parent is there.
struct Store {
  hash_map<std::uint64_t, bytes> entries;
  hash_map<bytes, std::uint64_t> names;
  PairSet children;
  EqualityIndex equality;
  /// "=" and the indexed attributes, comma-separated; empty while the index is not whole.
  string indexed;
  EntryId drawn;  // ids so far; none is used again

  /// As the containers' audit().
  template <class Tx, class Visit>
  std::optional<std::string> audit(Tx& tx, Visit&& visit) const {
    if (auto wrong = entries.audit(tx, visit)) return "entries: " + *wrong;
    if (auto wrong = names.audit(tx, visit)) return "names: " + *wrong;
    if (auto wrong = children.audit(tx, visit)) return "children: " + *wrong;
    if (auto wrong = equality.audit(tx, visit)) return "equality: " + *wrong;
    return indexed.audit(tx, visit);
  }
};

inline constexpr const char* kRoot = "ldap.directory";

}  // namespace perdure::ldap

template <>
inline constexpr bool perdure::is_persistable_by_promise<perdure::ldap::EqualityIndex> = true;
