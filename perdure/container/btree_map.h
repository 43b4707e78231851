// SPDX-License-Identifier: BSD-3-Clause
// btree_map<K, V>: an ordered map in persistent memory, for ranges, first and last, and sorted
// iteration. K is a fixed persistable type with operator<, V a fixed persistable type or `bytes`.
// Without a need for order, hash_map is faster, and takes keys of `bytes`, too.
//
// A B+ tree with linked leaves. Within a node entries do not move: a byte per entry, its *slot*,
// keeps their order, so that an insertion logs the entry and at most four words, not half a node.
// Values of `bytes` are objects of their own (support.h).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "perdure/base/growing_array.h"
#include "perdure/container/bytes.h"
#include "perdure/container/support.h"
#include "perdure/error.h"
#include "perdure/pptr.h"
#include "perdure/tx.h"

namespace perdure {

/// Lives in persistent memory (a root, a field, an element); all-zero bytes are the empty map. It
/// owns its entries, not what links inside of keys and values refer to. `kNodeBytes` is the size of
/// a node, as long as four entries fit.
/// Requires: the keys and values handed in do not lie in persistent memory.
/// Durable:  with the transaction.
/// Errors:   those of the transaction (kNoSpace) unless told; it takes everything back. Under
///           PlainTx (std::bad_alloc) the map has the content it had.
/// Threads:  as the transaction; updates conflict when they meet in a leaf.
template <class K, class V, std::size_t kNodeBytes = 512>
class btree_map {
  static_assert(
      !std::is_same_v<K, bytes>,
      "perdure: a btree_map's keys have one size; take hash_map<perdure::bytes, V> or, where "
      "order counts, std::array<char, N> as keys");
  static_assert(kNodeBytes % 8 == 0, "perdure: a btree_map node is made of whole words");
  static_assert(kNodeBytes >= 64, "perdure: a btree_map node has 64 bytes or more");

 public:
  using Entry = std::pair<K, owned_t<V>>;

  /// Inserts (true) or replaces (false).
  template <Transaction Tx>
  bool put(Tx& tx, const K& key, view_t<V> value) {
    return insert<true>(tx, key, value);
  }
  /// Inserts (true), unless the key is there: false, and its value stays.
  template <Transaction Tx>
  bool try_put(Tx& tx, const K& key, view_t<V> value) {
    return insert<false>(tx, key, value);
  }
  /// Calls `f(value)` with a copy of the value of a key, and keeps what `f` makes of it; false if
  /// there is none. `f` must not change the map.
  /// Errors: what `f` throws, and then nothing has changed.
  template <Transaction Tx, class F>
  bool update(Tx& tx, const K& key, F&& f) {
    const Place place = find_place(tx, key);
    if (!place) return false;
    Stored& stored = place.leaf->payloads[slot_in<Leaf>(place.head, place.position)];
    owned_t<V> value;
    Value::load_into(tx, payload_at(tx, *place.leaf, place.head, place.position), value);
    f(value);
    Value::replace(tx, stored, value);
    return true;
  }

  template <Transaction Tx>
  std::optional<owned_t<V>> get(Tx& tx, const K& key) const {
    const Place place = find_place(tx, key);
    if (!place) return std::nullopt;
    return Value::load(tx, payload_at(tx, *place.leaf, place.head, place.position));
  }
  /// The same into `value`, whose memory is used again; false, and `value` is as before, if there
  /// is none.
  template <Transaction Tx>
  bool get(Tx& tx, const K& key, owned_t<V>& value) const {
    const Place place = find_place(tx, key);
    if (!place) return false;
    Value::load_into(tx, payload_at(tx, *place.leaf, place.head, place.position), value);
    return true;
  }

  /// Calls `f` with a std::string_view of the value; false if there is none. A large value is not
  /// copied while no other thread updates the pool (see Tx::view()): `f` must not wait for other
  /// threads, and must not change the map.
  template <Transaction Tx, class F>
  bool visit(Tx& tx, const K& key, F&& f) const
    requires(detail::Item<V>::kVariable)
  {
    const Place place = find_place(tx, key);
    if (!place) return false;
    Value::view(tx, payload_at(tx, *place.leaf, place.head, place.position), f);
    return true;
  }

  /// The value in place, null if there is none: for values that are containers themselves.
  /// Holds until the next insertion or erasure.
  template <Transaction Tx>
  V* find(Tx& tx, const K& key) const
    requires(!detail::Item<V>::kVariable)
  {
    const Place place = find_place(tx, key);
    if (!place) return nullptr;
    return &place.leaf->payloads[slot_in<Leaf>(place.head, place.position)];
  }

  template <Transaction Tx>
  bool contains(Tx& tx, const K& key) const {
    return static_cast<bool>(find_place(tx, key));
  }

