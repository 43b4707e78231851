// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/object_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <string>

#include "apps/memcached/layout.h"
#include "perdure/api/pool_core.h"
#include "perdure/container/support.h"
#include "perdure/object/layout.h"

namespace perdure::memcached {
namespace {

constexpr std::uint64_t kObjectGuessBytes = 512;
constexpr std::uint64_t kFewestBuckets = 1 << 10;
constexpr std::uint64_t kMostBuckets = 1 << 20;
constexpr std::uint64_t kBucketsAtATime = 64;

std::size_t my_share() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed) % kTallies;
  return mine;
}

/// What an item takes of the heap.
std::uint64_t taken_by(std::uint64_t text_bytes) {
  return occupied_bytes(object_layout::kHeaderBytes + sizeof(ItemObject)) +
         occupied_bytes(object_layout::kHeaderBytes + sizeof(chars) + text_bytes);
}

std::uint32_t value_bytes(const local<ItemObject>& item) {
  const std::uint64_t text = item->text->size();
  const std::uint64_t key = item->key_bytes;
  if (key > text) throw Exception(Code::kCorrupt, "an item's key is longer than its text");
  return static_cast<std::uint32_t>(text - key);
}

}  // namespace

bool ObjectStore::is_in(Pool& pool) {
  return pool.read_only([&](Tx& tx) {
    return core_of(pool).find_root(tx, object_layout::kControlRoot, 0, 0, false).has_value();
  });
}

ObjectStore::ObjectStore(Pool& pool, Syncer& syncer, const Clock& clock,
                         const StoreOptions& options)
    : syncer_(&syncer),
      clock_(&clock),
      durability_(syncer.relaxed() ? Durability::kRelaxed : Durability::kStrict),
      evict_(options.evict),
      references_(options.limit_bytes / kObjectGuessBytes),
      limit_(options.limit_bytes),
      heap_(Heap::in_pool(pool).value()) {
  std::random_device random;
  const std::uint64_t seed = std::uint64_t{random()} << 32 | random();
  const std::uint64_t buckets = std::bit_floor(
      std::clamp(options.limit_bytes / kObjectGuessBytes, kFewestBuckets, kMostBuckets));
  heap_->atomically([&](Cache cache) {
    if (!cache->buckets) {
      cache->buckets = heap_->make_array<ref<ItemObject>>(buckets);
      cache->seed = seed;
      cache->cas_reserved = 1;
    }
    seed_ = cache->seed;
    buckets_ = cache->buckets->size();
    next_cas_ = reserved_cas_ = cache->cas_reserved.get();
    flush_at_ = cache->flush_at.get();
    std::uint64_t items = 0;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < kTallies; ++i) {
      items += cache->items[i];
      bytes += cache->bytes[i];
    }
    items_ = items;
    bytes_ = bytes;
  });
  if (!std::has_single_bit(buckets_))
    throw Exception(Code::kCorrupt, "the cache's table of buckets has " + std::to_string(buckets_) +
                                        ", which is no power of two; `perdure check` tells more");
  references_.expect(2 * items_);
}

template <class Body>
auto ObjectStore::change(Body&& body) {
  const Syncer::Writing writing(*syncer_);
  return heap_->atomically(durability_, std::forward<Body>(body));
}

ObjectStore::Key ObjectStore::hashed(std::string_view text) const {
  return {text, static_cast<std::uint32_t>(
                    perdure::detail::hash_memory(text.data(), text.size(), seed_))};
}

ObjectStore::Place ObjectStore::find(const Cache& cache, const Key& key) const {
  Place place{key.hash & (buckets_ - 1), nullptr, nullptr};
  perdure::detail::ChainLength length;
  for (Item at = cache->buckets.get()[place.bucket]; at; at = at->next) {
    length.count();
    std::array<char, kMaxKeyBytes + 5> stored;
    if (at->hash == key.hash && at->key_bytes == key.text.size()) {
      at->text->read(0, stored.data(), key.text.size());
      if (std::memcmp(stored.data(), key.text.data(), key.text.size()) == 0) {
        place.item = at;
        return place;
      }
    }
    place.before = at;
  }
  return place;
}

