// SPDX-License-Identifier: BSD-3-Clause
// rb_map<K, V>: an ordered map whose entries never move: a red-black tree with one heap object per
// entry. Take it when the addresses of values must hold until their keys are erased, or when values
// are too large for the nodes of a tree of arrays; otherwise btree_map is faster and smaller. K and
// V are fixed persistable types, K has operator<.
//
// Nodes do not know their parents. An update remembers the way that it came instead, so a rotation
// changes three links, not six, and an insertion logs little more than the new node.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "perdure/base/words.h"
#include "perdure/container/bytes.h"
#include "perdure/container/support.h"
#include "perdure/error.h"
#include "perdure/pptr.h"
#include "perdure/tx.h"

namespace perdure {

/// Lives in persistent memory (a root, a field, an element); all-zero bytes are the empty map. It
/// owns its entries, not what links inside of keys and values refer to.
/// Requires: the keys and values handed in do not lie in persistent memory.
/// Durable:  with the transaction.
/// Errors:   those of the transaction (kNoSpace) unless told; it takes everything back. Under
///           PlainTx (std::bad_alloc) the map has the content it had. kCorrupt from a tree that is
///           higher than any red-black tree in one pool.
/// Threads:  as the transaction; updates conflict when they meet near the same leaf, or when one
///           rotates where another passes.
template <class K, class V>
class rb_map {
  static_assert(
      !std::is_same_v<K, bytes>,
      "perdure: a rb_map's keys have one size; take hash_map<perdure::bytes, V> or, where "
      "order counts, std::array<char, N> as keys");
  static_assert(!std::is_same_v<V, bytes>,
                "perdure: a rb_map's values have one size; take btree_map<K, perdure::bytes>");

 public:
  using Entry = std::pair<K, V>;

  /// Inserts (true) or replaces in place (false).
  template <Transaction Tx>
  bool put(Tx& tx, const K& key, const V& value) {
    return insert<true>(tx, key, value);
  }
  /// Inserts (true), unless the key is there: false, and its value stays.
  template <Transaction Tx>
  bool try_put(Tx& tx, const K& key, const V& value) {
    return insert<false>(tx, key, value);
  }
  /// Calls `f(value)` with a copy of the value of a key, and keeps what `f` makes of it; false if
  /// there is none. `f` must not change the map.
  /// Errors: what `f` throws, and then nothing has changed.
  template <Transaction Tx, class F>
  bool update(Tx& tx, const K& key, F&& f) {
    Node* const found = find_node(tx, key);
    if (found == nullptr) return false;
    V value;
    Value::load(tx, &found->value, sizeof(V), value);
    f(value);
    Value::store(tx, &found->value, value);
    return true;
  }

  template <Transaction Tx>
  std::optional<V> get(Tx& tx, const K& key) const {
    const Node* found = find_node(tx, key);
    if (found == nullptr) return std::nullopt;
    return entry_of(tx, found)->second;
  }
  /// The same into `value`; false, and `value` is as before, if there is none.
  template <Transaction Tx>
  bool get(Tx& tx, const K& key, V& value) const {
    const Node* found = find_node(tx, key);
    if (found != nullptr) value = entry_of(tx, found)->second;
    return found != nullptr;
  }

  /// The value in place, null if there is none: for values that are containers themselves.
  /// Holds until the key is erased.
  template <Transaction Tx>
  V* find(Tx& tx, const K& key) const {
    Node* found = find_node(tx, key);
    return found == nullptr ? nullptr : &found->value;
  }

  template <Transaction Tx>
  bool contains(Tx& tx, const K& key) const {
    return find_node(tx, key) != nullptr;
  }

