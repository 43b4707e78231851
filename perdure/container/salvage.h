// SPDX-License-Identifier: BSD-3-Clause
// What can be saved of a damaged container: each entry that its links lead to and that agrees with
// what stands around it, and then, where some are missing, those that no link leads to any more.
//
// A container's audit() ends at the first thing that is wrong; this goes on behind it. A `Finder`
// hears what is found:
//   visit(offset)         the room of the live object that starts there; throws if there is none, or
//                         if it was asked for before
//   visit_only(offset)    the same; where several links lead there it throws for each of them
//   is_live(offset)       whether a live object starts there
//   release(offset)       it is not what was looked for: as if visit() had not been asked
//   doubt(offset)         it stands where it does not belong: visit() may be asked for it once more,
//                         from where it does, but it is no stray
//   for_each_stray(f)     calls f(offset, room) for every other live object that visit() was not
//                         asked for
//   seems_empty()         there is nothing to follow
//   take(key, value)      an entry (of a vector: its index and the element); a key may come twice
//   lose(what)            what cannot be followed or proved
// Nothing here trusts what it reads, given a Tx that survives any address.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <utility>

#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"

namespace perdure::detail {

inline std::string at_offset(Offset offset) { return "offset " + std::to_string(offset); }

/// False: `body` threw, and that is lost.
template <class Finder, class Body>
bool attempt(Finder& finder, const std::string& where, Body&& body) {
  try {
    body();
    return true;
  } catch (const Exception& error) {
    finder.lose(where + ": " + error.what());
    return false;
  }
}
/// The object at a link, if it was made for `bytes`; null, and it is lost.
template <class Tx, class Finder, class T>
T* object_at(Tx& tx, Finder& finder, const std::string& what, pptr<T> at, std::size_t bytes) {
  const bool whole = attempt(finder, what, [&] {
    if (Room(finder.visit(at.offset)).fits(bytes)) return;
    finder.release(at.offset);
    throw Exception(Code::kCorrupt, at_offset(at.offset) + ", an object of another size");
  });
  return whole ? tx.at(at) : nullptr;
}

/// Where the count of entries is lost, too.
inline constexpr std::uint64_t kUncounted = ~std::uint64_t{0};

/// Looks for what is missing among objects that nothing led to: `looks_like(offset, room)` tells how
/// many entries one holds, 0 if it is something else; `take(offset)` takes it. Where more are found
/// than are missing, none is proved.
template <class Finder, class LooksLike, class Take>
void take_strays(Finder& finder, std::uint64_t counted, std::uint64_t seen, const char* name,
                 LooksLike&& looks_like, Take&& take) {
  if (counted <= seen) return;
  const std::uint64_t missing = counted - seen;
  std::uint64_t entries = 0;
  GrowingArray<Offset> found;
  finder.for_each_stray([&](Offset offset, const Room& room) {
    std::uint64_t here = 0;
    try {
      here = looks_like(offset, room);
    } catch (const Exception&) {  // something else
    }
    if (here == 0) return;
    entries += here;
    found.reserve(found.size() + 1);
    found.push_back(offset);
  });
  if (entries > missing) {
    finder.lose(std::string(name) + ": " + std::to_string(missing) + " entries are missing, and " +
                std::to_string(entries) + " that no link leads to could be these: none was taken");
    return;
  }
  for (const Offset offset : found) {
    if (attempt(finder, at_offset(offset), [&] { finder.visit(offset); })) take(offset);
  }
  if (entries < missing && counted != kUncounted)
    finder.lose(std::string(name) + ": of " + std::to_string(counted) + " entries counted, " +
                std::to_string(missing - entries) + " were not found");
}

/// Of the buckets of a table: calls `take(node)` for each node that `look(node, room)` (as
/// LinearHash::audit() has it) finds whole.
template <class Table, class Node, class Tx, class Finder, class Look, class Take>
class BucketSalvage {
  using Buckets = LinearHash<Table, Node>;

 public:
  BucketSalvage(Tx& tx, const Table& table, Finder& finder, Look look, Take take)
      : tx_(tx), table_(table), finder_(finder), look_(std::move(look)), take_(std::move(take)) {}

