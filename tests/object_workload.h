// SPDX-License-Identifier: BSD-3-Clause
// What threads do to one graph of objects: lists, slots that are swapped, weak caches, handles. Each thread keeps a ledger of the
// nodes that it made and of those of them that ended, so that the graph can be judged at any time.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "perdure/object.h"
#include "tests/object_walk.h"

namespace perdure::testing {

struct Ledger : object<Ledger> {
  field<std::uint64_t> made;
  field<std::uint64_t> ended;
  PERDURE_FIELDS(Ledger, made, ended);
};
struct Link : object<Link> {
  field<std::uint64_t> number;
  field<std::uint64_t> check;  // ~number
  ref<Ledger> ledger;
  ref<Link> next;
  ref<Link> other;
  weak_ref<Link> back;
  ref<chars> label;
  PERDURE_FIELDS(Link, number, check, ledger, next, other, back, label);
  ~Link() { ++ledger->ended; }
};
struct Graph : object<Graph> {
  static constexpr std::size_t kThreads = 3;
  static constexpr std::uint64_t kSlots = 24;
  std::array<ref<Ledger>, kThreads> ledgers;
  std::array<ref<Link>, 4> lists;
  ref<array<ref<Link>>> slots;
  ref<array<weak_ref<Link>>> cache;
  PERDURE_FIELDS(Graph, ledgers, lists, slots, cache);
};
using GraphHeap = object_heap<Graph>;

inline void prepare(GraphHeap& heap) {
  heap.atomically([&](auto root) {
    if (root->slots) return;
    root->slots = heap.make_array<ref<Link>>(Graph::kSlots);
    root->cache = heap.make_array<weak_ref<Link>>(Graph::kSlots);
    for (auto& ledger : root->ledgers) ledger = heap.make<Ledger>();
  });
}

/// One thread.
class Worker {
 public:
  Worker(GraphHeap& heap, std::size_t thread, std::uint64_t seed)
      : heap_(&heap), thread_(thread), random_(seed) {}

  void step() {
    const std::uint64_t what = below(100);
    const std::uint64_t a = below(Graph::kSlots);
    const std::uint64_t b = below(Graph::kSlots);
    const std::uint64_t list = below(4);
    if (what < 25) {
      heap_->atomically([&](auto root) {
        const auto made = make(root);
        made->next = root->lists[list];
        if (made->next) made->next->back = made;
        root->lists[list] = made;
        root->cache.get()[a] = made;
      });
    } else if (what < 40) {
      heap_->atomically([&](auto root) {
        const local<Link> first = root->lists[list];
        if (!first) return;
        root->lists[list] = first->next;
        first->next = nullptr;
        root->slots.get()[a] = first;
      });
    } else if (what < 60) {
      heap_->atomically([&](auto root) {
        const auto slots = root->slots.get();
        const local<Link> kept = slots[a];
        slots[a] = slots[b];
        slots[b] = kept;
      });
    } else if (what < 70) {
      handle<Link> held = heap_->atomically([&](auto root) {
        handle<Link> taken(root->slots.get()[a]);
        root->slots.get()[a] = nullptr;
        return taken;
      });
      if (held) held_.push_back(std::move(held));
      if (held_.size() > 80) held_.erase(held_.begin(), held_.begin() + 40);
    } else if (what < 80) {
      if (held_.empty()) return;
      handle<Link>& held = held_[below(held_.size())];
      heap_->atomically([&](auto root) {
        judge(held);
        root->slots.get()[b] = held;
      });
      if (what % 2 == 0)
        held = heap_->atomically([&](auto root) { return handle<Link>(make(root)); });
    } else if (what < 88) {
      heap_->atomically([&](auto root) {
        if (const local<Link> cached = root->cache.get()[a]) {
          judge(cached);
          root->slots.get()[b] = cached;
        }
      });
    } else if (what < 95) {
      heap_->read_only([&](auto root) {
        local<Link> at = root->lists[list];
        for (int i = 0; i < 50 && at; ++i, at = at->next) judge(at);
      });
    } else if (what < 98) {  // long, so that its end takes several transactions
      heap_->atomically([&](auto root) {
        for (int i = 0; i < 100; ++i) {
          const auto made = make(root);
          made->next = root->lists[list];
          root->lists[list] = made;
        }
      });
    } else {
      heap_->atomically([&](auto root) { root->lists[list] = nullptr; });
    }
  }
  void let_go() { held_.clear(); }
  std::uint64_t bad() const { return bad_; }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  local<Link> make(local<Graph> root) {
    const auto made = heap_->make<Link>();
    const local<Ledger> ledger = root->ledgers[thread_];
    made->ledger = ledger;
    made->number = ++ledger->made;
    made->check = ~made->number.get();
    if (made->number % 8 == 0)
      made->label = heap_->make_text("link " + std::to_string(made->number));
    return made;
  }
  void judge(local<Link> link) {
    if (link->check != ~link->number.get()) ++bad_;
    if (link->label && link->label->text() != "link " + std::to_string(link->number)) ++bad_;
  }

  GraphHeap* heap_;
  std::size_t thread_;
  std::mt19937_64 random_;
  std::vector<handle<Link>> held_;
  std::uint64_t bad_ = 0;
};

/// As complaints_about(), and the ledgers have to be right.
inline std::string complaints_about_graph(GraphHeap& heap) {
  std::map<std::size_t, std::uint64_t> objects;
  std::string complaints = complaints_about<Graph>(heap.pool(), &objects);
  const std::uint64_t live = heap.read_only([](auto root) {
    std::uint64_t count = 0;
    for (const auto& ledger : root->ledgers) count += ledger->made - ledger->ended;
    return count;
  });
  const auto links = objects[detail::IndexIn<Link, GraphHeap::Types>::value];
  if (live != links)
    complaints += "the ledgers say " + std::to_string(live) + " links, there are " +
                  std::to_string(links) + "\n";
  return complaints;
}

}  // namespace perdure::testing
