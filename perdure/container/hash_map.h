// SPDX-License-Identifier: BSD-3-Clause
// hash_map<K, V>: an unordered map in persistent memory, for look-ups by key from many threads. K
// and V are fixed persistable types or `bytes`. For order and ranges take btree_map.
//
//   auto* words = pool.root<perdure::hash_map<perdure::bytes, perdure::bytes>>("words");
//   pool.atomically([&](auto& tx) { words->put(tx, "tower", "a tall building"); });
//
// Linear hashing (linear_hash.h): a bucket is split when an insertion falls into it, so that
// threads rarely meet.
//
// An entry is one heap object: next link, lengths if K or V is `bytes`, key, value; each starts at
// a word.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "perdure/base/words.h"
#include "perdure/container/bytes.h"
#include "perdure/container/linear_hash.h"
#include "perdure/container/support.h"
#include "perdure/error.h"
#include "perdure/pptr.h"
#include "perdure/tx.h"

namespace perdure {

/// Lives in persistent memory (a root, a field, an element); all-zero bytes are the empty map. It
/// owns its entries, and 1.5 KB once it has any; not what links inside of keys and values refer to.
/// Requires: the keys and values handed in do not lie in persistent memory.
/// Durable:  with the transaction.
/// Errors:   those of the transaction (kNoSpace) unless told; it takes everything back. Under
///           PlainTx (std::bad_alloc) the map has the content it had.
/// Threads:  as the transaction; insertions of different keys rarely conflict.
template <class K, class V>
class hash_map {
  using Key = detail::Item<K>;
  using Value = detail::Item<V>;
  static_assert(Key::kUnique,
                "perdure: a hash_map key is compared byte by byte; it must have no padding and no "
                "floating point");

 public:
  /// Inserts (true) or replaces (false). A value of the same size is replaced in place.
  /// Errors: kInvalid for a key or value of 4 GiB or more.
  template <Transaction Tx>
  bool put(Tx& tx, view_t<K> key, view_t<V> value) {
    return insert<true>(tx, key, value);
  }
  /// Inserts (true), unless the key is there: false, and its value stays.   Errors: as put().
  template <Transaction Tx>
  bool try_put(Tx& tx, view_t<K> key, view_t<V> value) {
    return insert<false>(tx, key, value);
  }
  /// Calls `f(value)` with a copy of the value of a key, and keeps what `f` makes of it; false if
  /// there is none. `f` must not change the map.
  /// Errors: as put(); what `f` throws, and then nothing has changed.
  template <Transaction Tx, class F>
  bool update(Tx& tx, view_t<K> key, F&& f) {
    const Found found = find_entry(tx, key);
    if (!found) return false;
    owned_t<V> value;
    Value::load(tx, value_at(found.entry, found.lengths), found.lengths.value, value);
    f(value);
    refuse_if_too_large(key, value);
    replace(tx, found, key, value);
    return true;
  }

  template <Transaction Tx>
  std::optional<owned_t<V>> get(Tx& tx, view_t<K> key) const {
    owned_t<V> value;
    if (!get(tx, key, value)) return std::nullopt;
    return value;
  }
  /// The same into `value`, whose memory is used again; false, and `value` is as before, if there
  /// is none.
  template <Transaction Tx>
  bool get(Tx& tx, view_t<K> key, owned_t<V>& value) const {
    const Found found = find_entry(tx, key);
    if (!found) return false;
    Value::load(tx, value_at(found.entry, found.lengths), found.lengths.value, value);
    return true;
  }

  /// Calls `f` with a std::string_view of the value; false if there is none. A large value is not
  /// copied while no other thread updates the pool (see Tx::view()): `f` must not wait for other
  /// threads, and must not change the map.
  template <Transaction Tx, class F>
  bool visit(Tx& tx, view_t<K> key, F&& f) const
    requires(Value::kVariable)
  {
    const Found found = find_entry(tx, key);
    if (!found) return false;
    Value::view(tx, value_at(found.entry, found.lengths), found.lengths.value, f);
    return true;
  }

  /// The value in place, null if there is none: for values that are containers themselves.
  /// Holds until the key is erased.
  template <Transaction Tx>
  V* find(Tx& tx, view_t<K> key) const
    requires(!Value::kVariable)
  {
    const Found found = find_entry(tx, key);
    return found ? static_cast<V*>(value_at(found.entry, found.lengths)) : nullptr;
  }