bool ObjectStore::is_alive(const Cache& cache, const Item& item) const {
  const std::uint32_t expires = item->expires;
  return item->epoch == cache->epoch.get() && (expires == 0 || expires > clock_->now());
}

void ObjectStore::look(std::span<const std::string_view> keys, Use use, See see) {
  flush_if_due();
  heap_->read_only([&](Cache cache) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Key key = hashed(keys[i]);
      const Item item = find(cache, key).item;
      if (!item || !is_alive(cache, item)) {
        see(i, nullptr);
        continue;
      }
      const auto read = [&](void* to, std::size_t at, std::size_t bytes) {
        item->text->read(item->key_bytes + at, static_cast<char*>(to), bytes);
      };
      ItemView view({item->flags, item->expires, item->cas, static_cast<std::uint8_t>(item->state)},
                    value_bytes(item), read);
      const References::Known known = references_.of(key.hash);
      view.accessed = std::max(known.accessed, item->stored.get());
      view.fetched = known.fetched;
      view.object_bytes = taken_by(item->text->size());
      see(i, &view);
      if (use == Use::kUse) references_.got(key.hash, clock_->now());
    }
  });
}

std::uint64_t ObjectStore::alter(std::string_view name, std::uint64_t room, Use use,
                                 Decide decide) {
  flush_if_due();
  if (room > 0 && !make_room(taken_by(name.size() + room)))
    throw Exception(Code::kNoSpace, "the cache is full, and none of it may go");
  const Key key = hashed(name);
  constexpr int kAttempts = 64;
  for (int attempt = 0;; ++attempt) {
    try {
      Delta delta;
      Plan::Kind kind = Plan::Kind::kNothing;
      const std::uint64_t cas = change([&](Cache cache) {
        delta = {};
        return alter_in(cache, key, decide, kind, delta);
      });
      count(delta);
      if (kind == Plan::Kind::kStore) {
        references_.stored(key.hash, clock_->now());
      } else if (kind == Plan::Kind::kHead && use == Use::kUse) {
        references_.touched(key.hash, clock_->now());
      }
      return cas;
    } catch (const Exception& error) {
      // The file is full before the limit is reached: as if the limit were that.
      if (error.code() != Code::kNoSpace || !evict_ || attempt >= kAttempts) throw;
      std::uint64_t freed = 0;
      for (std::uint64_t gone = 0; freed == 0 && gone < 2 * buckets_; gone += kBucketsAtATime)
        freed = sweep(4 * taken_by(name.size() + room), true);
      if (freed == 0) throw;
    }
  }
}

std::uint64_t ObjectStore::alter_in(const Cache& cache, const Key& key, Decide decide,
                                    Plan::Kind& kind, Delta& delta) {
  Place place = find(cache, key);
  const Item& item = place.item;
  const bool alive = item && is_alive(cache, item);
  const auto read = [&](void* to, std::size_t at, std::size_t bytes) {
    item->text->read(item->key_bytes + at, static_cast<char*>(to), bytes);
  };
  Head head;
  if (alive) head = {item->flags, item->expires, item->cas, static_cast<std::uint8_t>(item->state)};
  ItemView view(head, alive ? value_bytes(item) : 0, read);
  if (alive) {
    const References::Known known = references_.of(key.hash);
    view.accessed = std::max(known.accessed, item->stored.get());
    view.fetched = known.fetched;
    view.object_bytes = taken_by(item->text->size());
  }
  const Plan plan = decide(alive ? &view : nullptr);
  kind = plan.kind;
  if (kind == Plan::Kind::kNothing) return head.cas;
  if (kind == Plan::Kind::kRemove) {
    delta.items = -1;
    delta.bytes = -static_cast<std::int64_t>(taken_by(item->text->size()));
    unlink(cache, place);
    count(cache, delta);
    return head.cas;
  }
  const std::uint64_t cas = plan.head.cas != 0 ? plan.head.cas : draw_cas(cache, delta);
  if (kind == Plan::Kind::kStore) {
    store_item(cache, key, place, alive, plan, cas, delta);
    count(cache, delta);
  } else {
    item->cas = cas;
  }
  place.item->flags = plan.head.flags;
  place.item->expires = plan.head.expires;
  place.item->state = plan.head.state;
  return cas;
}