  /// Of so many nodes.
  void run(std::uint64_t nodes) {
    buckets_ = tx_.load(table_.buckets);
    if (buckets_ - 1 >= Buckets::kMost) {
      finder_.lose(name_ + ": claims " + std::to_string(buckets_) + " buckets");
    } else {
      find_segments();
      for (std::uint64_t number = 0; number < buckets_; ++number) {
        if (heads_[Buckets::segment_of(number).index] == nullptr) {
          number = Buckets::segment_of(number).end - 1;
          continue;
        }
        attempt(finder_, where(number), [&] { walk(number); });
      }
    }
    take_strays(
        finder_, nodes, seen_, Table::kName,
        [&](Offset offset, const Room& room) -> std::uint64_t {
          return look_(tx_.at(pptr<Node>{offset}), room).wrong == nullptr ? 1 : 0;
        },
        [&](Offset offset) { take_(tx_.at(pptr<Node>{offset})); });
  }

 private:
  std::string where(std::uint64_t number) const {
    return name_ + ": bucket " + std::to_string(number);
  }

  /// Of two links to one segment nobody knows which is right.
  void find_segments() {
    for (std::uint64_t first = 0; first < buckets_; first = Buckets::segment_of(first).end) {
      const auto segment = Buckets::segment_of(first);
      const std::string what = name_ + ": segment " + std::to_string(segment.index);
      const pptr<pptr<Node>> at = tx_.load(table_.segments[segment.index]);
      bool only = true;
      for (std::size_t i = 0; i < table_.segments.size(); ++i)
        only = only && (i == segment.index || tx_.load(table_.segments[i]) != at);
      if (only) {
        const pptr<Node>* const heads =
            object_at(tx_, finder_, what, at, (segment.end - segment.first) * sizeof(pptr<Node>));
        if (heads != nullptr && holds_links(heads, std::min(segment.end, buckets_) - first)) {
          heads_[segment.index] = heads;
        } else if (heads != nullptr) {
          finder_.release(at.offset);
          finder_.lose(what + ": " + at_offset(at.offset) + " holds something else");
        }
      } else {
        finder_.lose(what + " is another's, too");
      }
    }
  }
  /// But for one, which may be damaged.
  bool holds_links(const pptr<Node>* heads, std::uint64_t count) {
    unsigned others = 0;
    for (std::uint64_t i = 0; i < count && others < 2; ++i) {
      const pptr<Node> link = tx_.load(heads[i]);
      if (link && link != Buckets::kUnsplit && !finder_.is_live(link.offset)) ++others;
    }
    return others < 2;
  }
  /// Null: not known.
  const pptr<Node>* head(std::uint64_t number) const {
    const auto segment = Buckets::segment_of(number);
    const pptr<Node>* const heads = heads_[segment.index];
    return heads == nullptr ? nullptr : heads + (number - segment.first);
  }
  void walk(std::uint64_t number) {
    pptr<Node> next = tx_.load(*head(number));
    if (next == Buckets::kUnsplit) return;
    while (next) {
      const Room room = finder_.visit(next.offset);
      const Node* const node = tx_.at(next);
      auto looked = look_(node, room);
      if (looked.wrong == nullptr && !belongs(looked.hash, number))
        looked.wrong = "belongs to another bucket";
      if (looked.wrong != nullptr) {
        // Its key or the link to it is damaged: what follows may be another bucket's.
        finder_.doubt(next.offset);
        return finder_.lose(where(number) + ": the entry at " + at_offset(next.offset) + " " +
                            looked.wrong);
      }
      ++seen_;
      take_(node);
      next = tx_.load(node->next);
    }
  }
  /// Whether nodes of this hash stand in that bucket: it is theirs, or all between are unsplit.
  bool belongs(std::uint64_t hash, std::uint64_t number) {
    for (std::uint64_t at = Buckets::address(hash, buckets_); at != number;) {
      const pptr<Node>* const between = head(at);
      if (at == 0 || (between != nullptr && tx_.load(*between) != Buckets::kUnsplit)) return false;
      at -= std::bit_floor(at);
    }
    return true;
  }

  Tx& tx_;
  const Table& table_;
  Finder& finder_;
  Look look_;
  Take take_;
  const std::string name_ = Table::kName;
  std::uint64_t buckets_ = 0;
  std::array<const pptr<Node>*, Buckets::kSegments> heads_{};
  std::uint64_t seen_ = 0;
};

template <class Container>
struct Salvage;

template <class K, class V>
struct Salvage<hash_map<K, V>> {
  using Map = hash_map<K, V>;
  using Table = typename Map::Table;
  using Entry = typename Map::Entry;

