// SPDX-License-Identifier: BSD-3-Clause
// DatabaseFile: a file in a pool that changes only from one commit to the next. It knows nothing of SQLite.
//
// What is written stands in DRAM, block by block, until commit() makes all of it, and the new size, durable in one
// transaction. Reads see what was written. The protocol of a commit:
//   1. what lies beyond the committed end, when it is much, goes into chunks by relaxed transactions of kFreshBytes each
//      crash here => the size is the old one: nobody reads there. The chunks are in the table, and hold the next growth
//   2. one transaction writes the words in which the other blocks differ from the pool, adds or frees chunks, sets the size
//      crash here => either none of it is there, or all
// Step 1 is an optimisation: it bounds the transaction of an import by the blocks that were there before.
//
// On files a commit need not wait for the device: commit_early() shows it to everybody at once, and who returns it, or what
// was read of it, waits by await() for its mark. Marks grow, and when one is durable, all before it are
// (perdure/engine/durable_horizon.h tells why nothing that was returned is then taken back). Which blocks were changed by
// commits that may not be durable is remembered until they are.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "apps/sqlite/layout.h"
#include "perdure/pool.h"

namespace perdure::sqlite {

/// Names a commit, to wait for it. 0: durable, whenever it was.
using Mark = std::uint64_t;

class DatabaseFile {
 public:
  /// [begin, end)
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  struct Shape {
    std::uint64_t chunk_bytes = kChunkBytes;  // of a new file; a power of two, at least block_bytes
    std::uint64_t block_bytes = kBlockBytes;  // a power of two
    std::uint64_t fresh_bytes = std::uint64_t{1} << 20;
    bool gives_chunks_back = true;  // when it gets shorter
    /// Of the first block: where a change is nothing that anybody waits for.
    std::span<const Range> unawaited = {};
  };

  /// `stored` is an object of `pool`, which must outlive this; zeroed, it is an empty file.
  /// Errors: throws Exception kCorrupt when it breaks its invariants.
  DatabaseFile(Pool& pool, StoredFile* stored, const Shape& shape);
  DatabaseFile(Pool& pool, StoredFile* stored) : DatabaseFile(pool, stored, Shape{}) {}

  /// The size, with what is pending.   Threads: any, as all functions.
  std::uint64_t bytes() const;
  /// Reads what is there of [at, at + bytes) and returns how much that was. `newest`, when given, becomes the mark of the last
  /// commit_early() that has changed any of it, or 0 if that is durable.
  /// Errors: throws Exception kMisuse (after fork).
  std::size_t read(void* to, std::size_t bytes, std::uint64_t at, Mark* newest = nullptr) const;
  /// Durable: with the next commit(). A gap between the end and `at` is filled with zeros.
  /// Errors:  throws Exception kPoisoned after a commit that the storage failed; std::bad_alloc.
  void write(const void* from, std::size_t bytes, std::uint64_t at);
  /// Sets the size.   Durable and Errors: as write().
  void truncate(std::uint64_t bytes);
  /// Whether there is anything to commit.
  bool pending() const;
  /// Makes all that is pending durable at once. If it is strict, what was committed relaxed before, too.
  /// Errors: throws Exception kNoSpace: nothing has changed, all stays pending; kPoisoned: whether this commit survives is
  ///         known after the pool was opened again, and until then nothing can be written.
  void commit(Durability durability);
  /// As a strict commit, but returns when the others see it.
  /// Durable: when await() of the mark that it returns has returned. Without anything pending, that of the last one.
  /// Errors:  as commit(). Where the log is not shared, as on memory, it is durable on return.
  Mark commit_early();
  /// Returns when the commit of that mark, and all before it, is durable.
  /// Errors: throws Exception kPoisoned: it may be lost; from then on nothing can be written.
  void await(Mark mark);
  /// The mark of the last commit_early(), or 0 if that is durable.
  Mark newest() const;
  /// How many commits there were since it was opened: whoever finds the same number twice has missed none.
  std::uint64_t commits() const { return commits_.load(std::memory_order_acquire); }
  /// Forgets all that is pending.
  void discard();

