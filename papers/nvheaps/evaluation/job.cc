// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/job.h"

#include "papers/nvheaps/evaluation/b_tree.h"
#include "papers/nvheaps/evaluation/full_sizes.h"
#include "papers/nvheaps/evaluation/hash_table.h"
#include "papers/nvheaps/evaluation/job_of.h"
#include "papers/nvheaps/evaluation/red_black_tree.h"
#include "papers/nvheaps/evaluation/six_degrees.h"
#include "papers/nvheaps/evaluation/ssca.h"
#include "papers/nvheaps/evaluation/swaps.h"

namespace perdure::bench::nvheaps {

namespace {

HeapSetting sized(Work work, HeapSetting setting, const Sizes& sizes) {
  setting.bytes = heap_bytes(work, sizes);
  return setting;
}

}  // namespace

std::uint64_t heap_bytes(Work work, const Sizes& sizes) {
  constexpr std::uint64_t kFixed = std::uint64_t{8}
                                   << 20;  // a pool's logs and tables, and segments that are begun
  const auto of = [&]() -> std::uint64_t {
    switch (work) {
      case Work::kSwaps: return 8 * sizes.array_words;
      case Work::kSixDegrees: return 128 * sizes.vertices + 64 * sizes.edges;
      case Work::kBTree:
      case Work::kHashTable:
      case Work::kRedBlackTree: return kBytesOfKey * sizes.keys;
      case Work::kSsca:
        return (160 + 8 * sizes.edges_per_vertex) * (std::uint64_t{1} << sizes.scale);
    }
    return 0;
  };
  return kFixed + of() / 4 * 5;
}

std::unique_ptr<Job> make_job(Work work, const HeapSetting& plain, const Sizes& sizes,
                              unsigned threads, std::uint64_t seed) {
  const HeapSetting setting = sized(work, plain, sizes);
  switch (work) {
    case Work::kSwaps: return make_job_of<Swaps>(setting, sizes, threads, seed);
    case Work::kSixDegrees: return make_job_of<SixDegrees>(setting, sizes, threads, seed);
    case Work::kBTree: return make_job_of<BTree>(setting, sizes, threads, seed);
    case Work::kHashTable: return make_job_of<HashTable>(setting, sizes, threads, seed);
    case Work::kRedBlackTree: return make_job_of<RedBlackTree>(setting, sizes, threads, seed);
    case Work::kSsca: return make_job_of<Ssca>(setting, sizes, threads, seed);
  }
  return nullptr;
}

std::unique_ptr<Job> make_counted_job(Work work, const HeapSetting& plain, const Sizes& sizes,
                                      std::uint64_t seed) {
  const HeapSetting setting = sized(work, plain, sizes);
  switch (work) {
    case Work::kSwaps: return std::make_unique<JobOf<Swaps, CountedLayer>>(setting, sizes, 1, seed);
    case Work::kSixDegrees:
      return std::make_unique<JobOf<SixDegrees, CountedLayer>>(setting, sizes, 1, seed);
    case Work::kBTree: return std::make_unique<JobOf<BTree, CountedLayer>>(setting, sizes, 1, seed);
    case Work::kHashTable:
      return std::make_unique<JobOf<HashTable, CountedLayer>>(setting, sizes, 1, seed);
    case Work::kRedBlackTree:
      return std::make_unique<JobOf<RedBlackTree, CountedLayer>>(setting, sizes, 1, seed);
    case Work::kSsca: return std::make_unique<JobOf<Ssca, CountedLayer>>(setting, sizes, 1, seed);
  }
  return nullptr;
}

}  // namespace perdure::bench::nvheaps
