// SPDX-License-Identifier: BSD-3-Clause
// The table of items: linear hashing made local, as hash_map's, over items that carry their hash. Written against the Tx
// face, for transactions and for checks.
//
// Buckets are opened in groups, in order; an opened bucket is unsplit, its items still in its nearest ancestor (its number
// without the highest bit, repeatedly) that is not. The first insertion that falls into it moves them over. So no
// transaction does more than one split and one opening.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/memcached/layout.h"
#include "perdure/container/hash.h"
#include "perdure/container/support.h"
#include "perdure/error.h"
#include "perdure/tx.h"

namespace perdure::memcached {

/// A key with its hash in one cache.
struct HashedKey {
  std::string_view text;
  std::uint32_t hash;
};

/// Reads and changes the table of one Cache inside a transaction. Costs nothing to make.
/// Errors: throws Exception kCorrupt when it meets what no cache holds; and those of the transaction.
template <class Tx>
class ItemTable {
 public:
  ItemTable(Tx& tx, Cache& cache) : tx_(&tx), cache_(&cache) {}

  struct Place {
    std::uint64_t bucket = 0;     // where the key belongs
    std::uint64_t stands_in = 0;  // where its chain is: that, or an ancestor
    link<Item>* head = nullptr;   // of the chain
    link<Item> first{};           // in the chain
    link<Item>* slot = nullptr;   // the link that refers to the item
    Item* item = nullptr;         // null: not there
    Item found{};                 // what it holds
    explicit operator bool() const { return item != nullptr; }
  };

  Place find(const HashedKey& key) {
    Place place;
    place.bucket = address(key.hash, open_buckets());
    locate(place);
    const Identity wanted{key.hash, static_cast<std::uint8_t>(key.text.size()), 0, 0};
    place.slot = place.head;
    for (link<Item> at = place.first; at; at = place.found.next) {
      Item* const item = tx_->at(at);
      tx_->read(&place.found, item, sizeof(Item));
      if (place.found.identity.hash == wanted.hash &&
          place.found.identity.key_bytes == wanted.key_bytes && key_is(item, key.text)) {
        if (place.found.value_bytes > kMaxValueBytes + kMaxKeyBytes) [[unlikely]]
          throw Exception(Code::kCorrupt, "memcached: an item of " +
                                              std::to_string(place.found.value_bytes) + " bytes");
        place.item = item;
        return place;
      }
      place.slot = &item->next;
    }
    return place;
  }

  /// Puts an item, whose next is place.first, into its chain. `place`: where find() did not find its key; nothing was
  /// changed since.
  void insert(Place& place, Item* item) {
    if (place.stands_in != place.bucket) {
      split(place);
      tx_->store(item->next, place.first);
    }
    tx_->store(*place.head, tx_->link_to(item));
  }
  /// Puts another object, with the same next, in the found one's place; what was there is freed.
  void replace(const Place& place, Item* item) {
    tx_->store(*place.slot, tx_->link_to(item));
    tx_->free(place.item);
  }
  void remove(link<Item>* slot, Item* item, link<Item> next) {
    tx_->store(*slot, next);
    tx_->free(item);
  }

  /// Opens the next buckets, unsplit, unless there is no room for their heads.
  void open_group() {
    const std::uint64_t buckets = open_buckets();
    const Segment segment = segment_of(buckets);
    if (segment.index >= kSegments) return;
    if (segment.first == buckets) {
      void* heads = nullptr;
      try {
        heads = tx_->allocate((segment.end - segment.first) * sizeof(link<Item>));
      } catch (const Exception& error) {
        if (error.code() != Code::kNoSpace) throw;
        return;
      }
      tx_->store(cache_->segments[segment.index], tx_->link_to(static_cast<link<Item>*>(heads)));
    }
    const std::uint64_t end = std::min(segment.end, round_down(buckets, kGroup) + kGroup);
    std::array<link<Item>, kGroup> unsplit;
    unsplit.fill(kUnsplit);
    tx_->write(head_of(buckets), unsplit.data(), (end - buckets) * sizeof(link<Item>));
    tx_->store(cache_->buckets, end);
  }