  template <Transaction Tx>
  bool contains(Tx& tx, view_t<K> key) const {
    return static_cast<bool>(find_entry(tx, key));
  }

  template <Transaction Tx>
  bool erase(Tx& tx, view_t<K> key) {
    const Found found = find_entry(tx, key);
    if (!found) return false;
    tx.store(*found.slot, tx.load(found.entry->next));
    tx.free(found.entry);
    tx.at(tx.load(table_))->entries.add(tx, kMinusOne);
    return true;
  }

  /// Conflicts with every concurrent insertion and erasure.
  template <Transaction Tx>
  std::uint64_t size(Tx& tx) const {
    const pptr<Table> table = tx.load(table_);
    return table ? tx.at(table)->entries.sum(tx) : 0;
  }
  template <Transaction Tx>
  bool empty(Tx& tx) const {
    return size(tx) == 0;
  }

  /// Calls `f(key, value)` for every entry, in no order, until one call returns false. `f` may
  /// erase or replace the entry it is given, and no other; it must not insert.
  template <Transaction Tx, class F>
  void for_each(Tx& tx, F&& f) const {
    const pptr<Table> at = tx.load(table_);
    if (!at) return;
    Table& table = *tx.at(at);
    const std::uint64_t buckets = Buckets::open_buckets(tx, table);
    owned_t<K> key;
    owned_t<V> value;
    for (std::uint64_t number = 0; number < buckets; ++number) {
      pptr<Entry> next = tx.load(*Buckets::head_of(tx, table, number));
      detail::ChainLength length;
      while (next && next != Buckets::kUnsplit) {
        length.count();
        Entry* entry = tx.at(next);
        next = tx.load(entry->next);
        load_entry(tx, entry, key, value);
        if (!detail::keep_going(f, view_t<K>(key), view_t<V>(value))) return;
      }
    }
  }

  /// Part of an iteration over several transactions. Starts at cursor 0; calls `f(key, value)` for
  /// about `max_entries` entries (it finishes the bucket it is in); returns the next cursor, 0 at
  /// the end. An entry that is there from the first call to the last is seen exactly once, whatever
  /// is inserted or erased in between: a cursor is a position in the order of the bit-reversed
  /// hash, which growth only divides more finely. (A clear_some() in between may make it see some
  /// twice.) A call may see none and still not be the last.
  template <Transaction Tx, class F>
  std::uint64_t scan(Tx& tx, std::uint64_t cursor, std::size_t max_entries, F&& f) const {
    const pptr<Table> at = tx.load(table_);
    if (!at) return 0;
    Table& table = *tx.at(at);
    const std::uint64_t seed = tx.load(table.seed);
    const std::uint64_t buckets = Buckets::open_buckets(tx, table);
    owned_t<K> key;
    owned_t<V> value;
    std::size_t seen = 0;
    for (std::size_t visited = 0; seen < max_entries && visited < max_entries + Buckets::kGroup;
         ++visited) {
      const std::uint64_t number = Buckets::address(reverse_bits(cursor), buckets);
      detail::ChainLength length;
      for (pptr<Entry> next = Buckets::locate(tx, table, number).first; next;) {
        length.count();
        Entry* entry = tx.at(next);
        next = tx.load(entry->next);
        // The chain also holds the entries of other buckets that are still unsplit.
        if (Buckets::address(hash_entry(tx, seed, entry), buckets) != number) continue;
        load_entry(tx, entry, key, value);
        f(view_t<K>(key), view_t<V>(value));
        ++seen;
      }
      const unsigned bits = Buckets::address_bits(number, buckets);
      if (bits == 0) return 0;
      // To the end of this bucket's interval, wrapping to 0 behind the last one.
      cursor = (cursor | (~std::uint64_t{0} >> bits)) + 1;
      if (cursor == 0) break;
    }
    return cursor;
  }

  /// Erases everything in this transaction, whose size is that of the map: see clear_some() for
  /// huge ones.
  template <Transaction Tx>
  void clear(Tx& tx) {
    clear_some(tx, ~std::size_t{0});
  }

