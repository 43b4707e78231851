// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/pool_store.h"

#include <algorithm>
#include <random>

#include "apps/memcached/staged_item.h"
#include "perdure/expert.h"

namespace perdure::memcached {
namespace {

/// On memory values below it are overwritten where they are, if the item takes as much as before; larger ones are made anew,
/// in place and past the log. On files all are overwritten, up to the size where they are staged.
constexpr std::uint64_t kRewriteBytes = kInPlaceBytes;
constexpr std::uint64_t kItemGuessBytes = 256;
/// On files a transaction's words go through the log, which is no place for a value of many megabytes.
constexpr std::uint64_t kStageBytes = 512 << 10;
constexpr unsigned kLookEvery = 16;

std::size_t my_tally() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed) % kTallies;
  return mine;
}

std::string what_is_wrong(const Cache& found) {
  if (found.magic != kMagic)
    return "the object at its root memcached.cache is not a cache (its magic is wrong); restore "
           "the "
           "file, or serve another one";
  if (found.buckets - 1 >= Buckets::kMost || found.cas_reserved == 0)
    return "the cache's head is damaged; `perdure check` tells more";
  return "";
}

}  // namespace

PoolStore::PoolStore(Pool& pool, Syncer& syncer, const Clock& clock, const StoreOptions& options)
    : pool_(&pool),
      syncer_(&syncer),
      clock_(&clock),
      cache_(pool.root<Cache>(kRoot)),
      durability_(syncer.relaxed() ? Durability::kRelaxed : Durability::kStrict),
      evict_(options.evict),
      stages_(pool.domain() == DomainKind::kSync),
      references_(options.limit_bytes / kItemGuessBytes),
      limit_(options.limit_bytes) {
  std::random_device random;
  const std::uint64_t seed = std::uint64_t{random()} << 32 | random();
  Cache now{};
  pool_->atomically([&](Tx& tx) {
    if (tx.load(cache_->magic) == 0 && tx.load(cache_->buckets) == 0) {
      ItemTable<Tx>(tx, *cache_).make(seed);
      tx.store(cache_->magic, kMagic);
      tx.store(cache_->version, kVersion);
      tx.store(cache_->cas_reserved, 1);
    }
    tx.read(&now, cache_, sizeof(now));
  });
  if (now.magic == kMagic && now.version != kVersion)
    throw Exception(Code::kVersion, "the cache has format version " + std::to_string(now.version) +
                                        ", this release knows " + std::to_string(kVersion) +
                                        "; serve it with the release that made it");
  if (const std::string wrong = what_is_wrong(now); !wrong.empty())
    throw Exception(Code::kCorrupt, wrong);
  for (pptr<Item>& staged : cache_->staged) {
    pool_->atomically([&](Tx& tx) {
      const pptr<Item> left = tx.load(staged);
      if (!left) return;
      tx.free(tx.at(left));  // its server ended before it was in the table
      tx.store(staged, {});
    });
  }
  seed_ = now.seed;
  buckets_ = now.buckets;
  references_.expect(2 * now.buckets);
  next_cas_ = reserved_cas_ = now.cas_reserved;
  flush_at_ = now.flush_at;
  for (const Tally& tally : now.tallies) {
    items_ += tally.items;
    bytes_ += tally.bytes;
  }
}

// ---- items --------------------------------------------------------------------------------------

void PoolStore::look(std::span<const std::string_view> keys, Use use, See see) {
  if (group_ == nullptr) flush_if_due();
  pool_->read_only([&](Tx& tx) {
    ItemTable<Tx> table(tx, *cache_);
    const std::uint64_t epoch = tx.load(cache_->epoch);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const HashedKey key = hashed(keys[i]);
      const auto place = table.find(key);
      if (!place || !is_alive(place.found, epoch)) {
        see(i, nullptr);
        continue;
      }
      const Item& found = place.found;
      const char* const value =
          ItemTable<Tx>::bytes_of(place.item) + value_offset(found.identity.key_bytes);
      const auto read = [&](void* to, std::size_t at, std::size_t bytes) {
        tx.read(to, value + at, bytes);
      };
      ItemView view({found.flags, found.expires, found.cas, found.identity.state},
                    found.value_bytes, read);
      const References::Known known = references_.of(key.hash);
      view.accessed = std::max(known.accessed, found.stored);
      view.fetched = known.fetched;
      view.object_bytes = item_bytes(found.identity.key_bytes, found.value_bytes);
      see(i, &view);
      if (use == Use::kUse) references_.got(key.hash, clock_->now());
    }
  });
}

