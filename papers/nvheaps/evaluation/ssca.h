// SPDX-License-Identifier: BSD-3-Clause
// SSCA 2.2 (Table 2): analyses of a scale-free graph. Kernel 1 builds it, 2 finds its heaviest edges, 3 the vertices near to those;
// an operation is an iteration of kernel 4's outer loop: betweenness centrality, the part that one vertex adds (Brandes). It reads the
// graph in one transaction, and adds to the scores in transactions of some vertices each.
#pragma once

#include <atomic>
#include <cmath>
#include <vector>

#include "bench/workload.h"
#include "papers/nvheaps/evaluation/r_mat.h"
#include "papers/nvheaps/evaluation/sizes.h"
#include "perdure/object.h"

namespace perdure::bench::nvheaps {

template <class L>
struct SscaVertex : L::template Object<SscaVertex<L>> {
  /// The neighbour and, in the low kWeightBits, the edge's weight.
  typename L::template Ref<typename L::template Array<typename L::template Field<std::uint64_t>>>
      edges;
  typename L::template Field<double> score;
  PERDURE_FIELDS(SscaVertex, edges, score);
};
template <class L>
struct SscaRoot : L::template Object<SscaRoot<L>> {
  typename L::template Ref<typename L::template Array<typename L::template Ref<SscaVertex<L>>>>
      sites;
  typename L::template Ref<typename L::template Array<typename L::template Field<std::uint64_t>>>
      heaviest;  // kernel 2: where an edge of the greatest weight begins
  typename L::template Field<std::uint64_t>
      near_them;  // kernel 3: vertices at most kNear edges behind one
  PERDURE_FIELDS(SscaRoot, sites, heaviest, near_them);
};

template <class L>
class Ssca {
 public:
  using Root = SscaRoot<L>;
  using Heap = typename L::template Heap<Root>;
  using Vertex = typename L::template Local<SscaVertex<L>>;
  using Numbers = typename L::template Field<std::uint64_t>;
  using Graph = std::vector<std::vector<std::uint64_t>>;

  struct Scratch {
    std::vector<std::uint64_t> order;  // as they were reached
    std::vector<std::uint64_t> distance;
    std::vector<double> paths;
    std::vector<double> part;
  };

  Ssca(Heap& heap, const Sizes& sizes)
      : heap_(&heap), vertices_(std::uint64_t{1} << sizes.scale), used_(vertices_) {
    draw(sizes);
    build();
    find_heaviest();
    find_near();
  }

  /// What check() has to know, as of now, for go_on_with().
  void remember() {
    used_then_.clear();
    for (const auto& used : used_) used_then_.push_back(used.load(std::memory_order_relaxed));
  }
  /// With the same structure, read back, as it was when remember() was called.
  void go_on_with(Heap& heap) {
    heap_ = &heap;
    for (std::size_t i = 0; i < used_.size(); ++i) used_[i] = used_then_[i];
  }

  std::int64_t operate(Random& random, Scratch& scratch) {
    const std::uint64_t from = random.below(vertices_);
    heap_->read([&](auto root) {
      const auto sites = root->sites.get();
      add_paths(from, scratch, [&](std::uint64_t vertex, const auto& visit) {
        const auto edges = sites[vertex]->edges.get();
        const std::uint64_t count = edges->size();
        for (std::uint64_t i = 0; i < count; ++i) visit(edges[i].get());
      });
    });
    for (std::size_t done = 1; done < scratch.order.size(); done += kScoresAtOnce) {
      heap_->run([&](auto root) {
        const auto sites = root->sites.get();
        const std::size_t end = std::min(scratch.order.size(), done + kScoresAtOnce);
        for (std::size_t i = done; i < end; ++i)
          sites[scratch.order[i]]->score += scratch.part[scratch.order[i]];
      });
    }
    used_[from].fetch_add(1, std::memory_order_relaxed);
    return 0;
  }

  /// The scores are those that the same algorithm finds in volatile memory; kernels 2 and 3 as well.
  std::uint64_t check() {
    std::vector<double> scores(vertices_);
    Scratch scratch;
    for (std::uint64_t from = 0; from < vertices_; ++from) {
      if (used_[from] == 0) continue;
      add_paths(from, scratch, [&](std::uint64_t vertex, const auto& visit) {
        for (const std::uint64_t edge : drawn_[vertex]) visit(edge);
      });
      for (std::size_t i = 1; i < scratch.order.size(); ++i)
        scores[scratch.order[i]] += used_[from] * scratch.part[scratch.order[i]];
    }
    std::uint64_t greatest = 0;
    std::uint64_t heavy = 0;
    for (const auto& edges : drawn_) {
      for (const std::uint64_t edge : edges) {
        if (weight(edge) > greatest) heavy = 0;
        greatest = std::max(greatest, weight(edge));
        heavy += weight(edge) == greatest ? 1 : 0;
      }
    }
    return heap_->read([&](auto root) {
      const auto sites = root->sites.get();
      for (std::uint64_t i = 0; i < vertices_; ++i) {
        const double found = sites[i]->score;
        require(std::abs(found - scores[i]) <= 1e-6 * (1 + scores[i]), "SSCA: a score is wrong");
        require(sites[i]->edges->size() == drawn_[i].size(), "SSCA: an edge is lost");
      }
      require(root->heaviest->size() == heavy, "SSCA: kernel 2 missed an edge");
      require(root->near_them >= 1 && root->near_them <= vertices_, "SSCA: kernel 3");
      return vertices_;
    });
  }