  /// Erases about `max_entries` entries (it finishes the bucket it is in), fewer where the map is
  /// sparse; true when the map is empty. The map may be used between calls.
  template <Transaction Tx>
  bool clear_some(Tx& tx, std::size_t max_entries) {
    const pptr<Table> at = tx.load(table_);
    if (!at) return true;
    Table& table = *tx.at(at);
    std::uint64_t buckets = Buckets::open_buckets(tx, table);
    std::size_t erased = 0;
    // From the last bucket down. A closed bucket needs no merge: its own entries are gone, and if
    // it was unsplit, those that it would have got are where they belong now.
    for (std::size_t closed = 0; buckets > 0 && erased < max_entries && closed / 16 <= max_entries;
         ++closed) {
      pptr<Entry> next = tx.load(*Buckets::head_of(tx, table, --buckets));
      detail::ChainLength length;
      while (next && next != Buckets::kUnsplit) {
        length.count();
        Entry* entry = tx.at(next);
        next = tx.load(entry->next);
        tx.free(entry);
        ++erased;
      }
      if (const auto segment = Buckets::segment_of(buckets); segment.first == buckets)
        tx.free(tx.at(tx.load(table.segments[segment.index])));
    }
    if (buckets == 0) {
      tx.store(table_, {});
      tx.free(&table);
      return true;
    }
    table.entries.add(tx, std::uint64_t{0} - erased);
    tx.store(table.buckets, buckets);
    return false;
  }

  /// Gives an empty map this hash seed instead of a random one. For tests that must be replayed
  /// word by word; with a seed that others know, they can choose keys that make the map slow.
  template <Transaction Tx>
  void use_seed(Tx& tx, std::uint64_t seed) {
    if (tx.load(table_))
      throw Exception(Code::kMisuse, "hash_map: use_seed() on a map that is in use");
    new_table(tx, seed);
  }

  /// Verifies everything the map says about itself and calls `visit(offset)` for each heap object
  /// that it owns, before it looks into it. Returns what is wrong first, if anything. Ends on any
  /// bytes, given a Tx that survives any address and a `visit` that throws on an offset where no
  /// live object starts and on one it has seen. What `visit` returns is the object's size or its
  /// detail::Room, if it returns anything.
  template <Transaction Tx, class F>
  std::optional<std::string> audit(Tx& tx, F&& visit) const {
    const pptr<Table> at = tx.load(table_);
    if (!at) return std::nullopt;
    if (!detail::room_at(visit, at).holds(sizeof(Table)))
      return "hash_map: its table overruns its object";
    Table& table = *tx.at(at);
    const std::uint64_t seed = tx.load(table.seed);
    return Buckets::audit(
        tx, table, table.entries.sum(tx), visit,
        [&](const Entry* entry, const detail::Room& room) { return look(tx, seed, entry, room); });
  }

 private:
  friend detail::Salvage<hash_map>;
  static constexpr bool kLengths = Key::kVariable || Value::kVariable;
  static constexpr std::uint64_t kMaxItemBytes = ~std::uint32_t{0};
  static constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};
  /// Insertions of a thread between two looks at the load.
  static constexpr std::uint64_t kLookEvery = 16;
  static constexpr std::size_t kSegments = 40;

  struct Lengths {
    std::uint32_t key;
    std::uint32_t value;
  };
  struct Entry {
    pptr<Entry> next;
  };
  struct Table {
    static constexpr const char* kName = "hash_map";
    std::uint64_t seed;
    std::uint64_t buckets;  // that are open
    std::array<pptr<pptr<Entry>>, kSegments> segments;
    detail::StripedCount entries;
  };
  static_assert(sizeof(Table) == 1360);

  using Buckets = detail::LinearHash<Table, Entry>;
  using Bucket = typename Buckets::Bucket;

  static constexpr std::uint64_t reverse_bits(std::uint64_t word) {
    constexpr std::uint64_t kMasks[] = {0x5555555555555555u, 0x3333333333333333u,
                                        0x0f0f0f0f0f0f0f0fu, 0x00ff00ff00ff00ffu,
                                        0x0000ffff0000ffffu};
    for (unsigned shift = 1; const std::uint64_t mask : kMasks) {
      word = ((word >> shift) & mask) | ((word & mask) << shift);
      shift *= 2;
    }
    return std::rotl(word, 32);
  }

  struct Found {
    pptr<Entry>* slot = nullptr;  // the link that refers to the entry
    Entry* entry = nullptr;
    Lengths lengths{};
    explicit operator bool() const { return entry != nullptr; }
  };

  // ---- inserting -------------------------------------------------------------------------------