void ObjectStore::store_item(const Cache& cache, const Key& key, Place& place, bool alive,
                             const Plan& plan, std::uint64_t cas, Delta& delta) {
  const bool is_new = !place.item;
  if (is_new) {
    place.item = heap_->make<ItemObject>();
    auto& first = cache->buckets.get()[place.bucket];
    place.item->next = first;
    first = place.item;
    place.item->hash = key.hash;
    place.item->key_bytes = static_cast<std::uint32_t>(key.text.size());
    delta.items = 1;
  } else {
    delta.bytes = -static_cast<std::int64_t>(taken_by(place.item->text->size()));
  }
  const Item& item = place.item;
  const std::size_t kept = alive && plan.old != Plan::Old::kDropped ? value_bytes(item) : 0;
  const std::size_t bytes = key.text.size() + kept + plan.value.size();
  const bool in_place = !is_new && kept == 0 && item->text->size() == bytes;
  const local<chars> text = in_place ? item->text.get() : heap_->make_array<field<char>>(bytes);
  if (!in_place) text->write(0, key.text.data(), key.text.size());
  const std::size_t old_at =
      key.text.size() + (plan.old == Plan::Old::kBehind ? plan.value.size() : 0);
  std::array<char, 4096> piece;
  for (std::size_t done = 0; done < kept;) {
    const std::size_t here = std::min(piece.size(), kept - done);
    item->text->read(key.text.size() + done, piece.data(), here);
    text->write(old_at + done, piece.data(), here);
    done += here;
  }
  text->write(key.text.size() + (plan.old == Plan::Old::kBehind ? 0 : kept), plan.value.data(),
              plan.value.size());
  if (!in_place) item->text = text;
  item->cas = cas;
  item->epoch = cache->epoch.get();
  item->stored = clock_->now();
  delta.bytes += static_cast<std::int64_t>(taken_by(bytes));
}

void ObjectStore::unlink(const Cache& cache, const Place& place) {
  if (place.before) {
    place.before->next = place.item->next;
  } else {
    cache->buckets.get()[place.bucket] = place.item->next;
  }
}

std::uint64_t ObjectStore::draw_cas(const Cache& cache, Delta& delta) {
  const std::uint64_t drawn = next_cas_.fetch_add(1, std::memory_order_relaxed);
  if (drawn >= reserved_cas_.load(std::memory_order_relaxed)) {
    delta.reserved_cas = std::max(cache->cas_reserved.get(), drawn + kCasRange);
    cache->cas_reserved = delta.reserved_cas;
  }
  return drawn;
}

/// In the transaction.
void ObjectStore::count(const Cache& cache, const Delta& delta) {
  const std::size_t mine = my_share();
  if (delta.items != 0) cache->items[mine] += static_cast<std::uint64_t>(delta.items);
  if (delta.bytes != 0) cache->bytes[mine] += static_cast<std::uint64_t>(delta.bytes);
}

/// After it.
void ObjectStore::count(const Delta& delta) {
  if (delta.bytes != 0) bytes_.fetch_add(static_cast<std::uint64_t>(delta.bytes));
  if (delta.items != 0)
    references_.expect(2 * (items_.fetch_add(static_cast<std::uint64_t>(delta.items)) + 1));
  std::uint64_t known = reserved_cas_.load(std::memory_order_relaxed);
  while (known < delta.reserved_cas &&
         !reserved_cas_.compare_exchange_weak(known, delta.reserved_cas)) {
  }
}