  template <Transaction Tx>
  bool erase(Tx& tx, const K& key) {
    const pptr<Base> base_at = tx.load(base_);
    if (!base_at) return false;
    Base& base = *tx.at(base_at);
    Path path;
    Node* gone = descend(tx, base, key, path);
    if (gone == nullptr) return false;
    const Child left = tx.load(gone->children[kLeft]);
    const Child right = tx.load(gone->children[kRight]);
    // What hangs below the place that the tree loses, and the colour that is lost with it.
    Child orphan = left ? left : right;
    Word lost = tx.load(gone->color);
    if (left && right) {
      // The next greater node has no left child: it steps into the place of `gone`, and the tree
      // loses its old place instead. Relinked, not copied: its address holds.
      const unsigned here = path.length;
      path.push(gone, kRight);
      Node* next = tx.at(right);
      for (Child lower; (lower = tx.load(next->children[kLeft])); next = tx.at(lower))
        path.push(next, kLeft);
      orphan = tx.load(next->children[kRight]);
      const Word kept = std::exchange(lost, tx.load(next->color));
      paint(tx, next, kept);
      tx.store(next->children[kLeft], left);
      if (path.length > here + 1) tx.store(next->children[kRight], right);
      tx.store(place(base, path, here), tx.link_to(next));
      path.steps[here].node = next;
    }
    tx.store(place(base, path, path.length), orphan);
    tx.free(gone);
    base.entries.add(tx, ~std::uint64_t{0});
    if (lost == kRed) return true;
    if (orphan) {
      paint(tx, tx.at(orphan), kBlack);  // it was red, as an only child is
    } else {
      mend_black(tx, base, path);
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
    return entry_of(tx, bound(tx, [](const K&) { return true; }));
  }
  template <Transaction Tx>
  std::optional<Entry> last(Tx& tx) const {
    Node* node = nullptr;
    unsigned height = 0;
    for (Child at = root(tx); at; at = tx.load(node->children[kRight])) {
      if (++height > kMaxHeight) too_high();
      node = tx.at(at);
    }
    return entry_of(tx, node);
  }
  /// The first entry whose key is not less than `key`.
  template <Transaction Tx>
  std::optional<Entry> lower_bound(Tx& tx, const K& key) const {
    return entry_of(tx, bound(tx, [&](const K& there) { return !(there < key); }));
  }
  /// The first entry whose key is greater than `key`: how an iteration goes on in its next
  /// transaction.
  template <Transaction Tx>
  std::optional<Entry> upper_bound(Tx& tx, const K& key) const {
    return entry_of(tx, bound(tx, [&](const K& there) { return key < there; }));
  }

  /// Calls `f(key, value)` in ascending order, until one call returns false. `f` must not change
  /// the map.
  template <Transaction Tx, class F>
  void for_each(Tx& tx, F&& f) const {
    walk(tx, nullptr, nullptr, f);
  }
  /// The same for the keys of [low, high).
  template <Transaction Tx, class F>
  void for_each_in(Tx& tx, const K& low, const K& high, F&& f) const {
    walk(tx, &low, &high, f);
  }

  /// Erases everything in this transaction, whose size is that of the map: see clear_some() for
  /// huge ones.
  template <Transaction Tx>
  void clear(Tx& tx) {
    const pptr<Base> base = tx.load(base_);
    if (!base) return;
    free_subtree(tx, root(tx));
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
      return "rb_map: its base overruns its object";
    Audit state{tx.at(base)->entries.sum(tx), 0};
    unsigned blacks = 0;
    // As if the root hung below a red node: it must be black.
    if (auto wrong = audit_subtree(tx, visit, state, root(tx), {0, kRed, nullptr, nullptr}, blacks))
      return wrong;
    if (state.seen != state.size)
      return "rb_map: " + std::to_string(state.size) + " entries counted, " +
             std::to_string(state.seen) + " found";
    return std::nullopt;
  }

 private:
  friend detail::Salvage<rb_map>;
  template <bool kReplaces, class Tx>
  bool insert(Tx& tx, const K& key, const V& value) {
    Base& base = base_or_new(tx);
    Path path;
    if (Node* found = descend(tx, base, key, path)) {
      if constexpr (kReplaces) Value::store(tx, &found->value, value);
      return false;
    }
    auto* fresh = static_cast<Node*>(tx.allocate(sizeof(Node)));
    tx.store(fresh->children[kLeft], {});
    tx.store(fresh->children[kRight], {});
    tx.store(fresh->color, path.length == 0 ? kBlack : kRed);
    Key::store(tx, &fresh->key, key);
    Value::store(tx, &fresh->value, value);
    tx.store(place(base, path, path.length), tx.link_to(fresh));
    mend_red(tx, base, path);
    base.entries.add(tx, 1);
    return true;
  }

  using Key = detail::Item<K>;
  using Value = detail::Item<V>;

  struct Node;
  using Child = pptr<Node>;
  static constexpr unsigned kLeft = 0;
  static constexpr unsigned kRight = 1;
  static constexpr Word kBlack = 0;
  static constexpr Word kRed = 1;
  struct Node {
    std::array<Child, 2> children;
    Word color;
    K key;
    V value;
  };

  struct Base {
    Child root;
    std::array<std::byte, kLineBytes - sizeof(Child)>
        padding;  // every access reads the root, many write the counts
    detail::StripedCount entries;
  };

  /// A tree of n nodes is at most 2 log2(n + 1) high, and no pool holds 2^48 nodes.
  static constexpr unsigned kMaxHeight = 96;
  [[noreturn]] static void too_high() {
    throw Exception(Code::kCorrupt,
                    "rb_map: a way of more nodes than any sound tree has; the pool "
                    "is damaged, run `perdure check` on it");
  }
  [[noreturn, gnu::cold]] static void refuse() {
    throw Exception(Code::kCorrupt,
                    "rb_map: nodes that no sound tree has so; the pool is damaged, run `perdure "
                    "check` on it");
  }
  /// Of a node that has to be there.
  template <class Tx>
  static Node* node_at(Tx& tx, Child at) {
    if (!at) [[unlikely]]
      refuse();
    return tx.at(at);
  }

  /// The way from the root to a place: the nodes passed and the side taken at each.
  struct Step {
    Node* node;
    unsigned side;
  };
  struct Path {
    std::array<Step, kMaxHeight + 1> steps;  // one more than the height: see mend_black()
    unsigned length = 0;
    void push(Node* node, unsigned side) {
      if (length == kMaxHeight) too_high();
      steps[length++] = {node, side};
    }
  };

  // ---- nodes ------------------------------------------------------------------------------------

  template <class Tx>
  Base& base_or_new(Tx& tx) {
    if (const pptr<Base> there = tx.load(base_)) return *tx.at(there);
    auto* base = static_cast<Base*>(tx.allocate(sizeof(Base)));
    tx.store(base->root, {});
    base->entries.reset(tx);
    tx.store(base_, tx.link_to(base));
    return *base;
  }
  template <class Tx>
  Child root(Tx& tx) const {
    const pptr<Base> base = tx.load(base_);
    return base ? tx.load(tx.at(base)->root) : Child{};
  }
  template <class Tx>
  static K key_of(Tx& tx, const Node* node) {
    K key;
    Key::load(tx, &node->key, sizeof(K), key);
    return key;
  }
  template <class Tx>
  static std::optional<Entry> entry_of(Tx& tx, const Node* node) {
    if (node == nullptr) return std::nullopt;
    V value;
    Value::load(tx, &node->value, sizeof(V), value);
    return Entry{key_of(tx, node), value};
  }
  /// A missing child counts as black.
  template <class Tx>
  static bool is_red(Tx& tx, Child child) {
    return child && tx.load(tx.at(child)->color) == kRed;
  }
  template <class Tx>
  static void paint(Tx& tx, Node* node, Word color) {
    if (tx.load(node->color) != color) tx.store(node->color, color);
  }

  // ---- balance ----------------------------------------------------------------------------------

  /// The link that the first `depth` steps of the path lead to.
  static Child& place(Base& base, const Path& path, unsigned depth) {
    if (depth == 0) return base.root;
    const Step& step = path.steps[depth - 1];
    return step.node->children[step.side];
  }

  /// Goes to the node with this key, or to the empty place where it belongs (null).
  template <class Tx>
  static Node* descend(Tx& tx, Base& base, const K& key, Path& path) {
    for (Child at = tx.load(base.root); at;) {
      Node* node = tx.at(at);
      const K there = key_of(tx, node);
      const bool greater = there < key;
      if (!greater && !(key < there)) return node;
      path.push(node, greater ? kRight : kLeft);
      at = tx.load(node->children[greater ? kRight : kLeft]);
    }
    return nullptr;
  }

  /// Rotates: the child of `top` on `side` rises into `here`, where `top` hung.
  template <class Tx>
  static Node* lift(Tx& tx, Child& here, Node* top, unsigned side) {
    const Child risen_at = tx.load(top->children[side]);
    Node* risen = node_at(tx, risen_at);
    tx.store(top->children[side], tx.load(risen->children[1 - side]));
    tx.store(risen->children[1 - side], tx.link_to(top));
    tx.store(here, risen_at);
    return risen;
  }

  /// A red node was put at the end of `path`; its parent may be red, too.
  template <class Tx>
  static void mend_red(Tx& tx, Base& base, const Path& path) {
    unsigned depth = path.length;
    while (depth > 0 && tx.load(path.steps[depth - 1].node->color) == kRed) {
      // A red parent is not the root, so there is a grandparent.
      if (depth == 1) [[unlikely]]
        refuse();
      Node* parent = path.steps[depth - 1].node;
      const auto [grand, side] = path.steps[depth - 2];
      const Child uncle = tx.load(grand->children[1 - side]);
      if (!is_red(tx, uncle)) {
        if (path.steps[depth - 1].side != side)
          lift(tx, grand->children[side], parent,
               1 - side);  // the inner grandchild: outwards first
        paint(tx, lift(tx, place(base, path, depth - 2), grand, side), kBlack);
        paint(tx, grand, kRed);
        return;
      }
      paint(tx, parent, kBlack);
      paint(tx, tx.at(uncle), kBlack);
      depth -= 2;
      if (depth > 0) paint(tx, grand, kRed);  // the root stays black
    }
  }

  /// Below the place at the end of `path` one black node is missing.
  template <class Tx>
  static void mend_black(Tx& tx, Base& base, Path& path) {
    for (unsigned depth = path.length; depth > 0; --depth) {
      const auto [parent, side] = path.steps[depth - 1];
      Node* sibling = node_at(tx, tx.load(parent->children[1 - side]));
      if (tx.load(sibling->color) == kRed) {
        // Its children are black: lifted, it leaves one of them as the sibling. The way is one step
        // longer now, and ends in one of the cases below at once, because the parent is red.
        lift(tx, place(base, path, depth - 1), parent, 1 - side);
        paint(tx, sibling, kBlack);
        paint(tx, parent, kRed);
        path.steps[depth - 1] = {sibling, side};
        path.steps[depth++] = {parent, side};
        sibling = node_at(tx, tx.load(parent->children[1 - side]));
      }
      const Child outer = tx.load(sibling->children[1 - side]);
      const bool outer_red = is_red(tx, outer);
      if (!outer_red && !is_red(tx, tx.load(sibling->children[side]))) {
        paint(tx, sibling, kRed);  // now both sides miss one: repaint the parent, or go on above it
        if (tx.load(parent->color) == kRed) return paint(tx, parent, kBlack);
        continue;
      }
      if (outer_red) {
        paint(tx, tx.at(outer), kBlack);
      } else {
        lift(tx, parent->children[1 - side], sibling, side);  // the inner nephew becomes sibling
      }
      Node* top = lift(tx, place(base, path, depth - 1), parent, 1 - side);
      paint(tx, top, tx.load(parent->color));
      paint(tx, parent, kBlack);
      return;
    }
  }

  // ---- looking ----------------------------------------------------------------------------------

  /// The least node whose key `belongs`, a predicate that is false below some key and true from it
  /// on.
  template <class Tx, class Belongs>
  Node* bound(Tx& tx, Belongs belongs) const {
    Node* best = nullptr;
    unsigned height = 0;
    for (Child at = root(tx); at;) {
      if (++height > kMaxHeight) too_high();
      Node* node = tx.at(at);
      const bool inside = belongs(key_of(tx, node));
      if (inside) best = node;
      at = tx.load(node->children[inside ? kLeft : kRight]);
    }
    return best;
  }
  template <class Tx>
  Node* find_node(Tx& tx, const K& key) const {
    Node* found = bound(tx, [&](const K& there) { return !(there < key); });
    return found != nullptr && !(key < key_of(tx, found)) ? found : nullptr;
  }

  template <class Tx, class F>
  void walk(Tx& tx, const K* low, const K* end, F& f) const {
    std::array<Node*, kMaxHeight> pending;  // to be handed out, each with its right side after it
    unsigned count = 0;
    const auto push_left_edge = [&](Child at) {
      for (unsigned height = 0; at; ++height) {
        if (height == kMaxHeight) too_high();
        Node* node = tx.at(at);
        const bool below = low != nullptr && key_of(tx, node) < *low;
        if (!below) {
          if (count == kMaxHeight) too_high();
          pending[count++] = node;
        }
        at = tx.load(node->children[below ? kRight : kLeft]);
      }
    };
    push_left_edge(root(tx));
    std::optional<Entry> entry;
    while (count > 0) {
      const Node* node = pending[--count];
      const std::optional<Entry> before = std::exchange(entry, entry_of(tx, node));
      // So that a circle ends.
      if (before && !(before->first < entry->first)) [[unlikely]]
        refuse();
      if (end != nullptr && !(entry->first < *end)) return;
      if (!detail::keep_going(f, entry->first, entry->second)) return;
      push_left_edge(tx.load(node->children[kRight]));
    }
  }

  template <class Tx>
  static void free_subtree(Tx& tx, Child at, unsigned height = 0) {
    if (!at) return;
    if (height == kMaxHeight) too_high();
    Node* node = tx.at(at);
    for (const Child& child : node->children) free_subtree(tx, tx.load(child), height + 1);
    tx.free(node);
  }

  // ---- audit ------------------------------------------------------------------------------------

  struct Audit {
    std::uint64_t size;
    std::uint64_t seen;
  };
  /// What a subtree must fit into. Null: unbounded.
  struct Surroundings {
    unsigned height;  // of the nodes above
    Word parent_color;
    const K* low;
    const K* high;
  };
  /// `blacks`: how many black nodes stand on every way down.
  template <class Tx, class F>
  std::optional<std::string> audit_subtree(Tx& tx, F& visit, Audit& state, Child at,
                                           const Surroundings& around, unsigned& blacks) const {
    blacks = 0;
    if (!at) return std::nullopt;
    const std::string where = "rb_map: the node at offset " + std::to_string(at.offset);
    if (around.height == kMaxHeight) return where + " is higher than the tree can be";
    if (!detail::room_at(visit, at).holds(sizeof(Node))) return where + " overruns its object";
    if (++state.seen > state.size)
      return where + ": more entries than the " + std::to_string(state.size) + " counted";
    const Node* node = tx.at(at);
    const Word color = tx.load(node->color);
    if (color != kRed && color != kBlack) return where + " is neither red nor black";
    if (color == kRed && around.parent_color == kRed)
      return where + (around.height == 0 ? " is a red root" : " is red below a red one");
    const K key = key_of(tx, node);
    if ((around.low != nullptr && !(*around.low < key)) ||
        (around.high != nullptr && !(key < *around.high)))
      return where + " has a key out of order";
    std::array<unsigned, 2> below{};
    for (const unsigned side : {kLeft, kRight}) {
      const Surroundings inside{around.height + 1, color, side == kLeft ? around.low : &key,
                                side == kLeft ? &key : around.high};
      if (auto wrong =
              audit_subtree(tx, visit, state, tx.load(node->children[side]), inside, below[side]))
        return wrong;
    }
    if (below[kLeft] != below[kRight])
      return where + " has " + std::to_string(below[kLeft]) + " black nodes on the left, " +
             std::to_string(below[kRight]) + " on the right";
    blacks = below[kLeft] + (color == kBlack ? 1 : 0);
    return std::nullopt;
  }

  pptr<Base> base_;
};

template <class K, class V>
inline constexpr bool is_persistable_by_promise<rb_map<K, V>> =
    detail::Item<K>::require() && detail::Item<V>::require();

}  // namespace perdure