  template <bool kReplaces, class Tx>
  bool insert(Tx& tx, view_t<K> key, view_t<V> value) {
    refuse_if_too_large(key, value);
    Table& table = table_or_new(tx);
    const std::uint64_t buckets = Buckets::open_buckets(tx, table);
    const std::uint64_t seed = tx.load(table.seed);
    const std::uint64_t number = Buckets::address(hash_key(key, seed), buckets);
    Bucket bucket = Buckets::locate(tx, table, number);
    if (const Found found = find_in(tx, bucket, key)) {
      if constexpr (kReplaces) replace(tx, found, key, value);
      return false;
    }
    Entry* fresh = allocate_entry(tx, key, value);
    if (bucket.number != number) {
      bucket = Buckets::split(tx, table, bucket, number,
                              [&](const Entry* entry) { return hash_entry(tx, seed, entry); });
    }
    write_entry(tx, fresh, bucket.first, key, value);
    tx.store(*bucket.head, tx.link_to(fresh));
    // This thread's share tells, for one load that insertion makes anyway, when it is worth to look
    // at the others'.
    if (table.entries.add(tx, 1) % kLookEvery == 0 && table.entries.sum(tx) > buckets)
      Buckets::open_group(tx, table, buckets);
    return true;
  }
  template <class Tx>
  static void replace(Tx& tx, const Found& found, view_t<K> key, view_t<V> value) {
    if (found.lengths.value == Value::size(value)) {
      Value::store(tx, value_at(found.entry, found.lengths), value);
      return;
    }
    Entry* fresh = allocate_entry(tx, key, value);
    write_entry(tx, fresh, tx.load(found.entry->next), key, value);
    tx.store(*found.slot, tx.link_to(fresh));
    tx.free(found.entry);
  }
  static void refuse_if_too_large(view_t<K> key, view_t<V> value) {
    if constexpr (kLengths) {
      if (Key::size(key) > kMaxItemBytes || Value::size(value) > kMaxItemBytes)
        throw Exception(Code::kInvalid, "hash_map: a key or value of 4 GiB or more");
    }
  }

  // ---- entries ----------------------------------------------------------------------------------

  static char* bytes_of(const Entry* entry) {
    return reinterpret_cast<char*>(const_cast<Entry*>(entry));
  }
  static constexpr std::size_t kKeyOffset = sizeof(Entry) + (kLengths ? sizeof(Lengths) : 0);
  static constexpr std::size_t value_offset(Lengths lengths) {
    return kKeyOffset + round_up(std::size_t{lengths.key}, kWordBytes);
  }
  static void* key_at(const Entry* entry) { return bytes_of(entry) + kKeyOffset; }
  static void* value_at(const Entry* entry, Lengths lengths) {
    return bytes_of(entry) + value_offset(lengths);
  }

  static Lengths lengths_for(view_t<K> key, view_t<V> value) {
    return {static_cast<std::uint32_t>(Key::size(key)),
            static_cast<std::uint32_t>(Value::size(value))};
  }
  template <class Tx>
  static Lengths lengths_of(Tx& tx, const Entry* entry) {
    if constexpr (kLengths)
      return tx.load(*reinterpret_cast<const Lengths*>(bytes_of(entry) + sizeof(Entry)));
    else
      return {std::uint32_t{sizeof(K)}, std::uint32_t{sizeof(V)}};
  }
  template <class Tx>
  static void check_entry(Tx& tx, const Entry* entry, Lengths lengths) {
    if constexpr (kLengths) detail::check_object(tx, entry, value_offset(lengths) + lengths.value);
  }
  template <class Tx>
  static Entry* allocate_entry(Tx& tx, view_t<K> key, view_t<V> value) {
    const Lengths lengths = lengths_for(key, value);
    return static_cast<Entry*>(tx.allocate(value_offset(lengths) + lengths.value));
  }
  template <class Tx>
  static void write_entry(Tx& tx, Entry* entry, pptr<Entry> next, view_t<K> key, view_t<V> value) {
    const Lengths lengths = lengths_for(key, value);
    tx.store(entry->next, next);
    if constexpr (kLengths)
      tx.store(*reinterpret_cast<Lengths*>(bytes_of(entry) + sizeof(Entry)), lengths);
    Key::store(tx, key_at(entry), key);
    Value::store(tx, value_at(entry, lengths), value);
  }
  template <class Tx>
  static void load_entry(Tx& tx, const Entry* entry, owned_t<K>& key, owned_t<V>& value) {
    const Lengths lengths = lengths_of(tx, entry);
    check_entry(tx, entry, lengths);
    Key::load(tx, key_at(entry), lengths.key, key);
    Value::load(tx, value_at(entry, lengths), lengths.value, value);
  }

