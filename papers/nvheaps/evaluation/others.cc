// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/others.h"

#include "papers/nvheaps/evaluation/six_degrees.h"

namespace perdure::bench::nvheaps {

Others& others() {
  static Others registered;
  return registered;
}

std::unique_ptr<OtherJob> OtherJob::make(const OtherKind& kind, const OtherOptions& options) {
  auto store = kind.make(options);
  if (store == nullptr) return nullptr;
  return std::unique_ptr<OtherJob>(new OtherJob(std::move(store), options));
}

OtherJob::OtherJob(std::unique_ptr<OtherStore> store, const OtherOptions& options)
    : store_(std::move(store)), options_(options) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs;
  if (options.work == Work::kSwaps) {
    for (std::uint64_t i = 0; i < options.sizes.array_words; ++i) pairs.emplace_back(i, i);
  } else if (options.work == Work::kSixDegrees) {
    possible_ = possible_edges(options.sizes);
    for (std::size_t i = 0; i < possible_.size(); i += 2) {
      pairs.push_back(possible_[i]);
      pairs.emplace_back(possible_[i].second, possible_[i].first);
    }
  } else {
    for (const std::uint64_t key : shuffled_keys(options.sizes.keys)) pairs.emplace_back(key, key);
  }
  store_->fill(pairs);
  filled_ = pairs.size();
  for (unsigned thread = 0; thread < options.threads; ++thread) {
    lanes_.emplace_back();
    lanes_.back().random = Random(options.seed * 1000 + thread);
  }
}

void OtherJob::run(std::uint64_t operations, unsigned thread) {
  Lane& lane = lanes_[thread];
  for (; operations > 0; --operations) lane.added += operate(lane, thread);
}

std::int64_t OtherJob::operate(Lane& lane, unsigned thread) {
  const Sizes& sizes = options_.sizes;
  if (options_.work == Work::kSwaps) {
    const std::uint64_t one = lane.random.below(sizes.array_words);
    store_->swap(one, lane.random.below(sizes.array_words), thread);
    return 0;
  }
  if (options_.work != Work::kSixDegrees)
    return store_->toggle(lane.random.below(2 * sizes.keys), thread) ? 1 : -1;
  if (lane.random.next() % 2 != 0) {
    search(lane, thread);
    return 0;
  }
  const auto& [one, other] = possible_[lane.random.below(possible_.size())];
  return store_->toggle_edge(one, other, thread) ? 2 : -2;
}

void OtherJob::search(Lane& lane, unsigned thread) {
  const std::uint64_t from = lane.random.below(options_.sizes.vertices);
  const std::uint64_t to = lane.random.below(options_.sizes.vertices);
  lane.seen.resize(options_.sizes.vertices);
  lane.seen[from] = ++lane.search;
  lane.reached.assign(1, from);
  std::vector<std::uint64_t> near;
  std::size_t next = 0;
  for (unsigned degree = 1; degree <= kDegrees && from != to; ++degree) {
    for (const std::size_t end = lane.reached.size(); next < end; ++next) {
      near.clear();
      store_->neighbours(lane.reached[next], near, thread);
      for (const std::uint64_t vertex : near) {
        if (vertex == to) return;
        if (std::exchange(lane.seen[vertex], lane.search) != lane.search)
          lane.reached.push_back(vertex);
      }
    }
  }
}

void OtherJob::check() {
  auto expected = static_cast<std::int64_t>(filled_);
  for (const Lane& lane : lanes_) expected += lane.added;
  require(static_cast<std::int64_t>(store_->count()) == expected,
          "a store beside ours has lost an operation");
}

}  // namespace perdure::bench::nvheaps