  /// Makes the table of a new cache.
  void make(std::uint64_t seed) {
    auto* heads = static_cast<link<Item>*>(tx_->allocate(kFirstBuckets * sizeof(link<Item>)));
    const std::array<link<Item>, kFirstBuckets> empty{};
    tx_->write(heads, empty.data(), sizeof(empty));
    tx_->store(cache_->segments[0], tx_->link_to(heads));
    tx_->store(cache_->seed, seed);
    tx_->store(cache_->buckets, kFirstBuckets);
  }

  /// Calls `f(slot, item, found)` for the items in a bucket's own chain, until it says that the item is gone (true: the
  /// walk goes on behind it) or not (false).
  template <class F>
  void for_each_in(std::uint64_t bucket, F&& f) {
    link<Item>* slot = head_of(bucket);
    link<Item> at = tx_->load(*slot);
    if (at == kUnsplit) return;
    while (at) {
      Item* const item = tx_->at(at);
      Item found;
      tx_->read(&found, item, sizeof(found));
      if (!f(slot, item, found)) slot = &item->next;
      at = found.next;
    }
  }

  std::uint64_t open_buckets() const {
    const std::uint64_t buckets = tx_->load(cache_->buckets);
    if (buckets - 1 >= kMaxBuckets) [[unlikely]]
      throw Exception(Code::kCorrupt, "memcached: claims " + std::to_string(buckets) + " buckets");
    return buckets;
  }

  void read_key(const Item* item, char* to, std::size_t bytes) const {
    tx_->read(to, bytes_of(item) + kKeyOffset, bytes);
  }
  static char* bytes_of(const Item* item) {
    return reinterpret_cast<char*>(const_cast<Item*>(item));
  }

  /// See Cache::audit().
  template <class Visit>
  std::optional<std::string> audit(Visit& visit) {
    const std::uint64_t buckets = open_buckets();
    for (std::uint64_t first = 0; first < buckets; first = segment_of(first).end) {
      const Segment segment = segment_of(first);
      if (detail::room_at(visit, tx_->load(cache_->segments[segment.index])) <
          (segment.end - segment.first) * sizeof(link<Item>))
        return "memcached: segment " + std::to_string(segment.index) + " overruns its object";
    }
    std::uint64_t items = 0;
    std::uint64_t bytes = 0;
    for (const Tally& tally : cache_->tallies) {
      items += tx_->load(tally.items);
      bytes += tx_->load(tally.bytes);
    }
    for (const link<Item>& staged : cache_->staged) {
      if (const link<Item> at = tx_->load(staged)) detail::room_at(visit, at);
    }
    const std::uint64_t seed = tx_->load(cache_->seed);
    std::uint64_t seen = 0;
    std::uint64_t occupied = 0;
    std::vector<std::string> keys;  // of one chain: a key stands in it once
    for (std::uint64_t number = 0; number < buckets; ++number) {
      const std::string where = "memcached: bucket " + std::to_string(number);
      link<Item> next = tx_->load(*head_of(number));
      if (next == kUnsplit) {
        if (number == 0) return where + " is unsplit, and has no ancestor";
        continue;
      }
      keys.clear();
      while (next) {
        // Counted before it is followed, so that a circle ends here.
        if (++seen > items)
          return where + ": more items than the " + std::to_string(items) + " counted, or a circle";
        const std::string item_at = where + ": the item at offset " + std::to_string(next.offset);
        const std::uint64_t room = detail::room_at(visit, next);
        const Item* item = tx_->at(next);
        if (room < sizeof(Item)) return item_at + " overruns its object";
        Item found;
        tx_->read(&found, item, sizeof(found));
        const std::uint64_t size = item_bytes(found.identity.key_bytes, found.value_bytes);
        if (room < size) return item_at + " overruns its object";
        occupied += occupied_bytes(size);
        std::string key(found.identity.key_bytes, '\0');
        read_key(item, key.data(), key.size());
        const auto hash =
            static_cast<std::uint32_t>(detail::hash_memory(key.data(), key.size(), seed));
        if (hash != found.identity.hash) return item_at + " has another hash than its key";
        Place place;
        place.bucket = address(hash, buckets);
        locate(place);
        if (place.stands_in != number) return item_at + " belongs to another bucket";
        keys.push_back(std::move(key));
        next = found.next;
      }
      std::sort(keys.begin(), keys.end());
      if (std::adjacent_find(keys.begin(), keys.end()) != keys.end())
        return where + " holds a key twice";
    }
    if (seen != items || occupied != bytes)
      return "memcached: " + std::to_string(items) + " items of " + std::to_string(bytes) +
             " bytes counted, " + std::to_string(seen) + " of " + std::to_string(occupied) +
             " found";
    return std::nullopt;
  }

