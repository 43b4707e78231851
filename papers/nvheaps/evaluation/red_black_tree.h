// SPDX-License-Identifier: BSD-3-Clause
// RBTree (Table 2): searches for an integer in a red-black tree; inserts it if it is absent, removes it otherwise. Nodes do not know
// their parents: the way to a node is kept while an operation needs it (after B. Pfaff, GNU libavl).
#pragma once

#include <utility>
#include <vector>

#include "bench/workload.h"
#include "papers/nvheaps/evaluation/sizes.h"
#include "perdure/object.h"

namespace perdure::bench::nvheaps {

template <class L>
struct RedBlackNode : L::template Object<RedBlackNode<L>> {
  typename L::template Field<std::uint64_t> key;
  typename L::template Field<std::uint64_t> red;
  std::array<typename L::template Ref<RedBlackNode>, 2> link;
  PERDURE_FIELDS(RedBlackNode, key, red, link);
};
template <class L>
struct RedBlackRoot : L::template Object<RedBlackRoot<L>> {
  typename L::template Ref<RedBlackNode<L>> top;
  PERDURE_FIELDS(RedBlackRoot, top);
};

template <class L>
class RedBlackTree {
 public:
  using Root = RedBlackRoot<L>;
  using Heap = typename L::template Heap<Root>;
  using Node = RedBlackNode<L>;
  using Local = typename L::template Local<Node>;
  using Ref = typename L::template Ref<Node>;

  /// From the root on: a node, and to which side the way goes on. The first step is the root's own reference.
  struct Step {
    Local node;
    unsigned side;
  };
  using Scratch = std::vector<Step>;

  RedBlackTree(Heap& heap, const Sizes& sizes) : heap_(&heap), keys_(2 * sizes.keys) {
    Scratch way;
    const std::vector<std::uint64_t> keys = shuffled_keys(sizes.keys);
    fill_up(heap, keys.size(), [&](auto&, std::uint64_t i) { toggle(keys[i], way); });
  }

  /// With the same structure, read back.
  void go_on_with(Heap& heap) { heap_ = &heap; }

  std::int64_t operate(Random& random, Scratch& way) {
    return toggle(random.below(keys_), way) ? 1 : -1;
  }

  /// Whether the key was inserted.
  bool toggle(std::uint64_t key, Scratch& way) {
    return heap_->run([&](auto root) {
      way.clear();
      way.push_back({nullptr, 0});
      Local at = root->top;
      while (at) {
        const std::uint64_t here = at->key;
        if (here == key) break;
        const unsigned side = here < key ? 1 : 0;
        way.push_back({at, side});
        at = at->link[side];
      }
      if (!at) {
        insert(root, way, key);
        return true;
      }
      remove(root, way, at);
      return false;
    });
  }

  /// Sorted, no red node below a red one, as many black ones on every way.
  std::uint64_t check() {
    return heap_->read([&](auto root) {
      std::uint64_t count = 0;
      std::uint64_t next = 0;
      (void)check(root->top, false, next, count);
      return count;
    });
  }

 private:
  template <class Tree>
  static Ref& below(Tree& root, const Scratch& way, std::size_t step) {
    return step == 0 ? root->top : way[step].node->link[way[step].side];
  }
  static bool red(const Local& node) { return node && node->red != 0; }

  template <class Tree>
  static void insert(Tree& root, Scratch& way, std::uint64_t key) {
    const Local made = L::template make<Node>();
    made->key = key;
    made->red = 1;
    below(root, way, way.size() - 1) = made;
    std::size_t k = way.size();
    while (k >= 3 && red(way[k - 1].node)) {
      const Local parent = way[k - 1].node;
      const Local grandparent = way[k - 2].node;
      const unsigned side = way[k - 2].side;
      const Local uncle = grandparent->link[1 - side];
      if (red(uncle)) {
        parent->red = 0;
        uncle->red = 0;
        grandparent->red = 1;
        k -= 2;
        continue;
      }
      Local top = parent;
      if (way[k - 1].side != side) {
        top = parent->link[1 - side];
        parent->link[1 - side] = top->link[side];
        top->link[side] = parent;
        grandparent->link[side] = top;
      }
      grandparent->red = 1;
      top->red = 0;
      grandparent->link[side] = top->link[1 - side];
      top->link[1 - side] = grandparent;
      below(root, way, k - 3) = top;
      break;
    }
    if (red(root->top)) root->top->red = 0;
  }

