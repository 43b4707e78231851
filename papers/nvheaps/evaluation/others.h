// SPDX-License-Identifier: BSD-3-Clause
// Other persistent stores under the workloads of Figure 7.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/workload.h"
#include "measure/pcm_disk.h"
#include "papers/nvheaps/evaluation/job.h"

namespace perdure::bench::nvheaps {

struct OtherOptions {
  Work work = Work::kBTree;
  std::string dir;
  bool waits = true;                              // for the device, at each commit
  std::optional<reproduce::EmulatedMemory> disk;  // of Berkeley DB: below `dir`; else as it is
  Sizes sizes;
  unsigned threads = 1;
  std::uint64_t seed = 1;
};

/// What a store has to offer; each call is a transaction, from any of the threads.
class OtherStore {
 public:
  virtual ~OtherStore() = default;
  /// Fills while nothing is waited for. `pairs`: keys with values (SPS), or edges of a graph, both ways.
  virtual void fill(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& pairs) = 0;
  virtual void swap(std::uint64_t one, std::uint64_t other, unsigned thread) = 0;
  /// Whether the key was inserted.
  virtual bool toggle(std::uint64_t key, unsigned thread) = 0;
  /// The same for an edge, in both directions.
  virtual bool toggle_edge(std::uint64_t one, std::uint64_t other, unsigned thread) = 0;
  /// Appends what edges lead to from a vertex.
  virtual void neighbours(std::uint64_t vertex, std::vector<std::uint64_t>& to,
                          unsigned thread) = 0;
  virtual std::uint64_t count() = 0;
};

struct OtherKind {
  std::string_view name;
  /// Null when it has nothing that fits the workload.
  std::unique_ptr<OtherStore> (*make)(const OtherOptions&);
};
/// Filled by the files peer_*.cc before main().
struct Others {
  OtherKind berkeley{"Berkeley DB", nullptr};
  OtherKind sqlite{"SQLite", nullptr};
};
Others& others();

/// A workload on a store, with the same keys, edges and mix as the Jobs have. Null: it has nothing that fits.
class OtherJob {
 public:
  static std::unique_ptr<OtherJob> make(const OtherKind& kind, const OtherOptions& options);
  void run(std::uint64_t operations, unsigned thread);
  /// Errors: throws Exception kCorrupt when the store does not hold as many records as it has to.
  void check();

 private:
  struct Lane {
    Random random{0};
    std::vector<std::uint64_t> reached;
    std::vector<std::uint64_t> seen;
    std::uint64_t search = 0;
    std::int64_t added = 0;
  };
  OtherJob(std::unique_ptr<OtherStore> store, const OtherOptions& options);
  std::int64_t operate(Lane& lane, unsigned thread);
  void search(Lane& lane, unsigned thread);

  std::unique_ptr<OtherStore> store_;
  OtherOptions options_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> possible_;  // edges
  std::vector<Lane> lanes_;
  std::uint64_t filled_ = 0;
};

}  // namespace perdure::bench::nvheaps