std::uint64_t PoolStore::alter(std::string_view name, std::uint64_t room, Use use, Decide decide) {
  if (group_ != nullptr) return alter_in_group(name, room, use, decide);
  flush_if_due();
  if (room > 0 && !make_room(item_bytes(name.size(), room)))
    throw Exception(Code::kNoSpace, "the cache is full, and none of it may go");
  const HashedKey key = hashed(name);
  Staged staged(*this);
  for (int attempt = 0;; ++attempt) {
    try {
      Outcome outcome;
      for (;;) {
        outcome = change([&](Tx& tx) { return alter_in(tx, key, decide, staged); });
        if (!outcome.stage) break;
        staged.write();
      }
      count(outcome.delta);
      if (outcome.staged) staged.stored();
      remember(key, outcome.kind, use);
      return outcome.cas;
    } catch (const Exception& error) {
      // The file is full before the limit is reached: as if the limit were that.
      constexpr int kAttempts = 64;
      if (error.code() != Code::kNoSpace || !evict_ || attempt >= kAttempts) throw;
      if (sweep(4 * item_bytes(name.size(), room), true, ~std::uint64_t{0}) == 0) throw;
    }
  }
}

void PoolStore::remember(const HashedKey& key, Plan::Kind kind, Use use) {
  if (kind == Plan::Kind::kStore) {
    references_.stored(key.hash, clock_->now());
  } else if (kind == Plan::Kind::kHead && use == Use::kUse) {
    references_.touched(key.hash, clock_->now());
  }
}

PoolStore::Outcome PoolStore::alter_in(Tx& tx, const HashedKey& key, Decide decide,
                                       Staged& staged) {
  Outcome outcome;
  ItemTable<Tx> table(tx, *cache_);
  const std::uint64_t epoch = tx.load(cache_->epoch);
  auto place = table.find(key);
  const Item found = place.found;
  const bool alive = place && is_alive(found, epoch);
  const char* const value =
      place ? ItemTable<Tx>::bytes_of(place.item) + value_offset(key.text.size()) : nullptr;
  const auto read = [&](void* to, std::size_t at, std::size_t bytes) {
    tx.read(to, value + at, bytes);
  };
  ItemView view({found.flags, found.expires, found.cas, found.identity.state}, found.value_bytes,
                read);
  if (alive) {
    const References::Known known = references_.of(key.hash);
    view.accessed = std::max(known.accessed, found.stored);
    view.fetched = known.fetched;
    view.object_bytes = item_bytes(found.identity.key_bytes, found.value_bytes);
  }
  const Plan plan = decide(alive ? &view : nullptr);
  outcome.kind = plan.kind;
  outcome.cas = found.cas;
  if (plan.kind == Plan::Kind::kNothing) return outcome;

  if (plan.kind == Plan::Kind::kRemove) {
    outcome.delta = {-1, -static_cast<std::int64_t>(
                             occupied_bytes(item_bytes(key.text.size(), found.value_bytes)))};
    table.remove(place.slot, place.item, found.next);
    count(tx, outcome.delta);
    return outcome;
  }
  Item head = found;
  head.identity = {key.hash, static_cast<std::uint8_t>(key.text.size()), plan.head.state, 0};
  head.cas = plan.head.cas != 0 ? plan.head.cas : draw_cas(tx, outcome.delta);
  head.flags = plan.head.flags;
  head.expires = plan.head.expires;
  outcome.cas = head.cas;
  if (plan.kind == Plan::Kind::kHead) {
    if (head.identity != found.identity) tx.store(place.item->identity, head.identity);
    if (head.cas != found.cas) tx.store(place.item->cas, head.cas);
    if (head.flags != found.flags || head.expires != found.expires)
      tx.write(&place.item->flags, &head.flags, 2 * sizeof(head.flags));
    return outcome;
  }
  head.epoch = static_cast<std::uint32_t>(epoch);
  head.stored = clock_->now();
  head.zero = 0;
  NewItem made = new_item(place, alive, key.text, plan, head);
  if (stages_ && !made.in_place && made.kept + made.value.size() > kStageBytes) {
    if (!staged.fits(plan, found, made.kept)) {
      staged.want(tx, key.text.size(), plan, value, found, made.kept);
      outcome.stage = true;
      return outcome;
    }
    made.object = staged.take(tx);
    outcome.staged = true;
  }
  store_item(tx, table, place, made, outcome.delta);
  count(tx, outcome.delta);
  return outcome;
}

PoolStore::NewItem PoolStore::new_item(const ItemTable<Tx>::Place& place, bool alive,
                                       std::string_view key, const Plan& plan,
                                       const Item& head) const {
  NewItem made{key, plan.value, head, value_offset(key.size())};
  if (alive && plan.old != Plan::Old::kDropped) made.kept = place.found.value_bytes;
  made.moves_old = made.kept > 0 && plan.old == Plan::Old::kBehind;
  made.head.value_bytes = static_cast<std::uint32_t>(made.kept + made.value.size());
  made.head.next = place ? place.found.next : place.stands_in.first;
  const std::uint64_t most = stages_ ? kStageBytes : kRewriteBytes - 1;
  made.in_place = place && occupied_bytes(made.bytes()) == made.occupied_before(place) &&
                  !made.moves_old && made.value.size() <= most;
  return made;
}