  /// For audit().
  template <class Tx>
  static typename Buckets::Looked look(Tx& tx, std::uint64_t seed, const Entry* entry,
                                       const detail::Room& room) {
    if (!room.holds(kKeyOffset)) return {0, "overruns its object"};
    const Lengths lengths = lengths_of(tx, entry);
    const std::size_t bytes = value_offset(lengths) + lengths.value;
    if (!room.holds(bytes)) return {0, "overruns its object"};
    if (!room.fits(bytes)) return {0, "is shorter than its object"};
    return {hash_entry(tx, seed, entry)};
  }

  // ---- finding ----------------------------------------------------------------------------------

  [[gnu::always_inline]] static std::uint64_t hash_key(view_t<K> key, std::uint64_t seed) {
    return detail::hash_memory(Key::data(key), Key::size(key), seed);
  }
  template <class Tx>
  static std::uint64_t hash_entry(Tx& tx, std::uint64_t seed, const Entry* entry) {
    const auto* key = static_cast<const char*>(key_at(entry));
    const Lengths lengths = lengths_of(tx, entry);
    check_entry(tx, entry, lengths);
    return detail::hash_read(lengths.key, seed, [&](void* to, std::size_t at, std::size_t count) {
      tx.read(to, key + at, count);
    });
  }
  template <class Tx>
  static bool key_equals(Tx& tx, const Entry* entry, Lengths lengths, view_t<K> key) {
    if (lengths.key != Key::size(key)) return false;
    if constexpr (Key::kField) {
      const K stored = tx.load(*static_cast<const K*>(key_at(entry)));
      return std::memcmp(&stored, &key, sizeof(K)) == 0;
    } else {
      const auto* wanted = static_cast<const char*>(Key::data(key));
      const auto* stored = static_cast<const char*>(key_at(entry));
      char piece[kLineBytes];
      for (std::size_t at = 0; at < lengths.key; at += sizeof(piece)) {
        const std::size_t count =
            lengths.key - at < sizeof(piece) ? lengths.key - at : sizeof(piece);
        tx.read(piece, stored + at, count);
        if (std::memcmp(piece, wanted + at, count) != 0) return false;
      }
      return true;
    }
  }
  template <class Tx>
  [[gnu::always_inline]] static Found find_in(Tx& tx, const Bucket& bucket, view_t<K> key) {
    pptr<Entry>* slot = bucket.head;
    detail::ChainLength length;
    for (pptr<Entry> at = bucket.first; at; at = tx.load(*slot)) {
      length.count();
      Entry* entry = tx.at(at);
      const Lengths lengths = lengths_of(tx, entry);
      if (key_equals(tx, entry, lengths, key)) {
        check_entry(tx, entry, lengths);
        return {slot, entry, lengths};
      }
      slot = &entry->next;
    }
    return {};
  }
  template <class Tx>
  Found find_entry(Tx& tx, view_t<K> key) const {
    const pptr<Table> at = tx.load(table_);
    if (!at) return {};
    const Table& table = *tx.at(at);
    const std::uint64_t number =
        Buckets::address(hash_key(key, tx.load(table.seed)), Buckets::open_buckets(tx, table));
    return find_in(tx, Buckets::locate(tx, table, number), key);
  }

  // ---- making -----------------------------------------------------------------------------------

  template <class Tx>
  Table& table_or_new(Tx& tx) {
    if (const pptr<Table> at = tx.load(table_)) return *tx.at(at);
    return new_table(tx, detail::random_seed());
  }
  template <class Tx>
  Table& new_table(Tx& tx, std::uint64_t seed) {
    auto* table = static_cast<Table*>(tx.allocate(sizeof(Table)));
    try {
      Buckets::make(tx, *table);
    } catch (...) {
      tx.free(table);
      throw;
    }
    tx.store(table->seed, seed);
    table->entries.reset(tx);
    tx.store(table_, tx.link_to(table));
    return *table;
  }

  pptr<Table> table_;
};

/// The items are checked where the map is used as a persistent type, with the same messages as any
/// other field.
template <class K, class V>
inline constexpr bool is_persistable_by_promise<hash_map<K, V>> =
    detail::Item<K>::require() && detail::Item<V>::require();

}  // namespace perdure
