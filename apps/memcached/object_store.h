// SPDX-License-Identifier: BSD-3-Clause
// ObjectStore: the items of a cache in a heap of objects, as in NV-heaps (ASPLOS 2011) §5.6: an open-chaining hash table
// whose references are counted and whose transactions see to the rest. PoolStore is quicker; this one shows what the safety
// of objects costs.
//
// The number of buckets is that of the limit with which the cache is made. What goes from a full cache is found as in
// PoolStore: by a hand that goes round the buckets, past what was used since its last visit (references.h).
#pragma once

#include <array>
#include <atomic>
#include <optional>

#include "apps/memcached/item_store.h"
#include "apps/memcached/pool_store.h"
#include "apps/memcached/references.h"
#include "apps/memcached/syncer.h"
#include "perdure/object.h"

namespace perdure::memcached {

/// An item; its key and value stand in one text.
struct ItemObject : object<ItemObject> {
  ref<ItemObject> next;
  ref<chars> text;
  field<std::uint64_t> cas;
  field<std::uint64_t> epoch;  // of the last flush_all before it was stored
  field<std::uint32_t> hash;
  field<std::uint32_t> flags;  // the client's
  field<std::uint32_t> expires;
  field<std::uint32_t> stored;
  field<std::uint32_t> key_bytes;
  field<std::uint32_t> state;  // kStale, kWon, kBinaryKey (layout.h)
  PERDURE_FIELDS(ItemObject, next, text, cas, epoch, hash, flags, expires, stored, key_bytes,
                 state);
};

struct CacheObject : object<CacheObject> {
  ref<array<ref<ItemObject>>> buckets;  // as many as a power of two
  field<std::uint64_t> seed;            // of the hash
  field<std::uint64_t> epoch;           // flush_all()s so far
  field<std::uint64_t> flush_at;        // Unix time of one that is still to come; 0: none
  field<std::uint64_t> cas_reserved;    // cas uniques below it may have been handed out
  // What there is, modulo 2^64: a share for each of some threads, so that they do not meet there.
  std::array<field<std::uint64_t>, kTallies> items;
  std::array<field<std::uint64_t>, kTallies> bytes;
  PERDURE_FIELDS(CacheObject, buckets, seed, epoch, flush_at, cas_reserved, items, bytes);
};

/// Threads: any number.   Errors of everything that opens or changes: throws Exception, as the heap's transactions.
class ObjectStore final : public ItemStore {
 public:
  using Heap = object_heap<CacheObject>;

  /// Finds the cache in the pool, or makes one.   Requires: pool, syncer and clock outlive the store.
  /// Errors: throws Exception, as object_heap::in_pool.
  ObjectStore(Pool& pool, Syncer& syncer, const Clock& clock, const StoreOptions& options);
  /// Whether a pool holds such a cache, or another heap of objects.
  static bool is_in(Pool& pool);

  void look(std::span<const std::string_view> keys, Use use, See see) override;
  std::uint64_t alter(std::string_view key, std::uint64_t room, Use use, Decide decide) override;
  void flush_all(std::uint32_t at) override;
  StoreCounts counts() const override;
  bool set_limit(std::uint64_t bytes) override;
  void tidy() override;

 private:
  using Cache = local<CacheObject>;
  using Item = local<ItemObject>;
  struct Delta {
    std::int64_t items = 0;
    std::int64_t bytes = 0;
    std::uint64_t reserved_cas = 0;  // if more were
  };
  struct Key {
    std::string_view text;
    std::uint32_t hash;
  };
  struct Place {
    std::uint64_t bucket;
    Item before;  // null: the item is its bucket's first
    Item item;    // null: not there
  };

  template <class Body>
  auto change(Body&& body);
  Key hashed(std::string_view text) const;
  Place find(const Cache& cache, const Key& key) const;
  bool is_alive(const Cache& cache, const Item& item) const;
  void unlink(const Cache& cache, const Place& place);
  std::uint64_t alter_in(const Cache& cache, const Key& key, Decide decide, Plan::Kind& kind,
                         Delta& delta);
  void store_item(const Cache& cache, const Key& key, Place& place, bool alive, const Plan& plan,
                  std::uint64_t cas, Delta& delta);
  std::uint64_t draw_cas(const Cache& cache, Delta& delta);
  void count(const Cache& cache, const Delta& delta);
  void count(const Delta& delta);
  void flush_if_due();
  /// False: nothing can be taken away.
  bool make_room(std::uint64_t bytes);
  /// The hand goes past some buckets. Returns the bytes that it freed.
  std::uint64_t sweep(std::uint64_t wanted, bool evict);

  Syncer* syncer_;
  const Clock* clock_;
  Durability durability_;
  bool evict_;
  References references_;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> items_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> next_cas_{1};
  std::atomic<std::uint64_t> reserved_cas_{0};
  std::atomic<std::uint64_t> flush_at_{0};
  std::atomic<std::uint64_t> hand_{0};
  std::atomic<std::uint64_t> evictions_{0};
  std::atomic<std::uint64_t> reclaimed_{0};
  std::uint64_t seed_ = 0;
  std::uint64_t buckets_ = 0;
  std::optional<Heap> heap_;
};

}  // namespace perdure::memcached