 private:
  static constexpr unsigned kWeightBits = 16;
  static constexpr std::size_t kScoresAtOnce = 16;
  static constexpr unsigned kNear = 3;
  static std::uint64_t weight(std::uint64_t edge) { return edge & ((1u << kWeightBits) - 1); }

  void draw(const Sizes& sizes) {
    Random random(sizes.scale);
    drawn_.resize(vertices_);
    for (std::uint64_t i = 0; i < vertices_ * sizes.edges_per_vertex; ++i) {
      const auto [from, to] = r_mat_edge(sizes.scale, random);
      drawn_[from].push_back(to << kWeightBits | (1 + random.below(vertices_)));
    }
  }

  void build() {  // kernel 1
    heap_->run([&](auto root) {
      root->sites = L::template make_array<typename L::template Ref<SscaVertex<L>>>(vertices_);
    });
    fill_up(*heap_, vertices_, [&](auto& root, std::uint64_t i) {
      const Vertex made = L::template make<SscaVertex<L>>();
      made->edges = L::template make_array<Numbers>(drawn_[i].size());
      const auto edges = made->edges.get();
      for (std::uint64_t j = 0; j < drawn_[i].size(); ++j) edges[j] = drawn_[i][j];
      root->sites.get()[i] = made;
    });
  }

  void find_heaviest() {  // kernel 2
    heap_->run([&](auto root) {
      std::vector<std::uint64_t> from;
      std::uint64_t greatest = 0;
      const auto sites = root->sites.get();
      for (std::uint64_t i = 0; i < vertices_; ++i) {
        const auto edges = sites[i]->edges.get();
        for (std::uint64_t j = 0; j < edges->size(); ++j) {
          if (weight(edges[j]) > greatest) from.clear();
          greatest = std::max(greatest, weight(edges[j]));
          if (weight(edges[j]) == greatest) from.push_back(i);
        }
      }
      root->heaviest = L::template make_array<Numbers>(from.size());
      const auto heaviest = root->heaviest.get();
      for (std::uint64_t i = 0; i < from.size(); ++i) heaviest[i] = from[i];
    });
  }

  void find_near() {  // kernel 3
    heap_->run([&](auto root) {
      const auto sites = root->sites.get();
      std::vector<bool> near(vertices_);
      std::vector<std::uint64_t> reached;
      const auto reach = [&](std::uint64_t vertex) {
        if (near[vertex]) return;
        near[vertex] = true;
        reached.push_back(vertex);
      };
      const auto heaviest = root->heaviest.get();
      for (std::uint64_t i = 0; i < heaviest->size(); ++i) reach(heaviest[i]);
      std::size_t next = 0;
      for (unsigned level = 0; level < kNear; ++level) {
        for (const std::size_t end = reached.size(); next < end; ++next) {
          const auto edges = sites[reached[next]]->edges.get();
          for (std::uint64_t j = 0; j < edges->size(); ++j) reach(edges[j] >> kWeightBits);
        }
      }
      root->near_them = reached.size();
    });
  }

  /// Into scratch.part: how much of the shortest paths from a vertex go through each other one. Edges whose weight is a multiple of 8
  /// are left out, as the benchmark has it.
  template <class Edges>
  void add_paths(std::uint64_t from, Scratch& scratch, const Edges& edges_of) const {
    scratch.order.assign(1, from);
    scratch.distance.assign(vertices_, ~std::uint64_t{0});
    scratch.paths.assign(vertices_, 0);
    scratch.part.assign(vertices_, 0);
    scratch.distance[from] = 0;
    scratch.paths[from] = 1;
    for (std::size_t next = 0; next < scratch.order.size(); ++next) {
      const std::uint64_t here = scratch.order[next];
      edges_of(here, [&](std::uint64_t edge) {
        if (weight(edge) % 8 == 0) return;
        const std::uint64_t there = edge >> kWeightBits;
        if (scratch.distance[there] == ~std::uint64_t{0}) {
          scratch.distance[there] = scratch.distance[here] + 1;
          scratch.order.push_back(there);
        }
        if (scratch.distance[there] == scratch.distance[here] + 1)
          scratch.paths[there] += scratch.paths[here];
      });
    }
    for (std::size_t i = scratch.order.size(); i-- > 0;) {
      const std::uint64_t here = scratch.order[i];
      edges_of(here, [&](std::uint64_t edge) {
        if (weight(edge) % 8 == 0) return;
        const std::uint64_t there = edge >> kWeightBits;
        if (scratch.distance[there] == scratch.distance[here] + 1)
          scratch.part[here] +=
              scratch.paths[here] / scratch.paths[there] * (1 + scratch.part[there]);
      });
    }
  }

  Heap* heap_;
  std::uint64_t vertices_;
  Graph drawn_;
  std::vector<std::atomic<std::uint32_t>> used_;  // by vertex: operations from there
  std::vector<std::uint32_t> used_then_;
};

}  // namespace perdure::bench::nvheaps
