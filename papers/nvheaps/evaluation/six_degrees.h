// SPDX-License-Identifier: BSD-3-Clause
// SixDegs (Table 2): half of the operations search for a path of at most six edges between two vertices of a scale-free graph, the
// others insert or remove an edge. An edge stands in the lists of both of its vertices, and leads to the other one by a weak reference.
#pragma once

#include <bit>
#include <set>
#include <vector>

#include "bench/workload.h"
#include "papers/nvheaps/evaluation/r_mat.h"
#include "papers/nvheaps/evaluation/sizes.h"
#include "perdure/object.h"

namespace perdure::bench::nvheaps {

inline constexpr unsigned kDegrees = 6;

template <class L>
struct Acquaintance;
template <class L>
struct Person : L::template Object<Person<L>> {
  typename L::template Field<std::uint64_t> number;
  typename L::template Ref<Acquaintance<L>> first;
  PERDURE_FIELDS(Person, number, first);
};
template <class L>
struct Acquaintance : L::template Object<Acquaintance<L>> {
  typename L::template WeakRef<Person<L>> other;
  typename L::template Ref<Acquaintance> next;
  PERDURE_FIELDS(Acquaintance, other, next);
};
template <class L>
struct PeopleRoot : L::template Object<PeopleRoot<L>> {
  typename L::template Ref<typename L::template Array<typename L::template Ref<Person<L>>>> people;
  PERDURE_FIELDS(PeopleRoot, people);
};

/// What may be an edge: as many as asked for, each once. The same for every system.
inline std::vector<std::pair<std::uint64_t, std::uint64_t>> possible_edges(const Sizes& sizes) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> drawn;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> edges;
  Random random(sizes.edges);
  const auto scale = static_cast<unsigned>(std::countr_zero(std::bit_ceil(sizes.vertices)));
  while (edges.size() < sizes.edges) {
    auto edge = r_mat_edge(scale, random);
    if (edge.first > edge.second) std::swap(edge.first, edge.second);
    if (edge.second < sizes.vertices && drawn.insert(edge).second) edges.push_back(edge);
  }
  return edges;
}

template <class L>
class SixDegrees {
 public:
  using Root = PeopleRoot<L>;
  using Heap = typename L::template Heap<Root>;
  using Vertex = typename L::template Local<Person<L>>;
  using Edge = typename L::template Local<Acquaintance<L>>;
  struct Scratch {
    std::vector<Vertex> reached;
    std::vector<std::uint64_t> seen;  // by vertex: in which search
    std::uint64_t search = 0;
  };

  SixDegrees(Heap& heap, const Sizes& sizes)
      : heap_(&heap), vertices_(sizes.vertices), possible_(possible_edges(sizes)) {
    heap.run([&](auto root) {
      root->people = L::template make_array<typename L::template Ref<Person<L>>>(vertices_);
    });
    fill_up(heap, vertices_, [](auto& root, std::uint64_t i) {
      const Vertex made = L::template make<Person<L>>();
      made->number = i;
      root->people.get()[i] = made;
    });
    fill_up(heap, possible_.size() / 2, [&](auto&, std::uint64_t i) { toggle(possible_[2 * i]); });
  }

  /// With the same structure, read back.
  void go_on_with(Heap& heap) { heap_ = &heap; }

  /// Returns how many entries of lists it added.
  std::int64_t operate(Random& random, Scratch& scratch) {
    const std::uint64_t draw = random.next();
    if (draw % 2 == 0) return toggle(possible_[random.below(possible_.size())]) ? 2 : -2;
    const std::uint64_t from = random.below(vertices_);
    (void)search(from, random.below(vertices_), scratch);
    return 0;
  }

  /// Whether the edge was inserted.
  bool toggle(const std::pair<std::uint64_t, std::uint64_t>& edge) {
    return heap_->run([&](auto root) {
      const auto people = root->people.get();
      const Vertex one = people[edge.first];
      const Vertex other = people[edge.second];
      if (remove(one, other)) {
        (void)remove(other, one);
        return false;
      }
      add(one, other);
      add(other, one);
      return true;
    });
  }

  /// How many edges the shortest path has; more than kDegrees: there is none of so few.
  unsigned search(std::uint64_t from, std::uint64_t to, Scratch& scratch) {
    return heap_->read([&](auto root) -> unsigned {
      scratch.seen.resize(vertices_);
      scratch.reached.clear();
      ++scratch.search;
      if (from == to) return 0;
      scratch.seen[from] = scratch.search;
      scratch.reached.push_back(root->people.get()[from]);
      std::size_t next = 0;
      for (unsigned degree = 1; degree <= kDegrees; ++degree) {
        for (const std::size_t end = scratch.reached.size(); next < end; ++next) {
          for (Edge edge = scratch.reached[next]->first; edge; edge = edge->next) {
            const Vertex other = edge->other;
            const std::uint64_t number = other->number;
            if (number == to) return degree;
            if (std::exchange(scratch.seen[number], scratch.search) != scratch.search)
              scratch.reached.push_back(other);
          }
        }
      }
      return kDegrees + 1;
    });
  }

  /// Every edge stands in two lists, and was possible.
  std::uint64_t check() {
    return heap_->read([&](auto root) {
      std::set<std::pair<std::uint64_t, std::uint64_t>> found;
      const auto people = root->people.get();
      for (std::uint64_t i = 0; i < vertices_; ++i) {
        const Vertex vertex = people[i];
        require(vertex->number == i, "SixDegs: a vertex has another one's number");
        for (Edge edge = vertex->first; edge; edge = edge->next) {
          const Vertex other = edge->other;
          require(static_cast<bool>(other), "SixDegs: an edge leads nowhere");
          require(found.emplace(i, other->number.get()).second, "SixDegs: an edge is there twice");
        }
      }
      const std::set<std::pair<std::uint64_t, std::uint64_t>> possible(possible_.begin(),
                                                                       possible_.end());
      for (const auto& [one, other] : found) {
        require(found.contains({other, one}), "SixDegs: an edge is in one list only");
        require(possible.contains(std::minmax(one, other)), "SixDegs: an edge that nobody drew");
      }
      return static_cast<std::uint64_t>(found.size());
    });
  }

 private:
  static void add(const Vertex& to, const Vertex& other) {
    const Edge made = L::template make<Acquaintance<L>>();
    made->other = other;
    made->next = to->first;
    to->first = made;
  }
  static bool remove(const Vertex& from, const Vertex& other) {
    Edge before = nullptr;
    Edge at = from->first;
    while (at && at->other != other) {
      before = at;
      at = at->next;
    }
    if (!at) return false;
    if (before) {
      before->next = at->next;
    } else {
      from->first = at->next;
    }
    L::end(at);
    return true;
  }

  Heap* heap_;
  std::uint64_t vertices_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> possible_;
};

}  // namespace perdure::bench::nvheaps