  template <class Tx, class Finder>
  static void run(Tx& tx, const Map& map, Finder& finder) {
    const Table* table = nullptr;
    if (const pptr<Table> at = tx.load(map.table_)) {
      table = object_at(tx, finder, Table::kName, at, sizeof(Table));
    } else {
      finder.seems_empty();
    }
    if (table == nullptr) table = stray_table(tx, finder);
    if (table == nullptr) return;
    const std::uint64_t seed = tx.load(table->seed);
    owned_t<K> key;
    owned_t<V> value;
    auto look = [&](const Entry* entry, const Room& room) {
      return Map::look(tx, seed, entry, room);
    };
    auto take = [&](const Entry* entry) {
      Map::load_entry(tx, entry, key, value);
      finder.take(view_t<K>(key), view_t<V>(value));
    };
    BucketSalvage<Table, Entry, Tx, Finder, decltype(look), decltype(take)>(tx, *table, finder,
                                                                            look, take)
        .run(table->entries.sum(tx));
  }

 private:
  /// The only object that no link leads to and that could be a table.
  template <class Tx, class Finder>
  static const Table* stray_table(Tx& tx, Finder& finder) {
    pptr<Table> found;
    bool only = true;
    finder.for_each_stray([&](Offset offset, const Room& room) {
      if (!room.fits(sizeof(Table))) return;
      const Table* const table = tx.at(pptr<Table>{offset});
      const std::uint64_t buckets = tx.load(table->buckets);
      if (buckets < Map::Buckets::kFirst || buckets > Map::Buckets::kMost) return;
      for (std::size_t i = 0; i < table->segments.size(); ++i) {
        const bool has_one = i == 0 || (Map::Buckets::kFirst << (i - 1)) < buckets;
        if (has_one && !tx.load(table->segments[i])) return;
      }
      only = !found;
      found = {offset};
    });
    if (!found || !only) return nullptr;
    finder.visit(found.offset);
    return tx.at(found);
  }
};

template <class K, class V, std::size_t kNodeBytes>
struct Salvage<btree_map<K, V, kNodeBytes>> {
  using Map = btree_map<K, V, kNodeBytes>;
  using Node = typename Map::Node;
  using Head = typename Map::Head;
  using Leaf = typename Map::Leaf;
  using Inner = typename Map::Inner;
  using Base = typename Map::Base;

  template <class Tx, class Finder>
  static void run(Tx& tx, const Map& map, Finder& finder) {
    const pptr<Base> at = tx.load(map.base_);
    std::uint64_t counted = kUncounted;
    Walk<Tx, Finder> walk{tx, finder};
    if (!at) {
      finder.seems_empty();
    } else if (const Base* base = object_at(tx, finder, "btree_map: its base", at, sizeof(Base))) {
      counted = base->entries.sum(tx);
      if (const Node root = tx.load(base->root)) walk.subtree(root, nullptr, nullptr, {});
    }
    take_strays(
        finder, counted, walk.seen, "btree_map",
        [&](Offset offset, const Room& room) -> std::uint64_t {
          if (!room.fits(sizeof(Leaf))) return 0;
          const Head head = Map::load_head(tx, {offset});
          if (head.level != 0 || !is_whole<Leaf>(head) || head.count == 0) return 0;
          const auto* leaf = Map::template as<Leaf>(tx, Node{offset});
          for (unsigned i = 1; i < head.count; ++i) {
            if (!(Map::key_at(tx, *leaf, head, i - 1) < Map::key_at(tx, *leaf, head, i))) return 0;
          }
          return head.count;
        },
        [&](Offset offset) { walk.leaf({offset}, nullptr, nullptr); });
  }

 private:
  template <class N>
  static bool is_whole(const Head& head) {
    std::uint32_t slots = 0;
    for (unsigned i = 0; i < Map::template kCapacity<N>; ++i) {
      if (head.slots[i] < Map::template kCapacity<N>) slots |= 1u << head.slots[i];
    }
    return head.count <= Map::template kCapacity<N> &&
           slots == (1u << Map::template kCapacity<N>)-1;
  }

  template <class Tx, class Finder>
  struct Walk {
    Tx& tx;
    Finder& finder;
    std::uint64_t seen = 0;

