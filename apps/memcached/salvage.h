// SPDX-License-Identifier: BSD-3-Clause
// What can be proved of a damaged cache: its items, and a cache that is made of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "apps/memcached/item_table.h"
#include "perdure/container/salvage.h"
#include "perdure/pool.h"

namespace perdure::memcached {

class CacheCopier {
 public:
  using Lose = std::function<void(const std::string&)>;

  /// `lose` hears what cannot come into the copy.
  CacheCopier(Pool& to, const std::string& root, Lose lose)
      : pool_(&to), cache_(to.root<Cache>(root)), lose_(std::move(lose)) {}
  CacheCopier(const CacheCopier&) = delete;
  CacheCopier& operator=(const CacheCopier&) = delete;

  /// Before the first item: the head of the damaged cache. Flushes and cas uniques go on where they
  /// were.
  void operator()(const Cache& head) {
    pool_->atomically([&](Tx& tx) {
      ItemTable<Tx>(tx, *cache_).make(head.seed);
      tx.store(cache_->magic, kMagic);
      tx.store(cache_->version, kVersion);
      tx.store(cache_->epoch, head.epoch);
      tx.store(cache_->flush_at, head.flush_at);
    });
    seed_ = head.seed;
    cas_reserved_ = std::max<std::uint64_t>(head.cas_reserved, 1);
  }
  void operator()(const Item& head, std::string_view key, std::string_view value) {
    const auto hash =
        static_cast<std::uint32_t>(perdure::detail::hash_memory(key.data(), key.size(), seed_));
    const bool fresh = pool_->atomically(Durability::kRelaxed, [&](Tx& tx) {
      ItemTable<Tx> table(tx, *cache_);
      auto place = table.find({key, hash});
      if (place) return false;
      const std::uint64_t bytes = item_bytes(key.size(), value.size());
      auto* const item = static_cast<Item*>(tx.allocate(bytes));
      std::string image(bytes, '\0');
      Item begin = head;
      begin.next = place.stands_in.first;
      std::memcpy(image.data(), &begin, sizeof(begin));
      key.copy(image.data() + kKeyOffset, key.size());
      value.copy(image.data() + value_offset(key.size()), value.size());
      tx.write(item, image.data(), image.size());
      table.insert(place, item);
      Tally& tally = cache_->tallies[0];
      tx.store(tally.items, tx.load(tally.items) + 1);
      tx.store(tally.bytes, tx.load(tally.bytes) + occupied_bytes(bytes));
      if (items_ + 1 > table.open_buckets()) table.open_group();
      return true;
    });
    if (!fresh) lose_("memcached: another item with the key '" + std::string(key) + "'");
    items_ += fresh ? 1 : 0;
    cas_reserved_ = std::max(cas_reserved_, head.cas + 1);
  }
  std::uint64_t finish() {
    pool_->atomically([&](Tx& tx) { tx.store(cache_->cas_reserved, cas_reserved_); });
    return items_;
  }

 private:
  Pool* pool_;
  Cache* cache_;
  Lose lose_;
  std::uint64_t seed_ = 0;
  std::uint64_t cas_reserved_ = 1;
  std::uint64_t items_ = 0;
};

}  // namespace perdure::memcached

namespace perdure::detail {

/// Takes (the head of the cache), and then (head, key, value) of each item.
template <>
struct Salvage<memcached::Cache> {
  template <class Tx, class Finder>
  static void run(Tx& tx, const memcached::Cache& cache, Finder& finder) {
    using memcached::Item;
    memcached::Cache head;
    tx.read(&head, &cache, sizeof(head));
    if (head.magic == 0 && head.buckets == 0) return finder.seems_empty();  // made, and never used
    if (head.magic != memcached::kMagic || head.version != memcached::kVersion)
      finder.lose("memcached: its magic or its version is not that of a cache");
    finder.take(head);
    for (const pptr<Item>& staged : head.staged) {
      if (staged) attempt(finder, "memcached: a staged item", [&] { finder.visit(staged.offset); });
    }
    std::uint64_t items = 0;
    for (const memcached::Tally& tally : head.tallies) items += tally.items;
    memcached::ItemTable<Tx> table(tx, const_cast<memcached::Cache&>(cache));
    Item found;
    auto look = [&](const Item* item, const Room& room) {
      return table.look(head.seed, item, room, found);
    };
    std::string text;
    auto take = [&](const Item* item) {
      tx.read(&found, item, sizeof(found));
      const std::size_t key_bytes = found.identity.key_bytes;
      text.resize(memcached::item_bytes(key_bytes, found.value_bytes));
      tx.read(text.data(), item, text.size());
      const std::string_view all = text;
      finder.take(found, all.substr(memcached::kKeyOffset, key_bytes),
                  all.substr(memcached::value_offset(key_bytes), found.value_bytes));
    };
    BucketSalvage<memcached::Cache, Item, Tx, Finder, decltype(look), decltype(take)>(
        tx, cache, finder, look, take)
        .run(items);
  }
};

}  // namespace perdure::detail