  template <Transaction Tx>
  bool erase(Tx& tx, const K& key) {
    const pptr<Base> base_at = tx.load(base_);
    if (!base_at) return false;
    Base& base = *tx.at(base_at);
    Node at = tx.load(base.root);
    if (!at) return false;
    std::array<Step, kMaxLevels> path;
    std::size_t depth = 0;
    Head head = head_of_root(tx, at);
    for (; head.level != 0; head = head_below(tx, at, head)) {
      auto* inner = as<Inner>(tx, at);
      const unsigned index = search<true>(tx, *inner, head, key);
      path[depth++] = {inner, head, index};
      at = child(tx, *inner, head, index);
    }
    auto* leaf = as<Leaf>(tx, at);
    const unsigned position = search<false>(tx, *leaf, head, key);
    if (position == head.count || key < key_at(tx, *leaf, head, position)) return false;
    const Stored stored = payload_at(tx, *leaf, head, position);
    remove(head, position);
    save_head(tx, *leaf, head);
    Value::drop(tx, stored);
    base.entries.add(tx, ~std::uint64_t{0});

    if (depth == 0) {
      if (head.count == 0) {
        tx.free(leaf);
        tx.store(base.root, {});
      }
      return true;
    }
    bool merged = head.count < kMinimum<Leaf> && mend<Leaf>(tx, path[depth - 1]);
    while (--depth > 0 && merged)
      merged = path[depth].head.count < kMinimum<Inner> && mend<Inner>(tx, path[depth - 1]);
    if (path[0].head.count == 0) {
      tx.store(base.root, tx.load(path[0].node->first));
      tx.free(path[0].node);
    }
    return true;
  }

  /// Conflicts with every concurrent insertion and erasure.
  template <Transaction Tx>
  std::uint64_t size(Tx& tx) const {
    const pptr<Base> base = tx.load(base_);
    return base ? tx.at(base)->entries.sum(tx) : 0;
  }
  template <Transaction Tx>
  bool empty(Tx& tx) const {
    return !root(tx);
  }

  template <Transaction Tx>
  std::optional<Entry> first(Tx& tx) const {
    return entry_from(tx, leftmost(tx));
  }
  template <Transaction Tx>
  std::optional<Entry> last(Tx& tx) const {
    Node at = root(tx);
    if (!at) return std::nullopt;
    Head head = head_of_root(tx, at);
    for (; head.level != 0; head = head_below(tx, at, head))
      at = child(tx, *as<Inner>(tx, at), head, head.count);
    return entry_from(tx, {as<Leaf>(tx, at), head, head.count - 1u});
  }
  /// The first entry whose key is not less than `key`.
  template <Transaction Tx>
  std::optional<Entry> lower_bound(Tx& tx, const K& key) const {
    return entry_from(tx, bound<false>(tx, key));
  }
  /// The first entry whose key is greater than `key`: how an iteration goes on in its next
  /// transaction.
  template <Transaction Tx>
  std::optional<Entry> upper_bound(Tx& tx, const K& key) const {
    return entry_from(tx, bound<true>(tx, key));
  }

  /// Calls `f(key, value)` in ascending order, until one call returns false. `f` must not change
  /// the map.
  template <Transaction Tx, class F>
  void for_each(Tx& tx, F&& f) const {
    walk(tx, leftmost(tx), nullptr, f);
  }
  /// The same for the keys of [low, high).
  template <Transaction Tx, class F>
  void for_each_in(Tx& tx, const K& low, const K& high, F&& f) const {
    walk(tx, bound<false>(tx, low), &high, f);
  }

  /// Fills an empty map with pairs in ascending order of their keys, into packed nodes.
  /// Errors: kMisuse if the map is not empty, kInvalid if a key is not greater than the one before;
  /// then unchanged.
  template <Transaction Tx, std::forward_iterator Iterator>
  void bulk_load(Tx& tx, Iterator begin, Iterator end) {
    if (!empty(tx))
      throw Exception(Code::kMisuse, "btree_map: bulk_load() into a map that is not empty");
    std::size_t size = 0;
    for (Iterator item = begin, before = begin; item != end; before = item++) {
      if (size++ != 0 && !((*before).first < (*item).first))
        throw Exception(Code::kInvalid,
                        "btree_map: bulk_load() of keys that do not ascend, at position " +
                            std::to_string(size - 1));
    }
    if (size == 0) return;
    Base& base = base_or_new(tx);
    GrowingArray<void*> made;
    try {
      Built below = build_leaves(tx, made, begin, size);
      for (std::uint8_t level = 1; below.size() > 1; ++level)
        below = build_inner(tx, made, below, level);
      tx.store(base.root, below.front().node);
    } catch (...) {
      for (void* object : made) tx.free(object);
      throw;
    }
    base.entries.add(tx, size);
  }