  static void swap_colours(const Local& a, const Local& b) {
    const std::uint64_t colour = a->red;
    a->red = b->red.get();
    b->red = colour;
  }

  template <class Tree>
  static void remove(Tree& root, Scratch& way, const Local& gone) {
    const std::size_t at = way.size() - 1;  // the step that leads to `gone`
    if (!gone->link[1]) {
      below(root, way, at) = gone->link[0];
    } else {
      Local next = gone->link[1];
      if (!next->link[0]) {
        next->link[0] = gone->link[0];
        swap_colours(next, gone);
        below(root, way, at) = next;
        way.push_back({next, 1});
      } else {
        way.push_back({nullptr, 1});
        Local before = next;
        for (;;) {
          way.push_back({before, 0});
          next = before->link[0];
          if (!next->link[0]) break;
          before = next;
        }
        way[at + 1].node = next;
        below(root, way, at) = next;
        next->link[0] = gone->link[0];
        before->link[0] = next->link[1];
        next->link[1] = gone->link[1];
        swap_colours(next, gone);
      }
    }
    if (gone->red == 0) rebalance(root, way);
    L::end(gone);
  }

  /// A black node is missing where the way ends.
  template <class Tree>
  static void rebalance(Tree& root, Scratch& way) {
    for (;;) {
      const std::size_t last = way.size() - 1;
      const Local here = below(root, way, last);
      if (red(here)) {
        here->red = 0;
        return;
      }
      if (last == 0) return;
      const Local parent = way[last].node;
      const unsigned side = way[last].side;
      Local sibling = parent->link[1 - side];
      if (red(sibling)) {
        sibling->red = 0;
        parent->red = 1;
        parent->link[1 - side] = sibling->link[side];
        sibling->link[side] = parent;
        below(root, way, last - 1) = sibling;
        way[last].node = sibling;
        way.push_back({parent, side});
        sibling = parent->link[1 - side];
      }
      if (!red(sibling->link[0]) && !red(sibling->link[1])) {
        sibling->red = 1;
        way.pop_back();
        continue;
      }
      if (!red(sibling->link[1 - side])) {
        const Local inner = sibling->link[side];
        inner->red = 0;
        sibling->red = 1;
        sibling->link[side] = inner->link[1 - side];
        inner->link[1 - side] = sibling;
        parent->link[1 - side] = inner;
        sibling = inner;
      }
      sibling->red = parent->red.get();
      parent->red = 0;
      sibling->link[1 - side]->red = 0;
      parent->link[1 - side] = sibling->link[side];
      sibling->link[side] = parent;
      below(root, way, way.size() - 2) = sibling;
      return;
    }
  }

  /// Returns how many black nodes stand on the way down. `next`: the least key that may come.
  static std::uint64_t check(const Local& node, bool below_red, std::uint64_t& next,
                             std::uint64_t& count) {
    if (!node) return 1;
    const bool here_red = red(node);
    require(!here_red || !below_red, "RBTree: a red node below a red one");
    const std::uint64_t left = check(node->link[0], here_red, next, count);
    require(node->key >= next, "RBTree: the keys are not sorted");
    next = node->key + 1;
    ++count;
    const std::uint64_t right = check(node->link[1], here_red, next, count);
    require(left == right, "RBTree: more black nodes on one way than on another");
    return left + (here_red ? 0 : 1);
  }

  Heap* heap_;
  std::uint64_t keys_;
};

}  // namespace perdure::bench::nvheaps