    /// `level`: none at the root, which says it itself.
    void subtree(Node at, const K* low, const K* high, std::optional<unsigned> level) {
      const std::string where = "btree_map: the node at " + at_offset(at.offset);
      std::optional<Head> head;
      attempt(finder, where, [&] {
        const Room room = finder.visit(at.offset);
        const Head found = Map::load_head(tx, at);
        const bool leaf = found.level == 0;
        finder.release(at.offset);
        if (!room.holds(leaf ? sizeof(Leaf) : sizeof(Inner)))
          throw Exception(Code::kCorrupt, "overruns its object");
        if (level ? found.level != *level : found.level >= Map::kMaxLevels)
          throw Exception(Code::kCorrupt, "claims level " + std::to_string(found.level));
        if (!(leaf ? is_whole<Leaf>(found) : is_whole<Inner>(found)))
          throw Exception(Code::kCorrupt, "has a head that is damaged");
        finder.visit(at.offset);
        head = found;
      });
      if (!head) return;
      if (head->level == 0) return leaf(at, low, high);
      const auto* inner = Map::template as<Inner>(tx, at);
      std::array<K, Map::template kCapacity<Inner>> keys;
      bool ordered = true;
      for (unsigned i = 0; i < head->count; ++i) {
        keys[i] = Map::key_at(tx, *inner, *head, i);
        ordered = ordered && (i == 0 || keys[i - 1] < keys[i]);
      }
      if (!ordered) finder.lose(where + " has a key out of order");
      if (ordered && head->count > 0 && is_outside(keys[0], low, high) &&
          is_outside(keys[head->count - 1], low, high)) {
        finder.doubt(at.offset);
        return finder.lose(where + " belongs elsewhere");
      }
      for (unsigned i = 0; i <= head->count; ++i) {
        // Keys that are damaged bound nothing.
        const K* from = i == 0 || !ordered ? low : &keys[i - 1];
        const K* to = i == head->count || !ordered ? high : &keys[i];
        subtree(Map::child(tx, *inner, *head, i), from, to, head->level - 1u);
      }
    }

    /// Takes those of the entries that are in order, as many as possible.
    void leaf(Node at, const K* low, const K* high) {
      const std::string where = "btree_map: the node at " + at_offset(at.offset);
      const auto* leaf = Map::template as<Leaf>(tx, at);
      const Head head = Map::load_head(tx, at);
      std::array<K, Map::template kCapacity<Leaf>> keys;
      // The longest run of ascending keys that ends with each, and the one before it there.
      std::array<unsigned, Map::template kCapacity<Leaf>> length{};
      std::array<unsigned, Map::template kCapacity<Leaf>> before{};
      unsigned best = head.count;
      for (unsigned i = 0; i < head.count; ++i) {
        keys[i] = Map::key_at(tx, *leaf, head, i);
        if (is_outside(keys[i], low, high)) continue;
        length[i] = 1;
        before[i] = i;
        for (unsigned j = 0; j < i; ++j) {
          if (length[j] >= length[i] && length[j] != 0 && keys[j] < keys[i]) {
            length[i] = length[j] + 1;
            before[i] = j;
          }
        }
        if (best == head.count || length[i] > length[best]) best = i;
      }
      if (best == head.count && head.count > 0) {
        finder.doubt(at.offset);
        return finder.lose(where + " belongs elsewhere");
      }
      std::array<bool, Map::template kCapacity<Leaf>> good{};
      for (unsigned i = best; i < head.count; i = before[i]) {
        good[i] = true;
        if (before[i] == i) break;
      }
      for (unsigned i = 0; i < head.count; ++i) {
        if (good[i]) {
          attempt(finder, where + ", entry " + std::to_string(i),
                  [&] { entry(keys[i], Map::payload_at(tx, *leaf, head, i)); });
        } else {
          finder.lose(where + " has a key out of order: entry " + std::to_string(i));
        }
      }
    }
    static bool is_outside(const K& key, const K* low, const K* high) {
      return (low != nullptr && key < *low) || (high != nullptr && !(key < *high));
    }
    void entry(const K& key, const typename Map::Stored& stored) {
      if constexpr (kIsApart<V>) {
        if (!Map::Value::fits(tx, stored, finder.visit_only(stored.offset))) {
          finder.release(stored.offset);
          throw Exception(Code::kCorrupt, "its value's size and its object do not agree");
        }
      }
      const owned_t<V>& value = Map::Value::load(tx, stored);
      ++seen;
      finder.take(view_t<K>(key), view_t<V>(value));
    }
  };
};

template <class K, class V>
struct Salvage<rb_map<K, V>> {
  using Map = rb_map<K, V>;
  using Node = typename Map::Node;
  using Base = typename Map::Base;