  /// Where a hash's chain begins if so many buckets are open and its own is split: a guess, without a transaction. 0: none.
  static Offset guess_head(const Cache& cache, std::uint32_t hash, std::uint64_t buckets) {
    const std::uint64_t number = address(hash, buckets);
    const Segment segment = segment_of(number);
    const Offset heads =
        load_word(reinterpret_cast<const Word*>(&cache.segments[segment.index].offset));
    return heads == 0 ? 0 : heads + (number - segment.first) * sizeof(link<Item>);
  }

 private:
  struct Segment {
    std::size_t index;
    std::uint64_t first;
    std::uint64_t end;
  };
  static constexpr Segment segment_of(std::uint64_t number) {
    if (number < kFirstBuckets) return {0, 0, kFirstBuckets};
    const std::uint64_t first = std::bit_floor(number);
    return {static_cast<std::size_t>(std::countr_zero(first / kFirstBuckets)) + 1, first,
            2 * first};
  }
  /// The bucket of a hash: its lowest bits, as many as give an open bucket.
  static constexpr std::uint64_t address(std::uint64_t hash, std::uint64_t buckets) {
    const std::uint64_t low = std::bit_floor(buckets);
    const std::uint64_t number = hash & (2 * low - 1);
    return number < buckets ? number : number - low;
  }
  link<Item>* head_of(std::uint64_t number) const {
    const Segment segment = segment_of(number);
    return tx_->at(tx_->load(cache_->segments[segment.index])) + (number - segment.first);
  }
  void locate(Place& place) const {
    for (std::uint64_t number = place.bucket;; number -= std::bit_floor(number)) {
      place.head = head_of(number);
      place.first = tx_->load(*place.head);
      place.stands_in = number;
      if (place.first != kUnsplit) return;
      if (number == 0) [[unlikely]]
        throw Exception(Code::kCorrupt, "memcached: bucket 0 is unsplit, and has no ancestor");
    }
  }
  bool key_is(const Item* item, std::string_view key) const {
    std::array<char, kMaxKeyBytes + 5> stored;
    read_key(item, stored.data(), key.size());
    return std::memcmp(stored.data(), key.data(), key.size()) == 0;
  }

  /// Moves the items of the unsplit bucket there, out of its ancestor, storing only the links that change.
  void split(Place& place) {
    const std::uint64_t mask = (std::uint64_t{1} << std::bit_width(place.bucket)) - 1;
    struct Tail {
      link<Item>* slot;
      link<Item> value;  // what `slot` holds now
    };
    const auto set = [this](const Tail& tail, link<Item> to) {
      if (tail.value != to) tx_->store(*tail.slot, to);
    };
    Tail staying{place.head, place.first};
    place.head = head_of(place.bucket);
    Tail moving{place.head, kUnsplit};
    link<Item> first{};
    for (link<Item> at = place.first; at;) {
      Item* const item = tx_->at(at);
      Item found;
      tx_->read(&found, item, sizeof(found));
      const bool moves = (found.identity.hash & mask) == place.bucket;
      if (moves && !first) first = at;
      Tail& tail = moves ? moving : staying;
      set(tail, at);
      tail = {&item->next, found.next};
      at = found.next;
    }
    set(staying, {});
    set(moving, {});
    place.first = first;
    place.stands_in = place.bucket;
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
