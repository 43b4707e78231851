// SPDX-License-Identifier: BSD-3-Clause
// BTree (Table 2): searches for an integer in a B-tree; inserts it if it is absent, removes it otherwise. Nodes lead to their parents
// by weak references, so that full and empty ones are mended from the leaf upwards: as in the paper, the tree makes extensive use of
// both kinds of reference.
#pragma once

#include <vector>

#include "bench/workload.h"
#include "papers/nvheaps/evaluation/sizes.h"
#include "perdure/object.h"

namespace perdure::bench::nvheaps {

inline constexpr std::uint64_t kMostKeys = 15;  // of a node
inline constexpr std::uint64_t kLeastKeys = kMostKeys / 2;

template <class L>
struct BTreeNode : L::template Object<BTreeNode<L>> {
  typename L::template Field<std::uint64_t> count;
  typename L::template WeakRef<BTreeNode> parent;
  std::array<typename L::template Field<std::uint64_t>, kMostKeys> keys;
  std::array<typename L::template Ref<BTreeNode>, kMostKeys + 1> child;
  PERDURE_FIELDS(BTreeNode, count, parent, keys, child);
};
template <class L>
struct BTreeRoot : L::template Object<BTreeRoot<L>> {
  typename L::template Ref<BTreeNode<L>> top;
  PERDURE_FIELDS(BTreeRoot, top);
};

template <class L>
class BTree {
 public:
  using Root = BTreeRoot<L>;
  using Heap = typename L::template Heap<Root>;
  using Node = BTreeNode<L>;
  using Local = typename L::template Local<Node>;
  struct Scratch {};

  BTree(Heap& heap, const Sizes& sizes) : heap_(&heap), keys_(2 * sizes.keys) {
    heap.run([&](auto root) { root->top = L::template make<Node>(); });
    const std::vector<std::uint64_t> keys = shuffled_keys(sizes.keys);
    fill_up(heap, keys.size(), [&](auto&, std::uint64_t i) { toggle(keys[i]); });
  }

  /// With the same structure, read back.
  void go_on_with(Heap& heap) { heap_ = &heap; }

  std::int64_t operate(Random& random, Scratch&) { return toggle(random.below(keys_)) ? 1 : -1; }

  /// Whether the key was inserted.
  bool toggle(std::uint64_t key) {
    return heap_->run([&](auto root) {
      Local node = root->top;
      for (;;) {
        const std::uint64_t place = place_of(node, key);
        if (place < node->count && node->keys[place] == key) {
          remove(root, node, place);
          return false;
        }
        if (is_leaf(node)) {
          insert(root, node, place, key, nullptr);
          return true;
        }
        node = node->child[place];
      }
    });
  }

  /// Sorted, all leaves equally deep, no node too empty, parents right.
  std::uint64_t check() {
    return heap_->read([&](auto root) {
      std::uint64_t count = 0;
      std::uint64_t next = 0;
      (void)check(root->top, nullptr, next, count);
      return count;
    });
  }

 private:
  static bool is_leaf(const Local& node) { return !node->child[0]; }
  /// Of the first key that is not less.
  static std::uint64_t place_of(const Local& node, std::uint64_t key) {
    const std::uint64_t count = node->count;
    std::uint64_t place = 0;
    while (place < count && node->keys[place] < key) ++place;
    return place;
  }
  static std::uint64_t place_in(const Local& parent, const Local& node) {
    std::uint64_t place = 0;
    while (parent->child[place] != node) ++place;
    return place;
  }
  static void lead_to(const Local& parent, std::uint64_t place, const Local& node) {
    parent->child[place] = node;
    node->parent = parent;
  }

  /// A key, and what is right of it.
  template <class Tree>
  static void insert(Tree& root, Local node, std::uint64_t place, std::uint64_t key, Local right) {
    while (node->count == kMostKeys) {
      const Local sibling = L::template make<Node>();
      const std::uint64_t middle = node->keys[kLeastKeys];
      move(node, kLeastKeys + 1, sibling, 0, kLeastKeys);
      node->count = kLeastKeys;
      if (key < middle) {
        put(node, place, key, right);
      } else {
        put(sibling, place - kLeastKeys - 1, key, right);
      }
      key = middle;
      right = sibling;
      Local parent = node->parent;
      if (!parent) {
        parent = L::template make<Node>();
        lead_to(parent, 0, node);
        root->top = parent;
      }
      node = parent;
      place = place_of(node, key);
    }
    put(node, place, key, right);
  }
  /// Requires: place for it.
  static void put(const Local& node, std::uint64_t place, std::uint64_t key, const Local& right) {
    const std::uint64_t count = node->count;
    for (std::uint64_t i = count; i > place; --i) {
      node->keys[i] = node->keys[i - 1].get();
      if (right) node->child[i + 1] = node->child[i];
    }
    node->keys[place] = key;
    if (right) lead_to(node, place + 1, right);
    node->count = count + 1;
  }
  /// `count` keys, and the children around them, to the end of another node.
  static void move(const Local& from, std::uint64_t place, const Local& to, std::uint64_t end,
                   std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) to->keys[end + i] = from->keys[place + i].get();
    if (!is_leaf(from)) {
      for (std::uint64_t i = 0; i <= count; ++i) {
        lead_to(to, end + i, from->child[place + i]);
        from->child[place + i] = nullptr;
      }
    }
    to->count = end + count;
  }