  /// The objects that the file owns, for checkers: calls visit(object) for each chunk, then as vector::audit().
  /// Returns what is wrong first, if anything.
  template <class Tx, class Visit>
  static std::optional<std::string> audit(Tx& tx, const StoredFile& file, Visit&& visit) {
    if (auto wrong = file.chunks.audit(tx, visit)) return wrong;
    const std::uint64_t room = file.chunks.size(tx) * tx.load(file.chunk_bytes);
    if (tx.load(file.bytes) > tx.load(file.defined) || tx.load(file.defined) > room)
      return "sqlite: the file says " + std::to_string(tx.load(file.bytes)) + " bytes, " +
             std::to_string(tx.load(file.defined)) + " defined, and has room for " +
             std::to_string(room);
    std::optional<std::string> wrong;
    file.chunks.for_each(tx, [&](pptr<std::uint64_t> chunk) {
      if (!detail::room_at(visit, chunk).holds(tx.load(file.chunk_bytes)) && !wrong)
        wrong = "sqlite: the object at byte " + std::to_string(chunk.offset) +
                " is smaller than a chunk of the file";
    });
    return wrong;
  }

 private:
  using Block = std::unique_ptr<std::byte[]>;
  using Blocks = std::map<std::uint64_t, Block>;  // by index; those that differ from the pool
  struct Commit;

  Block& block_for_writing(std::uint64_t index);
  void read_pool(std::byte* to, std::size_t bytes, std::uint64_t at) const;
  void resize(std::uint64_t bytes);
  void refuse_if_failed() const;
  Blocks::const_iterator store_fresh();
  void store(Blocks::const_iterator begin, Blocks::const_iterator end, bool last,
             Durability durability);
  void forget_blocks();
  void commit_locked(Durability durability);
  void add_changed(std::uint64_t index, const std::uint64_t* wanted, std::uint64_t* present);
  void note_changes(Mark mark);
  void forget_durable_changes();
  Mark newest_change(std::uint64_t bytes, std::uint64_t at) const;
  Mark unless_durable(Mark mark) const {
    return mark > durable_.load(std::memory_order_acquire) ? mark : 0;
  }
  std::uint64_t blocks_in(std::uint64_t bytes) const {
    return (bytes + shape_.block_bytes - 1) / shape_.block_bytes;
  }

  Pool* pool_;
  Shape shape_;
  StoredFile* stored_;
  /// SQLite's locks keep readers and a writer apart, but not all reads come under a lock: sqlite3_open() looks at the
  /// header without one.
  mutable std::shared_mutex mutex_;
  std::vector<std::uint64_t*> chunks_;  // as in the pool
  std::uint64_t committed_ = 0;         // the size in the pool
  std::uint64_t defined_ = 0;
  std::uint64_t bytes_ = 0;      // the size with what is pending
  std::uint64_t from_pool_ = 0;  // below it, a block that is not pending is read from the pool
  Blocks blocks_;
  std::vector<Block> spare_;  // memory of blocks, to be used again
  std::atomic<bool> failed_ = false;
  std::atomic<std::uint64_t> commits_ = 0;

  // What commit_early() has made visible, until it is durable. Under mutex_, but for durable_.
  struct Changes {
    Mark mark;
    std::vector<std::uint64_t> blocks;
  };
  /// A commit of more blocks counts as a change of all.
  static constexpr std::size_t kMostChanges = 4096;
  std::vector<std::uint64_t> changed_;                   // blocks, by the commit that is under way
  std::deque<Changes> changes_;                          // the oldest first
  std::unordered_map<std::uint64_t, Mark> last_change_;  // of a block
  Mark all_changed_ = 0;
  Mark newest_ = 0;
  std::atomic<Mark> durable_ = 0;  // and all before it
};

}  // namespace perdure::sqlite
