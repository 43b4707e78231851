// SPDX-License-Identifier: BSD-3-Clause
// Handles: how volatile memory keeps objects alive (NV-heaps §3.4, V-to-NV pointers). Their counts
// are in DRAM: they are gone with the process by themselves, which is what the paper's generation
// numbers are for, and cost no persistent write. An object to which only handles lead stands in the
// heap's table of orphans, from which the next open reclaims it if nobody did before.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "perdure/base/words.h"

namespace perdure::detail {

class ObjectCore;
class HandleTable;

/// The state that all handles of one object share.
struct HandleEntry {
  HandleTable* table;
  std::atomic<Offset> object;  // null: it never came to be
  std::atomic<std::uint32_t> count{1};
  bool keeps_orphan = false;  // perhaps nothing else leads there; under the shard's lock
};

/// The handles of one heap; lives until the heap is closed and the last of them has gone. Threads:
/// any.
class HandleTable {
 public:
  explicit HandleTable(ObjectCore& core) : core_(&core) {}
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  /// Null once the heap is closed.
  ObjectCore* core() const { return core_.load(std::memory_order_acquire); }
  /// One more handle on `object`.
  HandleEntry* take(Offset object);
  static void add(HandleEntry& entry) { entry.count.fetch_add(1, std::memory_order_relaxed); }
  /// One less.
  static void drop(HandleEntry* entry) noexcept;
  /// Whether there are any on `object`. If so, the last of them to go sees to its end.
  bool keep_orphan(Offset object);
  /// The object never came to be: its handles lead nowhere.
  void disown(Offset object) noexcept;
  /// Ends `object` if it is an orphan: at once, or when the thread's transaction is over.
  void let_go(Offset object) noexcept;
  /// Counts a user that remembers the table meanwhile.
  void join() { users_.fetch_add(1, std::memory_order_relaxed); }
  void leave() noexcept;
  /// By the heap, at its end. Waits for what other threads let go just now.
  void close() noexcept;

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<Offset, HandleEntry*> entries;
  };
  Shard& shard_of(Offset object) { return shards_[(object >> 4) * 0x9e3779b97f4a7c15u >> 58]; }

  std::atomic<ObjectCore*> core_;
  std::atomic<std::uint32_t> letting_go_{0};  // threads
  std::atomic<std::size_t> users_{1};         // entries, the heap, and who joined
  std::array<Shard, 64> shards_;
};

}  // namespace perdure::detail
