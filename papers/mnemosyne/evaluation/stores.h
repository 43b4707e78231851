// SPDX-License-Identifier: BSD-3-Clause
// What the experiments compare: stores of records under a number, in which every update is durable
// when the call returns. Ours and the peers' are driven by the same code (churn.h) with the same
// keys and values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "measure/pcm_disk.h"
#include "measure/ram_disk.h"
#include "papers/pool.h"
#include "perdure/pool.h"

namespace perdure::bench::reproduce {

/// What a store is asked to do next.
enum class Phase : std::uint8_t {
  kFill,     // not measured: as fast as possible, need not be durable
  kWarmUp,   // not measured, but as it will be
  kMeasure,  // every update durable on return
};

class UpdateStore {
 public:
  virtual ~UpdateStore() = default;
  virtual void enter(Phase) {}
  /// Threads: any, each with keys of its own.
  virtual void put(std::uint64_t key, std::string_view value) = 0;
  virtual void erase(std::uint64_t key) = 0;
  /// The record, or an empty string.
  virtual std::string get(std::uint64_t key) = 0;
  /// Time in syncs to a block device so far, emulated or not; 0 of a store that has none.
  virtual double device_ns() const { return 0; }
  /// Updates that were begun again because they met others, so far.
  virtual std::uint64_t retries() const { return 0; }
};

struct StoreOptions {
  std::string dir;
  EmulatedMemory memory;
  std::uint64_t value_bytes = 8;
  unsigned threads = 1;
  const RamDisk* device = nullptr;  // below a peer's files; null: PcmDisk alone, above tmpfs
  papers::LabOptions pool;          // of our stores: what differs from new_pool_options()
};

/// Emulated persistent memory in tmpfs, for every pool of the evaluation. All that is written goes through the log, as in
/// the papers.
papers::LabOptions new_pool_options(const EmulatedMemory& memory);

/// Our hash_map. Errors: those of Pool::create, thrown.
std::unique_ptr<UpdateStore> make_hash_table(const StoreOptions& options);
/// What one insert changes in persistent memory, logs left out.
struct Touched {
  double words = 0;
  double lines = 0;
};
/// The mean of some hundred inserts of `options.value_bytes` into our hash_map of `live` records,
/// with as many deletes between them.
Touched touched_by_inserts(const StoreOptions& options, std::uint64_t live, std::uint64_t seed);
/// Our btree_map, with values of 64 or 1024 bytes. Errors: kInvalid for others.
std::unique_ptr<UpdateStore> make_tree(const StoreOptions& options);

// ---- red-black trees (Table 5) --------------------------------------------------------------------

/// Makes a node of our tree 128 bytes: two links, the colour, the key, and this.
struct TreeValue {
  std::array<std::uint64_t, 12> words;
  friend bool operator==(const TreeValue&, const TreeValue&) = default;
};
using VolatileTree = std::map<std::uint64_t, TreeValue>;

// ---- peers --------------------------------------------------------------------------------------

/// What was compiled in; null where a peer was not.
struct Peers {
  using MakeStore = std::unique_ptr<UpdateStore> (*)(const StoreOptions&);
  MakeStore berkeley_db = nullptr;    // a hash table
  MakeStore tokyo_cabinet = nullptr;  // a B+ tree
  /// Writes the tree into a file and returns its size. `load` reads it back.
  std::uint64_t (*serialize)(const VolatileTree& tree, const std::string& path) = nullptr;
  VolatileTree (*load)(const std::string& path) = nullptr;
};
Peers& peers();

/// What a peer's files lie on: a device in memory with a file system, else tmpfs.
struct PeerDisk {
  std::unique_ptr<RamDisk> device;  // null: there is none
  std::string said;                 // a sentence for a section's method
};
PeerDisk make_peer_disk(const std::string& dir);

}  // namespace perdure::bench::reproduce
