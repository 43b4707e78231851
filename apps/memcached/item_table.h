// SPDX-License-Identifier: BSD-3-Clause
// The table of items: a linear hash table (perdure/container/linear_hash.h) of items that carry their hash. Written against
// the Tx face, for transactions and for checks.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "apps/memcached/layout.h"
#include "perdure/container/linear_hash.h"
#include "perdure/container/support.h"
#include "perdure/error.h"
#include "perdure/tx.h"

namespace perdure::memcached {

/// A key with its hash in one cache.
struct HashedKey {
  std::string_view text;
  std::uint32_t hash;
};

using Buckets = perdure::detail::LinearHash<Cache, Item>;

/// Reads and changes the table of one Cache inside a transaction. Costs nothing to make.
/// Errors: throws Exception kCorrupt when it meets what no cache holds; and those of the transaction.
template <class Tx>
class ItemTable {
 public:
  ItemTable(Tx& tx, Cache& cache) : tx_(&tx), cache_(&cache) {}

  struct Place {
    std::uint64_t bucket = 0;     // where the key belongs
    Buckets::Bucket stands_in{};  // where its chain is: that, or an ancestor
    pptr<Item>* slot = nullptr;   // the link that refers to the item
    Item* item = nullptr;         // null: not there
    Item found{};                 // what it holds
    explicit operator bool() const { return item != nullptr; }
  };

  Place find(const HashedKey& key) {
    Place place;
    place.bucket = Buckets::address(key.hash, open_buckets());
    place.stands_in = Buckets::locate(*tx_, *cache_, place.bucket);
    const Identity wanted{key.hash, static_cast<std::uint8_t>(key.text.size()), 0, 0};
    place.slot = place.stands_in.head;
    perdure::detail::ChainLength length;
    for (pptr<Item> at = place.stands_in.first; at; at = place.found.next) {
      length.count();
      Item* const item = tx_->at(at);
      tx_->read(&place.found, item, sizeof(Item));
      if (place.found.identity.hash == wanted.hash &&
          place.found.identity.key_bytes == wanted.key_bytes && key_is(item, key.text)) {
        perdure::detail::check_object(*tx_, item,
                                      item_bytes(key.text.size(), place.found.value_bytes));
        place.item = item;
        return place;
      }
      place.slot = &item->next;
    }
    return place;
  }

  /// Puts an item, whose next is place.stands_in.first, into its chain. `place`: where find() did not find its key; nothing
  /// was changed since.
  void insert(Place& place, Item* item) {
    if (place.stands_in.number != place.bucket) {
      place.stands_in =
          Buckets::split(*tx_, *cache_, place.stands_in, place.bucket,
                         [this](const Item* of) { return tx_->load(of->identity).hash; });
      tx_->store(item->next, place.stands_in.first);
    }
    tx_->store(*place.stands_in.head, tx_->link_to(item));
  }
  /// Puts another object, with the same next, in the found one's place; what was there is freed.
  void replace(const Place& place, Item* item) {
    tx_->store(*place.slot, tx_->link_to(item));
    tx_->free(place.item);
  }
  void remove(pptr<Item>* slot, Item* item, pptr<Item> next) {
    tx_->store(*slot, next);
    tx_->free(item);
  }

  /// Opens the next buckets, unless there is no room for their heads.
  void open_group() { Buckets::open_group(*tx_, *cache_, open_buckets()); }

  /// Makes the table of a new cache.
  void make(std::uint64_t seed) {
    Buckets::make(*tx_, *cache_);
    tx_->store(cache_->seed, seed);
  }

  /// Calls `f(slot, item, found)` for the items in a bucket's own chain, until it says that the item is gone (true: the
  /// walk goes on behind it) or not (false).
  template <class F>
  void for_each_in(std::uint64_t bucket, F&& f) {
    pptr<Item>* slot = Buckets::head_of(*tx_, *cache_, bucket);
    pptr<Item> at = tx_->load(*slot);
    if (at == Buckets::kUnsplit) return;
    perdure::detail::ChainLength length;
    while (at) {
      length.count();
      Item* const item = tx_->at(at);
      Item found;
      tx_->read(&found, item, sizeof(found));
      if (!f(slot, item, found)) slot = &item->next;
      at = found.next;
    }
  }