  template <class Tx, class Finder>
  static void run(Tx& tx, const Map& map, Finder& finder) {
    const pptr<Base> at = tx.load(map.base_);
    std::uint64_t counted = kUncounted;
    std::uint64_t seen = 0;
    const auto take = [&](const Node* node) {
      const V value = [&] {
        V loaded;
        Map::Value::load(tx, &node->value, sizeof(V), loaded);
        return loaded;
      }();
      finder.take(Map::key_of(tx, node), value);
    };
    if (!at) {
      finder.seems_empty();
    } else if (const Base* base = object_at(tx, finder, "rb_map: its base", at, sizeof(Base))) {
      counted = base->entries.sum(tx);
      walk(tx, finder, map.root(tx), nullptr, nullptr, 0, [&](const Node* node) {
        ++seen;
        take(node);
      });
    }
    take_strays(
        finder, counted, seen, "rb_map",
        [&](Offset offset, const Room& room) -> std::uint64_t {
          const Node* const node = tx.at(pptr<Node>{offset});
          return room.fits(sizeof(Node)) && tx.load(node->color) <= 1 ? 1 : 0;
        },
        [&](Offset offset) { take(tx.at(pptr<Node>{offset})); });
  }

 private:
  template <class Tx, class Finder, class Take>
  static void walk(Tx& tx, Finder& finder, pptr<Node> at, const K* low, const K* high,
                   unsigned height, Take&& take) {
    if (!at) return;
    const std::string where = "rb_map: the node at " + at_offset(at.offset);
    if (height == Map::kMaxHeight) return finder.lose(where + " is higher than the tree can be");
    const Node* const node = object_at(tx, finder, where, at, sizeof(Node));
    if (node == nullptr) return;
    const K key = Map::key_of(tx, node);
    const bool ordered = (low == nullptr || *low < key) && (high == nullptr || key < *high);
    if (!ordered) {
      finder.doubt(at.offset);
      return finder.lose(where + " has a key out of order");
    }
    take(node);
    walk(tx, finder, tx.load(node->children[0]), low, &key, height + 1, take);
    walk(tx, finder, tx.load(node->children[1]), &key, high, height + 1, take);
  }
};

template <class T>
struct Salvage<vector<T>> {
  using Vector = vector<T>;
  using Directory = typename Vector::Directory;

  template <class Tx, class Finder>
  static void run(Tx& tx, const Vector& from, Finder& finder) {
    const std::uint64_t size = tx.load(from.size_);
    const pptr<Directory> at = tx.load(from.directory_);
    if (!at) {
      if (size != 0)
        finder.lose("vector: claims " + std::to_string(size) + " elements, but has no memory");
      return;
    }
    const Directory* directory =
        object_at(tx, finder, "vector: its directory", at, sizeof(Directory));
    if (directory == nullptr) return;
    for (std::size_t i = 0; i < Vector::kSegments; ++i) {
      const std::uint64_t length = Vector::kFirst << i;
      const std::uint64_t first = length - Vector::kFirst;
      if (first >= size) return;
      const std::string where = "vector: elements " + std::to_string(first) + " to " +
                                std::to_string(std::min(size, first + length) - 1);
      const T* const elements =
          object_at(tx, finder, where, tx.load(directory->segments[i]), length * sizeof(T));
      for (std::uint64_t j = 0; elements != nullptr && j < length && first + j < size; ++j) {
        T value;
        Item<T>::load(tx, &elements[j], sizeof(T), value);
        finder.take(first + j, value);
      }
    }
    finder.lose("vector: claims " + std::to_string(size) + " elements");
  }
};

template <>
struct Salvage<string> {
  template <class Tx, class Finder>
  static void run(Tx& tx, const string& from, Finder& finder) {
    const pptr<char> at = tx.load(from.bytes_);
    const std::uint64_t size = tx.load(from.size_);
    if (!at && size == 0) return;
    if (object_at(tx, finder, "string", at, size) == nullptr) return;
    finder.take(from.str(tx));
  }
};

}  // namespace perdure::detail
