// SPDX-License-Identifier: BSD-3-Clause
// A system under measurement: a store of persistent data that can run every row of the table.
// Perdure is one, and so is each peer; all run the same Workload, row by row, and differ only in
// the store under it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "papers/pool.h"
#include "perdure/domain/counted.h"
#include "perdure/pool.h"

namespace perdure::bench {

enum class Row : std::uint8_t {
  kEmpty,
  kStore1,
  kStore2,
  kStore10,
  kSwap1,
  kSwap4,
  kSwap16,
  kSwap64,
  kAllocate,
  kFree,
  kHash8,
  kHash64,
  kLookUp,
  kChained8,
  kChainedLookUp,
  kTree8,
};

struct RowInfo {
  Row row;
  std::string_view name;
  std::string_view title;
  // 64-byte lines that the densest log known would write for it, under one fence
  unsigned floor_lines;
};

// Floor lines: eight bytes of header, then (32-bit offset, 64-bit value) pairs.
inline constexpr RowInfo kRows[] = {
    {Row::kEmpty, "empty", "empty transaction", 0},
    {Row::kStore1, "store-1", "1 store, random word", 1},
    {Row::kStore2, "store-2", "2 stores, random words", 1},
    {Row::kStore10, "store-10", "10 stores, random words", 2},
    {Row::kSwap1, "swap-1", "SPS: swap 2 random entries of 1M", 1},
    {Row::kSwap4, "swap-4", "4 swaps in one transaction", 2},
    {Row::kSwap16, "swap-16", "16 swaps in one transaction", 7},
    {Row::kSwap64, "swap-64", "64 swaps in one transaction", 25},
    {Row::kAllocate, "allocate", "allocate and link 64 B", 2},
    {Row::kFree, "free", "free and unlink 64 B", 1},
    {Row::kHash8, "hash-8", "hash insert/delete, 8 B values", 1},
    {Row::kHash64, "hash-64", "hash insert/delete, 64 B values", 2},
    {Row::kLookUp, "look-up", "hash look-up, read-only", 0},
    {Row::kChained8, "chained-8", "chained hash insert/delete, one source for all", 1},
    {Row::kChainedLookUp, "chained-look-up", "chained hash look-up, one source for all", 0},
    {Row::kTree8, "tree-8", "red-black tree insert/delete, 8 B", 2},
};

struct Value64 {
  std::array<std::uint64_t, 8> words;
};

/// What every system is set up with. Each thread has structures of its own, because not every peer
/// isolates threads.
struct SystemOptions {
  std::string dir;
  DomainKind domain = DomainKind::kAdr;
  papers::EngineKind engine = papers::EngineKind::kMnemosyne;
  Truncation truncation = Truncation::kAuto;
  bool tornbit_logs = false;
  Durability durability = Durability::kStrict;
  unsigned threads = 1;
  std::uint64_t seed = 1;
  std::uint64_t array_words = std::uint64_t{8} << 20;  // per thread, a power of two
  std::uint64_t swap_words = std::uint64_t{1} << 20;   // the first ones of the array
  std::uint64_t hash_entries = 100'000;                // live, per thread and map or tree
  std::uint64_t slots = 32'768;                        // per thread: objects that "allocate" links
  bool count = false;
};

class System {
 public:
  virtual ~System() = default;
  /// Brings the structures into the state from which `operations` of the row can run. Threads: one
  /// call per thread.
  virtual void prepare(Row row, std::uint64_t operations, unsigned thread) = 0;
  virtual void run(Row row, std::uint64_t operations, unsigned thread) = 0;
  /// What the persistence domain was asked for so far; nothing when the system cannot tell.
  virtual std::optional<DomainCounts> counts() const { return std::nullopt; }
};

std::unique_ptr<System> make_perdure(const SystemOptions& options);
/// The same structures and operations in ordinary memory (PlainTx): what they cost without any
/// atomicity, isolation or durability.
std::unique_ptr<System> make_plain(const SystemOptions& options);

/// A peer that was compiled in. `make` returns null where the peer has no mode that fits the
/// domain.
struct Peer {
  std::string name;
  std::unique_ptr<System> (*make)(const SystemOptions&);
};

/// Filled by the peers' files before main(); empty when none was built.
std::vector<Peer>& peers();

struct RegisterPeer {
  explicit RegisterPeer(Peer peer) { peers().push_back(std::move(peer)); }
};

/// "tmpfs", "ext4" and the like: what a directory is on.
std::string file_system_of(const std::string& dir);

/// A name for a scratch file of this process; the file is removed with the object.
class ScratchFile {
 public:
  ScratchFile(const std::string& dir, std::string_view name);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A new directory, removed with all it holds.
class ScratchDirectory {
 public:
  /// Errors: std::filesystem::filesystem_error.
  ScratchDirectory(const std::string& dir, std::string_view name);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace perdure::bench
