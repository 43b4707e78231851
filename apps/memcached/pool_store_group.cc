// SPDX-License-Identifier: BSD-3-Clause
// Commands that are one transaction: its fences, timestamp and record are shared. What one of them cannot do inside, or might
// do twice, ends the group, and they are done one by one.
#include <utility>

#include "apps/memcached/pool_store.h"
#include "apps/memcached/staged_item.h"

namespace perdure::memcached {
namespace {

/// Ends a group.
struct Apart {};

}  // namespace

struct PoolStore::Group {
  explicit Group(PoolStore& its) : store(its) { group_ = this; }
  ~Group() {
    group_ = nullptr;
    const std::uint64_t before = store.group_room_.load(std::memory_order_relaxed);
    store.group_room_.store(std::max(room, before - before / 8), std::memory_order_relaxed);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  PoolStore& store;
  Delta delta;
  std::uint64_t room = 0;  // asked for so far
  bool begun = false;
};

constinit thread_local PoolStore::Group* PoolStore::group_ = nullptr;

void PoolStore::expect(std::span<const std::string_view> keys) {
  constexpr std::size_t kAtATime = 16;
  for (; keys.size() > kAtATime; keys = keys.subspan(kAtATime)) expect(keys.first(kAtATime));
  // What each key needs is fetched while the next one is looked at; nothing here is more than a guess.
  const std::uint64_t buckets = buckets_.load(std::memory_order_relaxed);
  std::array<Offset, kAtATime> heads;
  const auto fetch = [&](Offset at) { pool_->prefetch(pptr<void>{at}); };
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t hash = hashed(keys[i]).hash;
    heads[i] = ItemTable<Tx>::guess_head(*cache_, hash, buckets);
    fetch(heads[i]);
    references_.prefetch(hash);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (heads[i] != 0) fetch(load_word(pool_->at(pptr<Word>{heads[i]})));
  }
}

bool PoolStore::together(FunctionRef<void()> body) {
  try {
    flush_if_due();
    // In a full cache something has to go first, for inside nothing can: as much as groups have asked for of late.
    const std::uint64_t room = group_room_.load(std::memory_order_relaxed);
    if (room > 0) make_room(room);
    Group group(*this);
    change([&](Tx&) {
      if (std::exchange(group.begun, true)) throw Apart{};  // it met another thread
      body();
    });
    count(group.delta);
    return true;
  } catch (const Apart&) {
    return false;
  } catch (const Exception&) {  // whom it concerns is found out one by one
    return false;
  }
}

void PoolStore::leave_group() { throw Apart{}; }

std::uint64_t PoolStore::alter_in_group(std::string_view name, std::uint64_t room, Use use,
                                        Decide decide) {
  if (room > 0) group_->room += occupied_bytes(item_bytes(name.size(), room));
  if (bytes_.load(std::memory_order_relaxed) + group_->room >
      limit_.load(std::memory_order_relaxed))
    throw Apart{};
  const HashedKey key = hashed(name);
  Staged staged(*this);
  Outcome outcome;
  try {
    outcome = change([&](Tx& tx) { return alter_in(tx, key, decide, staged); });
  } catch (const Exception&) {  // there is no room for it, perhaps
    throw Apart{};
  }
  if (outcome.stage) throw Apart{};
  Delta& sum = group_->delta;
  sum.items += outcome.delta.items;
  sum.bytes += outcome.delta.bytes;
  sum.reserved_cas = std::max(sum.reserved_cas, outcome.delta.reserved_cas);
  remember(key, outcome.kind, use);
  return outcome.cas;
}

}  // namespace perdure::memcached
