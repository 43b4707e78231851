// SPDX-License-Identifier: BSD-3-Clause
// What goes: flushed and expired items, and when the cache is full, those that are not used.
#include <algorithm>

#include "apps/memcached/pool_store.h"

namespace perdure::memcached {
void PoolStore::flush_all(std::uint32_t at) {
  if (group_ != nullptr) leave_group();
  const bool later = at > clock_->now();
  change([&](Tx& tx) {
    if (!later) tx.store(cache_->epoch, tx.load(cache_->epoch) + 1);
    tx.store(cache_->flush_at, later ? at : 0);
  });
  flush_at_.store(later ? at : 0, std::memory_order_release);
}

void PoolStore::flush_if_due() {
  const std::uint64_t at = flush_at_.load(std::memory_order_acquire);
  if (at == 0 || at > clock_->now()) [[likely]]
    return;
  change([&](Tx& tx) {
    if (tx.load(cache_->flush_at) != at) return;  // another thread was quicker
    tx.store(cache_->epoch, tx.load(cache_->epoch) + 1);
    tx.store(cache_->flush_at, 0);
  });
  std::uint64_t mine = at;
  flush_at_.compare_exchange_strong(mine, 0);
}

bool PoolStore::make_room(std::uint64_t bytes) {
  const std::uint64_t wanted = occupied_bytes(bytes);
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  if (wanted > limit) return false;
  std::uint64_t now = bytes_.load(std::memory_order_relaxed);
  if (now + wanted <= limit) [[likely]]
    return true;
  // Some more than is needed, so that not every store has to.
  const std::uint64_t spare = std::min(8 * wanted, limit / 64);
  constexpr std::uint64_t kBucketsToSearch = 1 << 16;  // for dead items, when no other may go
  std::uint64_t searched = 0;
  const std::uint64_t patience = 4 * buckets_.load(std::memory_order_relaxed) + 1024;
  while ((now = bytes_.load(std::memory_order_relaxed)) + wanted > limit) {
    constexpr std::uint64_t kAtATime = 512;
    searched += kAtATime;
    const std::uint64_t freed = sweep(now + wanted + spare - limit, evict_, kAtATime);
    if (freed > 0) continue;
    if (searched > (evict_ ? patience : kBucketsToSearch)) return false;
  }
  return true;
}

std::uint64_t PoolStore::sweep(std::uint64_t wanted, bool evict, std::uint64_t most_buckets) {
  constexpr std::uint64_t kItemsAtATime = 64;  // looked at in one transaction
  struct Swept {
    Delta delta;
    std::uint64_t freed = 0;
    std::uint64_t evicted = 0;
    std::uint64_t dead = 0;
    std::uint64_t buckets = 0;
  };
  const std::uint64_t start = hand_.load(std::memory_order_relaxed);
  const Swept swept = change([&](Tx& tx) {
    Swept done;
    ItemTable<Tx> table(tx, *cache_);
    const std::uint64_t buckets = table.open_buckets();
    const std::uint64_t epoch = tx.load(cache_->epoch);
    std::uint64_t seen = 0;
    std::uint64_t oldest_use = ~std::uint64_t{0};
    std::uint64_t oldest_bucket = 0;
    const Item* oldest = nullptr;
    const auto remove = [&](pptr<Item>* slot, Item* item, const Item& found) {
      const std::uint64_t bytes =
          occupied_bytes(item_bytes(found.identity.key_bytes, found.value_bytes));
      table.remove(slot, item, found.next);
      done.freed += bytes;
      done.delta.items -= 1;
      done.delta.bytes -= static_cast<std::int64_t>(bytes);
    };
    for (; done.freed < wanted && seen < kItemsAtATime && done.buckets < most_buckets &&
           done.buckets < buckets;
         ++done.buckets) {
      const std::uint64_t bucket = (start + done.buckets) % buckets;
      table.for_each_in(bucket, [&](pptr<Item>* slot, Item* item, const Item& found) {
        ++seen;
        const bool alive = is_alive(found, epoch);
        if (alive && (!evict || done.freed >= wanted)) return false;
        const References::Known known = references_.of(found.identity.hash);
        if (alive && known.used) {
          references_.forget(found.identity.hash);
          // Of one second many have been used: what was stored goes before what was asked for.
          const std::uint64_t use = std::uint64_t{2} * known.accessed + (known.fetched ? 1 : 0);
          if (use < oldest_use) {
            oldest_use = use;
            oldest_bucket = bucket;
            oldest = item;
          }
          return false;
        }
        ++(alive ? done.evicted : done.dead);
        remove(slot, item, found);
        return true;
      });
    }
    // All are in use: then the one that was used the longest ago.
    if (done.freed == 0 && oldest != nullptr) {
      table.for_each_in(oldest_bucket, [&](pptr<Item>* slot, Item* item, const Item& found) {
        if (item != oldest) return false;
        ++done.evicted;
        remove(slot, item, found);
        return true;
      });
    }
    count(tx, done.delta);
    return done;
  });
  count(swept.delta);
  hand_.fetch_add(swept.buckets, std::memory_order_relaxed);
  evictions_.fetch_add(swept.evicted, std::memory_order_relaxed);
  reclaimed_.fetch_add(swept.dead, std::memory_order_relaxed);
  return swept.freed;
}

void PoolStore::tidy() {
  flush_if_due();
  constexpr std::uint64_t kBuckets = 4096;
  const std::uint64_t buckets = std::min(kBuckets, buckets_.load(std::memory_order_relaxed));
  const std::uint64_t start = hand_.load(std::memory_order_relaxed);
  // The hand goes round as fast as there is nothing to do; a transaction of one sweep ends after some items.
  while (hand_.load(std::memory_order_relaxed) - start < buckets) {
    const std::uint64_t before = hand_.load(std::memory_order_relaxed);
    sweep(~std::uint64_t{0}, false, buckets);
    if (hand_.load(std::memory_order_relaxed) == before) break;
  }
}

bool PoolStore::set_limit(std::uint64_t bytes) {
  if (bytes < kLeastLimit) return false;
  limit_.store(bytes, std::memory_order_relaxed);
  return true;
}

}  // namespace perdure::memcached