  /// Erases everything in this transaction, whose size is that of the map: see clear_some() for
  /// huge ones.
  template <Transaction Tx>
  void clear(Tx& tx) {
    const pptr<Base> base = tx.load(base_);
    if (!base) return;
    if (const Node at = root(tx)) free_subtree(tx, at, head_of_root(tx, at));
    tx.free(tx.at(base));
    tx.store(base_, {});
  }
  /// Erases up to `max_entries` entries, from the end; true when the map is empty. The map may be
  /// used between calls.
  template <Transaction Tx>
  bool clear_some(Tx& tx, std::size_t max_entries) {
    return detail::clear_from_the_end(*this, tx, max_entries);
  }

  /// Verifies everything the map says about itself and calls `visit(offset)` for each heap object
  /// that it owns, before it looks into it. Returns what is wrong first, if anything. Ends on any
  /// bytes, given a Tx that survives any address and a `visit` that throws on an offset where no
  /// live object starts and on one it has seen. What `visit` returns is the object's size, if it
  /// returns anything.
  template <Transaction Tx, class F>
  std::optional<std::string> audit(Tx& tx, F&& visit) const {
    const pptr<Base> base = tx.load(base_);
    if (!base) return std::nullopt;
    if (!detail::room_at(visit, base).holds(sizeof(Base)))
      return "btree_map: its base overruns its object";
    Audit state;
    state.size = tx.at(base)->entries.sum(tx);
    if (const Node at = root(tx)) {
      const detail::Room room = detail::room_at(visit, at);
      const std::uint8_t level = load_head(tx, at).level;
      if (!room.holds(level == 0 ? sizeof(Leaf) : sizeof(Inner)))
        return "btree_map: the root overruns its object";
      if (level >= kMaxLevels) return "btree_map: the root claims level " + std::to_string(level);
      if (auto wrong = audit_node(tx, visit, state, at, level, nullptr, nullptr, true))
        return wrong;
      if (state.next_leaf) return "btree_map: the last leaf is followed by another";
    }
    if (state.seen != state.size)
      return "btree_map: " + std::to_string(state.size) + " entries counted, " +
             std::to_string(state.seen) + " found";
    return std::nullopt;
  }

 private:
  friend detail::Salvage<btree_map>;
  template <bool kReplaces, class Tx>
  bool insert(Tx& tx, const K& key, view_t<V> value) {
    Base& base = base_or_new(tx);
    Node at = root_or_new(tx, base);
    Inner* parent = nullptr;
    unsigned index = 0;  // of `at` in its parent
    bool last = true;    // no node of this level stands to the right
    // Full inner nodes are split on the way down, so that a split below always finds room for its
    // separator, and each split leaves a whole tree behind.
    Head head = head_of_root(tx, at);
    for (; head.level != 0; head = head_below(tx, at, head)) {
      auto* inner = as<Inner>(tx, at);
      if (head.count == kCapacity<Inner>) {
        const auto [separator, right] = split_inner(tx, base, parent, index, inner, head, last);
        if (key < separator) {
          last = false;
        } else {
          inner = right;
        }
        head = load_head(tx, node_of(tx, inner));
      }
      index = search<true>(tx, *inner, head, key);
      last = last && index == head.count;
      parent = inner;
      at = child(tx, *inner, head, index);
    }
    auto* leaf = as<Leaf>(tx, at);
    unsigned position = search<false>(tx, *leaf, head, key);
    if (position < head.count && !(key < key_at(tx, *leaf, head, position))) {
      if constexpr (kReplaces)
        Value::replace(tx, leaf->payloads[slot_in<Leaf>(head, position)], value);
      return false;
    }
    const Stored stored = Value::make(tx, value);
    if (head.count == kCapacity<Leaf>) {
      try {
        leaf = split_leaf(tx, base, parent, index, at, head, position, key, last);
      } catch (...) {
        Value::drop(tx, stored);
        throw;
      }
    }
    place(tx, *leaf, head, position, {key, stored});
    save_head(tx, *leaf, head);
    base.entries.add(tx, 1);
    return true;
  }

  using Key = detail::Item<K>;
  using Value = detail::Kept<V>;
  using Stored = typename Value::Stored;

  /// How many entries a node has, how far it is above the leaves, and where entries stand: slots[0
  /// … count) in order of their keys, the other slots are vacant. Always a permutation.
  struct Head {
    std::uint8_t count;
    std::uint8_t level;
    std::array<std::uint8_t, 30> slots;
  };
  static_assert(sizeof(Head) == 4 * kWordBytes);
  using Node = pptr<Head>;  // each node begins with its head

  template <class P>
  struct NodeOf {
    using Payload = P;
    static constexpr std::size_t kFitting =
        (kNodeBytes - sizeof(Head) - sizeof(Node) - alignof(P)) / (sizeof(K) + sizeof(P));
    static constexpr std::size_t kMost = std::tuple_size_v<decltype(Head::slots)>;
    static constexpr unsigned kEntries = kFitting < 4 ? 4 : kFitting < kMost ? kFitting : kMost;
    Head head;
    Node first;  // leaf: the next leaf; inner: the child left of all keys
    std::array<K, kEntries> keys;
    std::array<P, kEntries> payloads;  // leaf: values; inner: the child right of the key
  };
  using Leaf = NodeOf<Stored>;
  using Inner = NodeOf<Node>;

