// SPDX-License-Identifier: BSD-3-Clause
// PoolStore: the items of a cache in a pool. Every change is one transaction, or a part of one with those done together; a
// look-up is a read-only one, however many keys it has.
//
// What there is is bounded: before an item is stored others go, unused ones first, found by a hand that goes round the table
// (CLOCK). Whether an item was used is known in DRAM only (references.h).
#pragma once

#include <atomic>

#include "apps/memcached/item_store.h"
#include "apps/memcached/item_table.h"
#include "apps/memcached/references.h"
#include "apps/memcached/syncer.h"

namespace perdure::memcached {

/// Cas uniques that one store reserves, for as many draws.
inline constexpr std::uint64_t kCasRange = 1 << 20;
inline constexpr std::uint64_t kLeastLimit = 1 << 20;

struct StoreOptions {
  std::uint64_t limit_bytes = std::uint64_t{64} << 20;
  bool evict = true;  // false: a full cache refuses
};

/// Threads: any number.   Errors of everything that opens or changes: throws Exception, as the pool's transactions.
class PoolStore final : public ItemStore {
 public:
  /// Finds the cache in the pool, or makes one. Opening reads one object, whatever the cache's size.
  /// Requires: pool, syncer and clock outlive the store.
  /// Errors: throws Exception kVersion, kCorrupt, and as Pool::root (kTypeMismatch).
  PoolStore(Pool& pool, Syncer& syncer, const Clock& clock, const StoreOptions& options);

  void look(std::span<const std::string_view> keys, Use use, See see) override;
  std::uint64_t alter(std::string_view key, std::uint64_t room, Use use, Decide decide) override;
  void expect(std::span<const std::string_view> keys) override;
  bool together(FunctionRef<void()> body) override;
  void flush_all(std::uint32_t at) override;
  StoreCounts counts() const override;
  bool set_limit(std::uint64_t bytes) override;
  void tidy() override;

 private:
  struct Delta {
    std::int64_t items = 0;
    std::int64_t bytes = 0;
    std::uint64_t reserved_cas = 0;  // if more were
  };
  struct Outcome {
    Delta delta;
    std::uint64_t cas = 0;
    Plan::Kind kind = Plan::Kind::kNothing;
    bool staged = false;  // the value was
    bool stage = false;   // nothing was done: the value has to be staged first
  };

  HashedKey hashed(std::string_view key) const {
    return {key, static_cast<std::uint32_t>(
                     perdure::detail::hash_memory(key.data(), key.size(), seed_))};
  }
  bool is_alive(const Item& item, std::uint64_t epoch) const {
    return item.epoch == static_cast<std::uint32_t>(epoch) &&
           (item.expires == 0 || item.expires > clock_->now());
  }
  template <class Body>
  auto change(Body&& body);
  struct Group;
  // pool_store_group.cc
  [[noreturn]] static void leave_group();
  std::uint64_t alter_in_group(std::string_view name, std::uint64_t room, Use use, Decide decide);
  /// After a transaction that has altered the item.
  void remember(const HashedKey& key, Plan::Kind kind, Use use);
  /// An item as it is to be stored.
  struct NewItem {
    std::string_view key;
    std::string_view value;
    Item head;
    std::size_t at;          // where the value begins
    std::uint64_t kept = 0;  // bytes of the old value that stay,
    bool moves_old = false;  // behind the new ones
    bool in_place = false;   // the object stays
    Item* object = nullptr;  // if its value stands there already
    std::uint64_t bytes() const { return at + kept + value.size(); }
    std::uint64_t occupied_before(const ItemTable<Tx>::Place& place) const {
      return place ? occupied_bytes(at + place.found.value_bytes) : 0;
    }
  };
  class Staged;
  Outcome alter_in(Tx& tx, const HashedKey& key, Decide decide, Staged& staged);
  NewItem new_item(const ItemTable<Tx>::Place& place, bool alive, std::string_view key,
                   const Plan& plan, const Item& head) const;
  void store_item(Tx& tx, ItemTable<Tx>& table, ItemTable<Tx>::Place& place, const NewItem& made,
                  Delta& delta);
  void write_item(Tx& tx, Item* item, const ItemTable<Tx>::Place& place, const NewItem& made);
  std::uint64_t draw_cas(Tx& tx, Delta& delta);
  void count(Tx& tx, const Delta& delta);
  void count(const Delta& delta);
  void flush_if_due();
  /// False: nothing can be taken away.
  bool make_room(std::uint64_t bytes);
  /// Frees about `wanted` bytes, or finds nothing to free in a part of the table. Returns what it freed.
  std::uint64_t sweep(std::uint64_t wanted, bool evict, std::uint64_t most_buckets);

  static constinit thread_local Group* group_;  // that this thread's transaction is

  Pool* pool_;
  Syncer* syncer_;
  const Clock* clock_;
  Cache* cache_;
  std::uint64_t seed_ = 0;
  Durability durability_;
  bool evict_;
  bool stages_;  // whether large values are written by several transactions
  std::atomic<std::uint32_t> stages_taken_{0};  // a bit for each of Cache::staged
  References references_;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> items_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> buckets_{0};  // that are open; a hint
  std::atomic<std::uint64_t> next_cas_{1};
  std::atomic<std::uint64_t> reserved_cas_{0};
  std::atomic<std::uint64_t> flush_at_{0};
  std::atomic<std::uint64_t> group_room_{0};  // that groups ask for
  std::atomic<std::uint64_t> hand_{0};
  std::atomic<std::uint64_t> evictions_{0};
  std::atomic<std::uint64_t> reclaimed_{0};
};

template <class Body>
auto PoolStore::change(Body&& body) {
  const Syncer::Writing writing(*syncer_);
  return pool_->atomically(durability_, std::forward<Body>(body));
}

}  // namespace perdure::memcached