  std::uint64_t open_buckets() const { return Buckets::open_buckets(*tx_, *cache_); }

  void read_key(const Item* item, char* to, std::size_t bytes) const {
    tx_->read(to, bytes_of(item) + kKeyOffset, bytes);
  }
  static char* bytes_of(const Item* item) {
    return reinterpret_cast<char*>(const_cast<Item*>(item));
  }

  /// Whether an item in an object of such room is whole: then `found` is what it says, and the hash
  /// is its key's.
  typename Buckets::Looked look(std::uint64_t seed, const Item* item, const detail::Room& room,
                                Item& found) const {
    if (!room.holds(sizeof(Item))) return {0, "overruns its object"};
    tx_->read(&found, item, sizeof(found));
    if (!room.holds(item_bytes(found.identity.key_bytes, found.value_bytes)))
      return {0, "overruns its object"};
    std::array<char, 256> key;
    read_key(item, key.data(), found.identity.key_bytes);
    const std::uint64_t hash = detail::hash_memory(key.data(), found.identity.key_bytes, seed);
    if (static_cast<std::uint32_t>(hash) != found.identity.hash)
      return {0, "has another hash than its key"};
    return {hash};
  }

  /// See Cache::audit().
  template <class Visit>
  std::optional<std::string> audit(Visit& visit) {
    std::uint64_t items = 0;
    std::uint64_t bytes = 0;
    for (const Tally& tally : cache_->tallies) {
      items += tx_->load(tally.items);
      bytes += tx_->load(tally.bytes);
    }
    for (const pptr<Item>& staged : cache_->staged) {
      if (const pptr<Item> at = tx_->load(staged)) detail::room_at(visit, at);
    }
    const std::uint64_t seed = tx_->load(cache_->seed);
    std::uint64_t occupied = 0;
    const auto look_at = [&](const Item* item, const detail::Room& room) {
      Item found;
      const auto looked = look(seed, item, room, found);
      if (looked.wrong == nullptr)
        occupied += occupied_bytes(item_bytes(found.identity.key_bytes, found.value_bytes));
      return looked;
    };
    if (auto wrong = Buckets::audit(*tx_, *cache_, items, visit, look_at)) return wrong;
    if (occupied != bytes)
      return "memcached: items of " + std::to_string(bytes) + " bytes counted, of " +
             std::to_string(occupied) + " found";
    return std::nullopt;
  }

  /// Where a hash's chain begins if so many buckets are open and its own is split: a guess, without a transaction. 0: none.
  static Offset guess_head(const Cache& cache, std::uint32_t hash, std::uint64_t buckets) {
    const std::uint64_t number = Buckets::address(hash, buckets);
    const Buckets::Segment segment = Buckets::segment_of(number);
    const Offset heads =
        load_word(reinterpret_cast<const Word*>(&cache.segments[segment.index].offset));
    return heads == 0 ? 0 : heads + (number - segment.first) * sizeof(pptr<Item>);
  }

 private:
  bool key_is(const Item* item, std::string_view key) const {
    std::array<char, kMaxKeyBytes + 5> stored;
    read_key(item, stored.data(), key.size());
    return std::memcmp(stored.data(), key.data(), key.size()) == 0;
  }

  Tx* tx_;
  Cache* cache_;
};

template <class Tx, class Visit>
auto Cache::audit(Tx& tx, Visit&& visit) const {
  std::optional<std::string> wrong;
  const std::uint64_t found = tx.load(magic);
  if (found == 0) return wrong;  // made, and never used
  if (found != kMagic || tx.load(version) != kVersion) {
    wrong = "memcached: the magic or the version is not that of a cache that this release knows";
    return wrong;
  }
  wrong = ItemTable<std::remove_reference_t<Tx>>(tx, const_cast<Cache&>(*this)).audit(visit);
  return wrong;
}

}  // namespace perdure::memcached