// ---- what goes ----------------------------------------------------------------------------------

void ObjectStore::flush_all(std::uint32_t at) {
  const bool later = at > clock_->now();
  change([&](Cache cache) {
    if (!later) ++cache->epoch;
    cache->flush_at = later ? at : 0;
  });
  flush_at_.store(later ? at : 0, std::memory_order_release);
}

void ObjectStore::flush_if_due() {
  std::uint64_t at = flush_at_.load(std::memory_order_acquire);
  if (at == 0 || at > clock_->now()) [[likely]]
    return;
  change([&](Cache cache) {
    if (cache->flush_at != at) return;  // another thread was quicker
    ++cache->epoch;
    cache->flush_at = 0;
  });
  flush_at_.compare_exchange_strong(at, 0);
}

bool ObjectStore::make_room(std::uint64_t bytes) {
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  if (bytes > limit) return false;
  // The first time round the hand forgets that items were used, and the second time they go.
  const std::uint64_t patience = (evict_ ? 3 : 1) * buckets_ + kBucketsAtATime;
  for (std::uint64_t passed = 0; bytes_.load(std::memory_order_relaxed) + bytes > limit;) {
    const std::uint64_t over = bytes_.load(std::memory_order_relaxed) + bytes - limit;
    if (sweep(over + std::min(8 * bytes, limit / 64), evict_) > 0) {
      passed = 0;
    } else if ((passed += kBucketsAtATime) > patience) {
      return false;
    }
  }
  return true;
}

std::uint64_t ObjectStore::sweep(std::uint64_t wanted, bool evict) {
  struct Swept {
    Delta delta;
    std::uint64_t freed = 0;
    std::uint64_t evicted = 0;
    std::uint64_t dead = 0;
  };
  const std::uint64_t start = hand_.fetch_add(kBucketsAtATime, std::memory_order_relaxed);
  const Swept swept = change([&](Cache cache) {
    Swept done;
    for (std::uint64_t i = 0; i < kBucketsAtATime && done.freed < wanted; ++i) {
      Place place{(start + i) & (buckets_ - 1), nullptr, nullptr};
      perdure::detail::ChainLength length;
      for (place.item = cache->buckets.get()[place.bucket]; place.item;) {
        length.count();
        const Item next = place.item->next;
        const std::uint32_t hash = place.item->hash;
        const bool alive = is_alive(cache, place.item);
        const bool used = references_.of(hash).used;
        if (alive && (!evict || used || done.freed >= wanted)) {
          if (evict) references_.forget(hash);
          place.before = place.item;
        } else {
          const std::uint64_t bytes = taken_by(place.item->text->size());
          ++(alive ? done.evicted : done.dead);
          done.freed += bytes;
          done.delta.items -= 1;
          done.delta.bytes -= static_cast<std::int64_t>(bytes);
          unlink(cache, place);
        }
        place.item = next;
      }
    }
    count(cache, done.delta);
    return done;
  });
  count(swept.delta);
  evictions_.fetch_add(swept.evicted, std::memory_order_relaxed);
  reclaimed_.fetch_add(swept.dead, std::memory_order_relaxed);
  return swept.freed;
}

void ObjectStore::tidy() {
  flush_if_due();
  constexpr std::uint64_t kBuckets = 4096;
  for (std::uint64_t passed = 0; passed < std::min(kBuckets, buckets_); passed += kBucketsAtATime)
    sweep(~std::uint64_t{0}, false);
}

bool ObjectStore::set_limit(std::uint64_t bytes) {
  if (bytes < kLeastLimit) return false;
  limit_.store(bytes, std::memory_order_relaxed);
  return true;
}

StoreCounts ObjectStore::counts() const {
  return {items_.load(std::memory_order_relaxed),     bytes_.load(std::memory_order_relaxed),
          evictions_.load(std::memory_order_relaxed), reclaimed_.load(std::memory_order_relaxed),
          limit_.load(std::memory_order_relaxed),     buckets_};
}

}  // namespace perdure::memcached