void PoolStore::store_item(Tx& tx, ItemTable<Tx>& table, ItemTable<Tx>::Place& place,
                           const NewItem& made, Delta& delta) {
  const std::uint64_t before = made.occupied_before(place);
  if (made.in_place) {
    tx.write(&place.item->identity, &made.head.identity, sizeof(Item) - sizeof(made.head.next));
    tx.write(ItemTable<Tx>::bytes_of(place.item) + made.at + made.kept, made.value.data(),
             made.value.size());
    return;
  }
  Item* const item =
      made.object != nullptr ? made.object : static_cast<Item*>(tx.allocate(made.bytes()));
  write_item(tx, item, place, made);
  delta.bytes +=
      static_cast<std::int64_t>(occupied_bytes(made.bytes())) - static_cast<std::int64_t>(before);
  if (place) {
    table.replace(place, item);
    return;
  }
  delta.items += 1;
  table.insert(place, item);
  const std::uint64_t items = items_.load(std::memory_order_relaxed);
  if (made.head.cas % kLookEvery != 0 || items <= buckets_.load(std::memory_order_relaxed)) return;
  if (items > table.open_buckets()) table.open_group();
  const std::uint64_t buckets = table.open_buckets();
  buckets_.store(buckets, std::memory_order_relaxed);
  references_.expect(2 * buckets);
}

void PoolStore::write_item(Tx& tx, Item* item, const ItemTable<Tx>::Place& place,
                           const NewItem& made) {
  char* const to = ItemTable<Tx>::bytes_of(item);
  const std::string_view key = made.key;
  // The head and the key, as one run of words, with as much of the value as fills a line.
  std::array<char, kKeyOffset + kMaxKeyBytes + 6 + kLineBytes> begin;
  std::memcpy(begin.data() + kKeyOffset, key.data(), key.size());
  std::memset(begin.data() + kKeyOffset + key.size(), 0, made.at - kKeyOffset - key.size());
  std::memcpy(begin.data(), &made.head, sizeof(made.head));
  std::size_t taken = 0;
  if (made.kept == 0 && made.object == nullptr && !made.value.empty()) {
    taken = std::min<std::size_t>(round_up(made.at, kLineBytes) - made.at, made.value.size());
    std::memcpy(begin.data() + made.at, made.value.data(), taken);
  }
  tx.write(to, begin.data(), made.at + taken);
  if (made.object != nullptr) return;  // its value stands there
  if (made.kept > 0) {
    const char* const old = ItemTable<Tx>::bytes_of(place.item) + made.at;
    char* const its = to + made.at + (made.moves_old ? made.value.size() : 0);
    std::array<char, 4096> piece;
    for (std::uint64_t done = 0; done < made.kept;) {
      const std::size_t here = std::min<std::uint64_t>(piece.size(), made.kept - done);
      tx.read(piece.data(), old + done, here);
      tx.write(its + done, piece.data(), here);
      done += here;
    }
  }
  tx.write(to + made.at + (made.moves_old ? 0 : made.kept) + taken, made.value.data() + taken,
           made.value.size() - taken);
}

std::uint64_t PoolStore::draw_cas(Tx& tx, Delta& delta) {
  const std::uint64_t drawn = next_cas_.fetch_add(1, std::memory_order_relaxed);
  if (drawn >= reserved_cas_.load(std::memory_order_relaxed)) {
    delta.reserved_cas = std::max(tx.load(cache_->cas_reserved), drawn + kCasRange);
    tx.store(cache_->cas_reserved, delta.reserved_cas);
  }
  return drawn;
}

/// In the transaction.
void PoolStore::count(Tx& tx, const Delta& delta) {
  Tally& mine = cache_->tallies[my_tally()];
  if (delta.items != 0) tx.store(mine.items, tx.load(mine.items) + delta.items);
  if (delta.bytes != 0) tx.store(mine.bytes, tx.load(mine.bytes) + delta.bytes);
}

/// After it.
void PoolStore::count(const Delta& delta) {
  if (delta.items != 0) items_.fetch_add(delta.items, std::memory_order_relaxed);
  if (delta.bytes != 0) bytes_.fetch_add(delta.bytes, std::memory_order_relaxed);
  if (delta.reserved_cas == 0) return;
  std::uint64_t known = reserved_cas_.load(std::memory_order_relaxed);
  while (known < delta.reserved_cas &&
         !reserved_cas_.compare_exchange_weak(known, delta.reserved_cas)) {
  }
}

StoreCounts PoolStore::counts() const {
  return {items_.load(std::memory_order_relaxed),     bytes_.load(std::memory_order_relaxed),
          evictions_.load(std::memory_order_relaxed), reclaimed_.load(std::memory_order_relaxed),
          limit_.load(std::memory_order_relaxed),     buckets_.load(std::memory_order_relaxed)};
}

}  // namespace perdure::memcached