  template <class Tree>
  static void remove(Tree& root, Local node, std::uint64_t place) {
    if (!is_leaf(node)) {  // the greatest of the smaller keys takes its place
      Local leaf = node->child[place];
      while (!is_leaf(leaf)) leaf = leaf->child[leaf->count];
      const std::uint64_t last = leaf->count - 1;
      node->keys[place] = leaf->keys[last].get();
      node = leaf;
      place = last;
    }
    take(node, place);
    while (node->count < kLeastKeys) {
      const Local parent = node->parent;
      if (!parent) break;
      node = mend(parent, place_in(parent, node));
    }
    const Local top = root->top;
    if (top->count > 0 || is_leaf(top)) return;
    const Local only = top->child[0];
    only->parent = nullptr;
    root->top = only;
    L::end(top);
  }
  /// Removes a key, and the child right of it.
  static void take(const Local& node, std::uint64_t place) {
    const std::uint64_t count = node->count - 1;
    const bool leaf = is_leaf(node);
    for (std::uint64_t i = place; i < count; ++i) {
      node->keys[i] = node->keys[i + 1].get();
      if (!leaf) node->child[i + 1] = node->child[i + 2];
    }
    if (!leaf) node->child[count + 1] = nullptr;
    node->count = count;
  }
  /// The child at `place` has too few keys: it gets one of a neighbour's, or becomes one with it. Returns the parent, if that may
  /// have too few now, else the child.
  static Local mend(const Local& parent, std::uint64_t place) {
    const Local node = parent->child[place];
    if (place > 0 && parent->child[place - 1]->count > kLeastKeys) {
      const Local left = parent->child[place - 1];
      const std::uint64_t last = left->count - 1;
      const std::uint64_t count = node->count;
      const bool leaf = is_leaf(node);
      if (!leaf) node->child[count + 1] = node->child[count];
      for (std::uint64_t i = count; i > 0; --i) {
        node->keys[i] = node->keys[i - 1].get();
        if (!leaf) node->child[i] = node->child[i - 1];
      }
      node->keys[0] = parent->keys[place - 1].get();
      if (!leaf) lead_to(node, 0, left->child[last + 1]);
      node->count = count + 1;
      parent->keys[place - 1] = left->keys[last].get();
      take(left, last);
      return node;
    }
    if (place < parent->count && parent->child[place + 1]->count > kLeastKeys) {
      const Local right = parent->child[place + 1];
      const std::uint64_t count = node->count;
      node->keys[count] = parent->keys[place].get();
      if (!is_leaf(node)) {
        lead_to(node, count + 1, right->child[0]);
        right->child[0] = right->child[1];
      }
      node->count = count + 1;
      parent->keys[place] = right->keys[0].get();
      take(right, 0);
      return node;
    }
    const std::uint64_t left_place = place > 0 ? place - 1 : place;
    const Local left = parent->child[left_place];
    const Local right = parent->child[left_place + 1];
    const std::uint64_t count = left->count;
    left->keys[count] = parent->keys[left_place].get();
    move(right, 0, left, count + 1, right->count);
    take(parent, left_place);
    L::end(right);
    return parent;
  }

  /// Returns how many levels there are. `next`: the least key that may come.
  static std::uint64_t check(const Local& node, const Local& parent, std::uint64_t& next,
                             std::uint64_t& total) {
    require(node->parent == parent, "BTree: a node does not lead to its parent");
    const std::uint64_t count = node->count;
    require(count <= kMostKeys && (!parent || count >= kLeastKeys), "BTree: a node's size");
    std::uint64_t levels = 0;
    for (std::uint64_t i = 0; i <= count; ++i) {
      if (!is_leaf(node)) {
        const std::uint64_t found = check(node->child[i], node, next, total);
        require(i == 0 || found == levels, "BTree: leaves are not equally deep");
        levels = found;
      }
      if (i == count) break;
      require(node->keys[i] >= next, "BTree: the keys are not sorted");
      next = node->keys[i] + 1;
    }
    for (std::uint64_t i = count + 1; i <= kMostKeys; ++i)
      require(!node->child[i], "BTree: a child behind the last one");
    total += count;
    return levels + 1;
  }

  Heap* heap_;
  std::uint64_t keys_;
};

}  // namespace perdure::bench::nvheaps