  template <class N>
  static constexpr unsigned kCapacity = N::kEntries;
  /// Every node has that many entries, but for the root and the last node of each level (at least
  /// one).
  template <class N>
  static constexpr unsigned kMinimum =
      std::is_same_v<N, Leaf> ? kCapacity<N> / 2 : (kCapacity<N> - 1) / 2;
  static constexpr std::size_t kMaxLevels = 48;

  struct Base {
    Node root;
    std::array<std::byte, kLineBytes - sizeof(Node)>
        padding;  // every access reads the root, many write the counts
    detail::StripedCount entries;
  };

  // ---- one node ---------------------------------------------------------------------------------

  template <class N, class Tx>
  static N* as(Tx& tx, Node at) {
    if (!at) [[unlikely]]
      refuse();
    return tx.at(pptr<N>{at.offset});
  }
  [[noreturn, gnu::cold]] static void refuse() {
    throw Exception(Code::kCorrupt,
                    "btree_map: nodes that no sound tree has so; the pool is damaged, run `perdure "
                    "check` on it");
  }
  template <class Tx, class N>
  static Node node_of(Tx& tx, const N* node) {
    return tx.link_to(&node->head);
  }
  template <class N, class Tx>
  static N* allocate_node(Tx& tx) {
    return static_cast<N*>(tx.allocate(sizeof(N)));
  }
  static Head empty_head(std::uint8_t level) {
    Head head{0, level, {}};
    for (std::size_t i = 0; i < head.slots.size(); ++i)
      head.slots[i] = static_cast<std::uint8_t>(i);
    return head;
  }
  template <class Tx>
  static Head load_head(Tx& tx, Node at) {
    Head head;
    tx.read(&head, tx.at(at), sizeof(head));
    return head;
  }
  /// The same on a way down: each level is one lower, so it ends, and a node holds no more than it
  /// can.
  template <class Tx>
  static Head head_of_root(Tx& tx, Node at) {
    const Head head = load_head(tx, at);
    if (head.level >= kMaxLevels || head.count > most_at(head.level)) [[unlikely]]
      refuse();
    return head;
  }
  template <class Tx>
  static Head head_below(Tx& tx, Node at, const Head& above) {
    const Head head = load_head(tx, at);
    if (head.level + 1 != above.level || head.count > most_at(head.level)) [[unlikely]]
      refuse();
    return head;
  }
  static constexpr unsigned most_at(unsigned level) {
    return level == 0 ? kCapacity<Leaf> : kCapacity<Inner>;
  }
  /// In which slot a position's entry stands.
  template <class N>
  static unsigned slot_in(const Head& head, unsigned position) {
    const unsigned slot = position < head.slots.size() ? head.slots[position] : 0xff;
    if (slot >= kCapacity<N>) [[unlikely]]
      refuse();
    return slot;
  }
  /// Stores the words that have changed; all of them into a fresh node.
  template <class Tx, class N>
  static void save_head(Tx& tx, N& node, const Head& head, bool fresh = false) {
    std::array<Word, 4> after;
    std::memcpy(&after, &head, sizeof(head));
    auto* home = reinterpret_cast<Word*>(&node.head);
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (fresh || tx.load(home[i]) != after[i]) tx.store(home[i], after[i]);
    }
  }

  template <class Tx, class N>
  static K key_at(Tx& tx, const N& node, const Head& head, unsigned position) {
    K key;
    Key::load(tx, &node.keys[slot_in<N>(head, position)], sizeof(K), key);
    return key;
  }
  template <class Tx, class N>
  static typename N::Payload payload_at(Tx& tx, const N& node, const Head& head,
                                        unsigned position) {
    typename N::Payload payload;
    detail::Item<typename N::Payload>::load(tx, &node.payloads[slot_in<N>(head, position)],
                                            sizeof(payload), payload);
    return payload;
  }
  template <class Tx, class N>
  static std::pair<K, typename N::Payload> entry_at(Tx& tx, const N& node, const Head& head,
                                                    unsigned position) {
    return {key_at(tx, node, head, position), payload_at(tx, node, head, position)};
  }
  template <class Tx>
  static Node child(Tx& tx, const Inner& inner, const Head& head, unsigned index) {
    return index == 0 ? tx.load(inner.first) : payload_at(tx, inner, head, index - 1);
  }

  /// The first position whose key is not less than `key`; with kUpper, is greater.
  template <bool kUpper, class Tx, class N>
  static unsigned search(Tx& tx, const N& node, const Head& head, const K& key) {
    unsigned low = 0;
    for (unsigned high = head.count; low < high;) {
      const unsigned middle = (low + high) / 2;
      const K there = key_at(tx, node, head, middle);
      if (kUpper ? !(key < there) : there < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /// Stores an entry into a vacant slot that becomes `position`. `head` is the caller's to save.
  template <class Tx, class N>
  static void place(Tx& tx, N& node, Head& head, unsigned position,
                    const std::pair<K, typename N::Payload>& entry) {
    if (head.count >= kCapacity<N> || position > head.count) [[unlikely]]
      refuse();
    std::uint8_t* const from = head.slots.data() + position;
    const auto vacant = static_cast<std::uint8_t>(slot_in<N>(head, head.count));
    std::memmove(from + 1, from, head.count++ - position);
    *from = vacant;
    Key::store(tx, &node.keys[*from], entry.first);
    detail::Item<typename N::Payload>::store(tx, &node.payloads[*from], entry.second);
  }
  template <class Tx, class N>
  static void append(Tx& tx, N& node, Head& head, const std::pair<K, typename N::Payload>& entry) {
    place(tx, node, head, head.count, entry);
  }
  static void remove(Head& head, unsigned position) {
    if (position >= head.count || head.count > head.slots.size()) [[unlikely]]
      refuse();
    std::uint8_t* const from = head.slots.data() + position;
    const std::uint8_t vacant = *from;
    std::memmove(from, from + 1, --head.count - position);
    head.slots[head.count] = vacant;
  }

  // ---- growing ----------------------------------------------------------------------------------

  /// Makes room in the full leaf `at` for `key` at `position`. Returns the leaf that it belongs to
  /// now; `head` and `position` become those there. `last`: nothing stands to the right.
  template <class Tx>
  static Leaf* split_leaf(Tx& tx, Base& base, Inner* parent, unsigned index, Node at, Head& head,
                          unsigned& position, const K& key, bool last) {
    auto* leaf = as<Leaf>(tx, at);
    // Ascending insertion leaves full leaves behind, any other half full ones.
    const bool ascending = last && position == head.count;
    const bool rightwards = ascending || position > kCapacity<Leaf> / 2;
    const unsigned keep = ascending ? head.count : (kCapacity<Leaf> + (rightwards ? 1 : 0)) / 2;
    const K separator = rightwards && position == keep ? key : key_at(tx, *leaf, head, keep);
    auto* right = allocate_node<Leaf>(tx);
    Head right_head = empty_head(0);
    for (unsigned i = keep; i < head.count; ++i)
      append(tx, *right, right_head, entry_at(tx, *leaf, head, i));
    save_head(tx, *right, right_head, true);
    tx.store(right->first, tx.load(leaf->first));
    attach(tx, base, parent, index, separator, right, at);
    tx.store(leaf->first, node_of(tx, right));
    head.count = static_cast<std::uint8_t>(keep);
    if (!rightwards) return leaf;
    save_head(tx, *leaf, head);
    head = right_head;
    position -= keep;
    return right;
  }

  template <class Tx>
  Base& base_or_new(Tx& tx) {
    if (const pptr<Base> at = tx.load(base_)) return *tx.at(at);
    auto* base = static_cast<Base*>(tx.allocate(sizeof(Base)));
    tx.store(base->root, {});
    base->entries.reset(tx);
    tx.store(base_, tx.link_to(base));
    return *base;
  }
  template <class Tx>
  static Node root_or_new(Tx& tx, Base& base) {
    if (const Node at = tx.load(base.root)) return at;
    auto* leaf = allocate_node<Leaf>(tx);
    save_head(tx, *leaf, empty_head(0), true);
    tx.store(leaf->first, {});
    const Node at = node_of(tx, leaf);
    tx.store(base.root, at);
    return at;
  }

  /// Makes `right` the right neighbour of `left`, the child `index` of `parent`, which has room; or
  /// of the root.
  template <class Tx, class N>
  static void attach(Tx& tx, Base& base, Inner* parent, unsigned index, const K& separator,
                     N* right, Node left) {
    const Node node = node_of(tx, right);
    if (parent != nullptr) {
      Head head = load_head(tx, node_of(tx, parent));
      place(tx, *parent, head, index, {separator, node});
      save_head(tx, *parent, head);
      return;
    }
    Inner* root = nullptr;
    try {
      root = allocate_node<Inner>(tx);
    } catch (...) {
      tx.free(right);
      throw;
    }
    Head head = empty_head(static_cast<std::uint8_t>(load_head(tx, left).level + 1));
    append(tx, *root, head, {separator, node});
    save_head(tx, *root, head, true);
    tx.store(root->first, left);
    tx.store(base.root, node_of(tx, root));
  }

  /// Moves the upper half of a full inner node to a new one (of the last node of a level, only the
  /// end). Returns the least key that belongs to the new node, and the node.
  template <class Tx>
  static std::pair<K, Inner*> split_inner(Tx& tx, Base& base, Inner* parent, unsigned index,
                                          Inner* inner, Head head, bool last) {
    const unsigned keep = last ? head.count - 2u : head.count / 2u;
    const auto [separator, first] = entry_at(tx, *inner, head, keep);
    auto* right = allocate_node<Inner>(tx);
    Head right_head = empty_head(head.level);
    for (unsigned i = keep + 1; i < head.count; ++i)
      append(tx, *right, right_head, entry_at(tx, *inner, head, i));
    save_head(tx, *right, right_head, true);
    tx.store(right->first, first);
    attach(tx, base, parent, index, separator, right, node_of(tx, inner));
    head.count = static_cast<std::uint8_t>(keep);
    save_head(tx, *inner, head);
    return {separator, right};
  }

  // ---- shrinking --------------------------------------------------------------------------------

  struct Step {
    Inner* node;
    Head head;
    unsigned index;  // of the child that the path goes on to
  };

  /// The child of `step` has too few entries: takes one from a neighbour or, if that has none to
  /// spare, merges with it (true). Between inner nodes entries travel through the parent: its
  /// separator comes down, another key goes up.
  template <class N, class Tx>
  static bool mend(Tx& tx, Step& step) {
    constexpr bool kLeaf = std::is_same_v<N, Leaf>;
    const unsigned between = step.index == 0 ? 0 : step.index - 1;
    auto* left = as<N>(tx, child(tx, *step.node, step.head, between));
    auto* right = as<N>(tx, child(tx, *step.node, step.head, between + 1));
    Head left_head = head_below(tx, node_of(tx, left), step.head);
    Head right_head = head_below(tx, node_of(tx, right), step.head);
    const K old_separator = key_at(tx, *step.node, step.head, between);
    const auto set_separator = [&](const K& key) {
      Key::store(tx, &step.node->keys[slot_in<Inner>(step.head, between)], key);
    };

    if ((step.index == 0 ? right_head : left_head).count <= kMinimum<N>) {
      if constexpr (kLeaf) {
        tx.store(left->first, tx.load(right->first));
      } else {
        append(tx, *left, left_head, {old_separator, tx.load(right->first)});
      }
      for (unsigned i = 0; i < right_head.count; ++i)
        append(tx, *left, left_head, entry_at(tx, *right, right_head, i));
      save_head(tx, *left, left_head);
      remove(step.head, between);
      save_head(tx, *step.node, step.head);
      tx.free(right);
      return true;
    }
    if (step.index > 0) {
      const auto moved = entry_at(tx, *left, left_head, left_head.count - 1u);
      remove(left_head, left_head.count - 1u);
      if constexpr (kLeaf) {
        place(tx, *right, right_head, 0, moved);
      } else {
        place(tx, *right, right_head, 0, {old_separator, tx.load(right->first)});
        tx.store(right->first, moved.second);
      }
      set_separator(moved.first);
    } else {
      const auto moved = entry_at(tx, *right, right_head, 0);
      remove(right_head, 0);
      if constexpr (kLeaf) {
        append(tx, *left, left_head, moved);
        set_separator(key_at(tx, *right, right_head, 0));
      } else {
        append(tx, *left, left_head, {old_separator, tx.load(right->first)});
        tx.store(right->first, moved.second);
        set_separator(moved.first);
      }
    }
    save_head(tx, *left, left_head);
    save_head(tx, *right, right_head);
    return false;
  }

  /// Levels bound the depth.
  template <class Tx>
  static void free_subtree(Tx& tx, Node at, const Head& head) {
    for (unsigned i = 0; head.level != 0 && i <= head.count; ++i) {
      const Node below = child(tx, *as<Inner>(tx, at), head, i);
      free_subtree(tx, below, head_below(tx, below, head));
    }
    for (unsigned i = 0; head.level == 0 && detail::kIsApart<V> && i < head.count; ++i)
      Value::drop(tx, payload_at(tx, *as<Leaf>(tx, at), head, i));
    tx.free(tx.at(at));
  }

  // ---- looking ----------------------------------------------------------------------------------

  /// A position in a leaf; none without a leaf.
  struct Place {
    Leaf* leaf = nullptr;
    Head head{};
    unsigned position = 0;
    explicit operator bool() const { return leaf != nullptr; }
  };

  template <class Tx>
  Node root(Tx& tx) const {
    const pptr<Base> base = tx.load(base_);
    return base ? tx.load(tx.at(base)->root) : Node{};
  }
  /// Goes on to the next leaf if the position is behind the last entry of this one.
  template <class Tx>
  static Place settled(Tx& tx, Place place) {
    if (!place || place.position < place.head.count) return place;
    const Node next = tx.load(place.leaf->first);
    if (!next) return {};
    const Head head = load_head(tx, next);
    if (head.level != 0 || head.count == 0 || head.count > kCapacity<Leaf>) [[unlikely]]
      refuse();
    return {as<Leaf>(tx, next), head, 0};
  }
  template <bool kUpper, class Tx>
  Place bound(Tx& tx, const K& key) const {
    Node at = root(tx);
    if (!at) return {};
    Head head = head_of_root(tx, at);
    for (; head.level != 0; head = head_below(tx, at, head)) {
      const auto* inner = as<Inner>(tx, at);
      at = child(tx, *inner, head, search<true>(tx, *inner, head, key));
    }
    auto* leaf = as<Leaf>(tx, at);
    return settled(tx, {leaf, head, search<kUpper>(tx, *leaf, head, key)});
  }
  template <class Tx>
  Place leftmost(Tx& tx) const {
    Node at = root(tx);
    if (!at) return {};
    Head head = head_of_root(tx, at);
    for (; head.level != 0; head = head_below(tx, at, head)) at = tx.load(as<Inner>(tx, at)->first);
    return {as<Leaf>(tx, at), head, 0};
  }
  template <class Tx>
  Place find_place(Tx& tx, const K& key) const {
    const Place place = bound<false>(tx, key);
    return place && !(key < key_at(tx, *place.leaf, place.head, place.position)) ? place : Place{};
  }
  template <class Tx>
  static std::optional<Entry> entry_from(Tx& tx, const Place& place) {
    if (!place) return std::nullopt;
    if (place.position >= place.head.count) [[unlikely]]
      refuse();
    auto [key, stored] = entry_at(tx, *place.leaf, place.head, place.position);
    return Entry{key, Value::load(tx, stored)};
  }
  template <class Tx, class F>
  static void walk(Tx& tx, Place place, const K* end, F& f) {
    std::optional<K> last;  // of the leaf before: a circle of leaves ends
    const auto visit = [&](const K& key, const Stored& stored) {
      if (end != nullptr && !(key < *end)) return false;
      const owned_t<V>& value = Value::load(tx, stored);
      return detail::keep_going(f, key, value);
    };
    for (; place; place = settled(tx, place)) {
      if constexpr (sizeof(Leaf) <= kPageBytes) {
        Leaf leaf;  // read at once: that takes fewer looks at what other threads do
        tx.read(&leaf, place.leaf, sizeof(leaf));
        if (leaf.first) prefetch_leaf(tx, leaf.first);
        for (unsigned i = place.position; i < place.head.count; ++i) {
          const unsigned slot = slot_in<Leaf>(leaf.head, i);
          if (i == 0) go_on_behind(last, leaf.keys[slot]);
          if (!visit(leaf.keys[slot], leaf.payloads[slot])) return;
        }
        place.position = place.head.count;
      } else {
        for (; place.position < place.head.count; ++place.position) {
          const auto entry = entry_at(tx, *place.leaf, place.head, place.position);
          if (place.position == 0) go_on_behind(last, entry.first);
          if (!visit(entry.first, entry.second)) return;
        }
      }
    }
  }
  /// The first key of a leaf stands behind that of the leaf before.
  static void go_on_behind(std::optional<K>& last, const K& first) {
    if (last && !(*last < first)) [[unlikely]]
      refuse();
    last = first;
  }
  template <class Tx>
  static void prefetch_leaf(Tx& tx, Node at) {
    const auto* leaf = reinterpret_cast<const std::byte*>(tx.at(at));
    for (std::size_t line = 0; line < sizeof(Leaf); line += kLineBytes)
      __builtin_prefetch(leaf + line);
  }

  // ---- bulk load --------------------------------------------------------------------------------

  struct BuiltNode {
    K least;
    Node node;
  };
  using Built = GrowingArray<BuiltNode>;  // the nodes of a level, each with its least key

  /// The place first, so that what is allocated is always remembered.
  static void make_place(GrowingArray<void*>& made) {
    if (made.size() == made.capacity()) made.reserve(2 * made.size() + 8);
  }
  /// Allocates the nodes of a level for `items` items, spread evenly, and calls
  /// `fill(node, next node, items)` for each, in order.
  template <class N, class Tx, class Fill>
  static std::size_t build_level(Tx& tx, GrowingArray<void*>& made, std::size_t items,
                                 std::size_t per_node, Fill&& fill) {
    const std::size_t nodes = (items + per_node - 1) / per_node;
    const std::size_t start = made.size();
    for (std::size_t i = 0; i < nodes; ++i) {
      make_place(made);
      made.push_back(allocate_node<N>(tx));
    }
    for (std::size_t i = 0; i < nodes; ++i) {
      Node next = i + 1 < nodes ? node_of(tx, static_cast<N*>(made[start + i + 1])) : Node{};
      fill(*static_cast<N*>(made[start + i]), next, items / nodes + (i < items % nodes ? 1 : 0));
    }
    return nodes;
  }
  template <class Tx, class Iterator>
  static Built build_leaves(Tx& tx, GrowingArray<void*>& made, Iterator item, std::size_t items) {
    Built built;
    build_level<Leaf>(tx, made, items, kCapacity<Leaf>,
                      [&](Leaf& leaf, Node next, std::size_t count) {
                        built.push_back({item->first, node_of(tx, &leaf)});
                        Head head = empty_head(0);
                        for (; head.count < count; ++item) {
                          make_place(made);
                          const Stored stored = Value::make(tx, item->second);
                          if constexpr (detail::kIsApart<V>) made.push_back(tx.at(stored));
                          append(tx, leaf, head, {item->first, stored});
                        }
                        save_head(tx, leaf, head, true);
                        tx.store(leaf.first, next);
                      });
    return built;
  }
  template <class Tx>
  static Built build_inner(Tx& tx, GrowingArray<void*>& made, const Built& below,
                           std::uint8_t level) {
    Built built;
    auto item = below.begin();
    build_level<Inner>(tx, made, below.size(), kCapacity<Inner> + 1,
                       [&](Inner& inner, Node, std::size_t count) {
                         built.push_back({item->least, node_of(tx, &inner)});
                         tx.store(inner.first, (item++)->node);
                         Head head = empty_head(level);
                         for (; head.count + 1u < count; ++item)
                           append(tx, inner, head, {item->least, item->node});
                         save_head(tx, inner, head, true);
                       });
    return built;
  }

  // ---- audit ------------------------------------------------------------------------------------

  struct Audit {
    std::uint64_t size = 0;
    std::uint64_t seen = 0;
    bool any_leaf = false;
    Node next_leaf;  // what the last leaf seen says follows
  };
  /// `low` and `high` bound the keys, null: unbounded. `last`: nothing of its level stands to the
  /// right.
  template <class Tx, class F>
  std::optional<std::string> audit_node(Tx& tx, F& visit, Audit& state, Node at, unsigned level,
                                        const K* low, const K* high, bool last) const {
    const std::string where = "btree_map: the node at offset " + std::to_string(at.offset);
    const Head head = load_head(tx, at);
    if (head.level != level)
      return where + " claims level " + std::to_string(head.level) + " where " +
             std::to_string(level) + " belongs";
    if (level != 0)
      return audit_entries(tx, visit, state, *as<Inner>(tx, at), head, where, low, high, last);
    if (state.any_leaf && state.next_leaf != at)
      return where + " is not the one that the leaf before it refers to";
    const auto* leaf = as<Leaf>(tx, at);
    state.any_leaf = true;
    state.next_leaf = tx.load(leaf->first);
    state.seen += head.count;
    if (state.seen > state.size)
      return where + ": more entries than the " + std::to_string(state.size) + " counted";
    return audit_entries(tx, visit, state, *leaf, head, where, low, high, last);
  }
  template <class Tx, class F, class N>
  std::optional<std::string> audit_entries(Tx& tx, F& visit, Audit& state, const N& node,
                                           const Head& head, const std::string& where, const K* low,
                                           const K* high, bool last) const {
    if (head.count > kCapacity<N> || head.count < (last ? 1 : kMinimum<N>))
      return where + " holds " + std::to_string(head.count) + " entries";
    std::uint32_t slots = 0;
    for (unsigned i = 0; i < kCapacity<N>; ++i) {
      if (head.slots[i] < kCapacity<N>) slots |= 1u << head.slots[i];
    }
    if (slots != (1u << kCapacity<N>)-1) return where + " uses a slot twice";
    std::array<K, kCapacity<N>> keys;
    for (unsigned i = 0; i < head.count; ++i) {
      keys[i] = key_at(tx, node, head, i);
      const K* before = i == 0 ? low : &keys[i - 1];
      // The lower bound is a separator, which may be the key itself.
      const bool ordered = before == nullptr || (i == 0 ? !(keys[i] < *before) : *before < keys[i]);
      if (!ordered || (high != nullptr && !(keys[i] < *high)))
        return where + " has a key out of order";
    }
    if constexpr (std::is_same_v<N, Leaf> && detail::kIsApart<V>) {
      for (unsigned i = 0; i < head.count; ++i) {
        const Stored stored = payload_at(tx, node, head, i);
        const detail::Room room = detail::room_at(visit, stored);
        if (!Value::fits(tx, stored, room))
          return where + " has a value whose size and object do not agree";
      }
    }
    if constexpr (std::is_same_v<N, Inner>) {
      for (unsigned i = 0; i <= head.count; ++i) {
        const Node below = child(tx, node, head, i);
        const std::size_t needed = head.level == 1 ? sizeof(Leaf) : sizeof(Inner);
        if (!detail::room_at(visit, below).holds(needed))
          return where + " has a child that overruns its object";
        const K* from = i == 0 ? low : &keys[i - 1];
        const K* to = i == head.count ? high : &keys[i];
        if (auto wrong = audit_node(tx, visit, state, below, head.level - 1u, from, to,
                                    last && i == head.count))
          return wrong;
      }
    }
    return std::nullopt;
  }

  pptr<Base> base_;
};

template <class K, class V, std::size_t kNodeBytes>
inline constexpr bool is_persistable_by_promise<btree_map<K, V, kNodeBytes>> =
    detail::Item<K>::require() && detail::Item<V>::require();

}  // namespace perdure
