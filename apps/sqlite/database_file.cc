// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/database_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <utility>

#include "perdure/api/pool_core.h"

namespace perdure::sqlite {
namespace {

constexpr std::size_t kSpareBlocks = 256;

/// Words of a block that differ from the pool.
struct Change {
  std::uint64_t* home;
  const std::uint64_t* wanted;
  std::size_t words;
};

/// Appends the changes that make `wanted` of `present`, which is what stands at `home`.
void add_changes(std::vector<Change>& changes, std::uint64_t* home, const std::uint64_t* wanted,
                 const std::uint64_t* present, std::size_t words) {
  for (std::size_t at = 0; at < words;) {
    if (wanted[at] == present[at]) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    while (end < words && wanted[end] != present[end]) ++end;
    changes.push_back({home + at, wanted + at, end - at});
    at = end;
  }
}

}  // namespace

DatabaseFile::DatabaseFile(Pool& pool, StoredFile* stored, const Shape& shape)
    : pool_(&pool), shape_(shape), stored_(stored) {
  pool.read_only([&](auto& tx) {
    chunks_.clear();
    committed_ = tx.load(stored_->bytes);
    defined_ = tx.load(stored_->defined);
    // Zero: the root was made just now, or nothing was ever committed.
    if (const std::uint64_t bytes = tx.load(stored_->chunk_bytes); bytes != 0)
      shape_.chunk_bytes = bytes;
    stored_->chunks.for_each(tx, [&](pptr<std::uint64_t> chunk) {
      chunks_.push_back(tx.at(chunk));
      perdure::detail::check_object(tx, chunks_.back(), shape_.chunk_bytes);
    });
  });
  if (!std::has_single_bit(shape_.chunk_bytes) || shape_.chunk_bytes < shape_.block_bytes ||
      committed_ > defined_ || defined_ > chunks_.size() * shape_.chunk_bytes)
    throw Exception(Code::kCorrupt,
                    pool.path() + ": the database says " + std::to_string(committed_) + " bytes, " +
                        std::to_string(defined_) + " defined, in " +
                        std::to_string(chunks_.size()) + " chunks of " +
                        std::to_string(shape_.chunk_bytes) + "; restore it from a backup");
  bytes_ = from_pool_ = committed_;
}

std::uint64_t DatabaseFile::bytes() const {
  const std::shared_lock lock(mutex_);
  return bytes_;
}

bool DatabaseFile::pending() const {
  const std::shared_lock lock(mutex_);
  return !blocks_.empty() || bytes_ != committed_;
}

/// Requires: the range is below from_pool_.
/// Reads through a transaction: an engine may keep what is committed elsewhere than at home for a while. A plain copy from
/// home would be right with those that store there at the commit, since mutex_ keeps commits out; one thread's 1.4 us for a
/// row whose page SQLite has not cached stay 1.4 us with it.
void DatabaseFile::read_pool(std::byte* to, std::size_t bytes, std::uint64_t at) const {
  pool_->read_only([&](auto& tx) {
    for (std::size_t done = 0; done < bytes;) {
      const std::uint64_t from = at + done;
      const std::uint64_t skip = from % shape_.chunk_bytes;
      const std::size_t here = std::min<std::uint64_t>(bytes - done, shape_.chunk_bytes - skip);
      const auto* chunk = reinterpret_cast<const std::byte*>(chunks_[from / shape_.chunk_bytes]);
      tx.read(to + done, chunk + skip, here);
      done += here;
    }
  });
}

std::size_t DatabaseFile::read(void* to, std::size_t bytes, std::uint64_t at, Mark* newest) const {
  const std::shared_lock lock(mutex_);
  if (newest != nullptr) *newest = newest_change(bytes, at);
  if (at >= bytes_) return 0;
  bytes = std::min<std::uint64_t>(bytes, bytes_ - at);
  auto* out = static_cast<std::byte*>(to);
  if (blocks_.empty()) {
    read_pool(out, bytes, at);
    return bytes;
  }
  for (std::size_t done = 0; done < bytes;) {
    const std::uint64_t index = (at + done) / shape_.block_bytes;
    const std::uint64_t skip = (at + done) % shape_.block_bytes;
    const std::size_t here = std::min<std::uint64_t>(bytes - done, shape_.block_bytes - skip);
    const auto block = blocks_.find(index);
    if (block != blocks_.end()) {
      std::memcpy(out + done, block->second.get() + skip, here);
    } else {
      read_pool(out + done, here, at + done);
    }
    done += here;
  }
  return bytes;
}

DatabaseFile::Block& DatabaseFile::block_for_writing(std::uint64_t index) {
  Block& block = blocks_[index];
  if (block != nullptr) return block;
  try {
    if (spare_.empty()) {
      block = std::make_unique_for_overwrite<std::byte[]>(shape_.block_bytes);
    } else {
      block = std::move(spare_.back());
      spare_.pop_back();
    }
    const std::uint64_t begin = index * shape_.block_bytes;
    const std::size_t known =
        begin >= from_pool_ ? 0 : std::min(from_pool_ - begin, shape_.block_bytes);
    if (known > 0) read_pool(block.get(), known, begin);
    std::memset(block.get() + known, 0, shape_.block_bytes - known);
  } catch (...) {
    blocks_.erase(index);
    throw;
  }
  return block;
}

/// Every block that reaches beyond the old end becomes pending, with zeros there.
void DatabaseFile::resize(std::uint64_t bytes) {
  if (bytes > bytes_) {
    for (std::uint64_t index = bytes_ / shape_.block_bytes; index < blocks_in(bytes); ++index)
      block_for_writing(index);
  } else {
    const std::uint64_t last = bytes / shape_.block_bytes;
    const std::uint64_t rest = bytes % shape_.block_bytes;
    const auto cut = blocks_.find(last);
    if (rest != 0 && cut != blocks_.end())
      std::memset(cut->second.get() + rest, 0, shape_.block_bytes - rest);
    blocks_.erase(blocks_.lower_bound(blocks_in(bytes)), blocks_.end());
    from_pool_ = std::min(from_pool_, bytes);
  }
  bytes_ = bytes;
}

void DatabaseFile::refuse_if_failed() const {
  if (failed_)
    throw Exception(Code::kPoisoned, pool_->path() +
                                         ": the storage failed; close every connection and open "
                                         "the database again");
}

void DatabaseFile::write(const void* from, std::size_t bytes, std::uint64_t at) {
  const std::unique_lock lock(mutex_);
  refuse_if_failed();
  if (at > bytes_) resize(at);
  const auto* in = static_cast<const std::byte*>(from);
  const std::uint64_t end = at + bytes;
  for (std::uint64_t here = at; here < end;) {
    const std::uint64_t skip = here % shape_.block_bytes;
    const std::size_t piece = std::min(end - here, shape_.block_bytes - skip);
    const Block& block = block_for_writing(here / shape_.block_bytes);
    std::memcpy(block.get() + skip, in, piece);
    in += piece;
    here += piece;
    bytes_ = std::max(bytes_, here);
  }
}

void DatabaseFile::truncate(std::uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  refuse_if_failed();
  resize(bytes);
}

void DatabaseFile::forget_blocks() {
  for (auto& [index, block] : blocks_) {
    if (spare_.size() >= kSpareBlocks) break;
    spare_.push_back(std::move(block));
  }
  blocks_.clear();
}

void DatabaseFile::discard() {
  const std::unique_lock lock(mutex_);
  forget_blocks();
  bytes_ = from_pool_ = committed_;
}

/// One transaction: the blocks of a range, and if it is the last of a commit, the size.
void DatabaseFile::store(Blocks::const_iterator begin, Blocks::const_iterator end, bool last,
                         Durability durability) {
  const std::size_t words = shape_.block_bytes / sizeof(std::uint64_t);
  const std::uint64_t reach = begin == end ? 0 : (std::prev(end)->first + 1) * shape_.block_bytes;
  const std::uint64_t room =
      last ? blocks_in(bytes_) * shape_.block_bytes : std::max(reach, defined_);
  const std::uint64_t least = last && shape_.gives_chunks_back ? 0 : chunks_.size();
  const std::uint64_t chunks =
      std::max((room + shape_.chunk_bytes - 1) / shape_.chunk_bytes, least);
  // What lies in chunks that are freed is not defined when they come back.
  const std::uint64_t defined = std::min(std::max(defined_, room), chunks * shape_.chunk_bytes);
  std::vector<std::uint64_t*> fresh;
  fresh.reserve(chunks > chunks_.size() ? chunks - chunks_.size() : 0);
  std::vector<std::uint64_t> present(words);
  std::vector<Change> changes;
  const std::size_t changed_before = changed_.size();
  const auto within_chunk = [&](std::uint64_t from) {
    return from % shape_.chunk_bytes / sizeof(std::uint64_t);
  };

  pool_->atomically(durability, [&](auto& tx) {
    changes.clear();
    fresh.clear();
    changed_.resize(changed_before);
    // All reads before the first write: as long as a transaction has written nothing, a read is a copy.
    auto at = begin;
    for (; at != end && at->first * shape_.block_bytes < defined_; ++at) {
      const std::uint64_t from = at->first * shape_.block_bytes;
      std::uint64_t* const home = chunks_[from / shape_.chunk_bytes] + within_chunk(from);
      tx.read(present.data(), home, shape_.block_bytes);
      const auto* const wanted = reinterpret_cast<const std::uint64_t*>(at->second.get());
      add_changes(changes, home, wanted, present.data(), words);
      add_changed(at->first, wanted, present.data());
    }
    for (const Change& change : changes)
      tx.write(change.home, change.wanted, change.words * sizeof(std::uint64_t));
    if (tx.load(stored_->chunk_bytes) == 0) tx.store(stored_->chunk_bytes, shape_.chunk_bytes);
    for (std::uint64_t i = chunks_.size(); i < chunks; ++i) {
      fresh.push_back(static_cast<std::uint64_t*>(tx.allocate(shape_.chunk_bytes)));
      stored_->chunks.push_back(tx, tx.link_to(fresh.back()));
    }
    for (std::uint64_t i = chunks; i < chunks_.size(); ++i)
      tx.free(tx.at(stored_->chunks.pop_back(tx)));
    for (; at != end; ++at) {
      const std::uint64_t from = at->first * shape_.block_bytes;
      const std::uint64_t chunk = from / shape_.chunk_bytes;
      std::uint64_t* const home =
          chunk < chunks_.size() ? chunks_[chunk] : fresh[chunk - chunks_.size()];
      tx.write(home + within_chunk(from), at->second.get(), shape_.block_bytes);
      changed_.push_back(at->first);
    }
    if (defined != defined_) tx.store(stored_->defined, defined);
    if (last && bytes_ != committed_) tx.store(stored_->bytes, bytes_);
  });

  if (chunks < chunks_.size()) chunks_.resize(chunks);
  chunks_.insert(chunks_.end(), fresh.begin(),
                 fresh.end());  // may fail only before the commit: reserved
  defined_ = defined;
  if (last) committed_ = bytes_;
}

/// Step 1. Returns the first block that it stored, or the end.
DatabaseFile::Blocks::const_iterator DatabaseFile::store_fresh() {
  const auto first = blocks_.lower_bound(blocks_in(committed_));
  const auto count = static_cast<std::uint64_t>(std::distance(first, blocks_.end()));
  if (count * shape_.block_bytes <= shape_.fresh_bytes) return blocks_.end();
  const std::uint64_t at_once = std::max<std::uint64_t>(1, shape_.fresh_bytes / shape_.block_bytes);
  for (auto begin = first; begin != blocks_.end();) {
    auto end = begin;
    for (std::uint64_t i = 0; i < at_once && end != blocks_.end(); ++i) ++end;
    store(begin, end, false, Durability::kRelaxed);
    begin = end;
  }
  return first;
}

void DatabaseFile::commit_locked(Durability durability) {
  refuse_if_failed();
  changed_.clear();
  try {
    if (blocks_.empty() && bytes_ == committed_) {
      if (durability == Durability::kStrict) pool_->sync();
      return;
    }
    chunks_.reserve(blocks_in(bytes_) * shape_.block_bytes / shape_.chunk_bytes + 1);
    store(blocks_.begin(), store_fresh(), true, durability);
    // A transaction that changed nothing is durable at once, whatever was relaxed before it.
    if (durability == Durability::kStrict) pool_->sync();
  } catch (const Exception& exception) {
    if (exception.code() == Code::kPoisoned) failed_ = true;
    throw;
  }
  commits_.fetch_add(1, std::memory_order_release);
  forget_blocks();
  from_pool_ = committed_;
}

void DatabaseFile::commit(Durability durability) {
  const std::unique_lock lock(mutex_);
  commit_locked(durability);
}

// ---- commits that are seen before they are durable ------------------------------------------------

Mark DatabaseFile::commit_early() {
  const std::unique_lock lock(mutex_);
  if (pool_->domain() != DomainKind::kSync) {
    commit_locked(Durability::kStrict);
    return 0;
  }
  const bool any = !blocks_.empty() || bytes_ != committed_;
  if (any) {
    commit_locked(Durability::kRelaxed);
    // The transaction's, or if it found nothing to change, one that was there before.
    note_changes(std::max(newest_, core_of(*pool_).context().tx.last_timestamp()));
  } else {
    refuse_if_failed();
  }
  return unless_durable(newest_);
}

/// Requires: `present` is not needed any more.
void DatabaseFile::add_changed(std::uint64_t index, const std::uint64_t* wanted,
                               std::uint64_t* present) {
  if (index == 0) {
    for (const Range& range : shape_.unawaited)
      std::memcpy(reinterpret_cast<std::byte*>(present) + range.begin,
                  reinterpret_cast<const std::byte*>(wanted) + range.begin,
                  range.end - range.begin);
  }
  if (std::memcmp(present, wanted, shape_.block_bytes) != 0) changed_.push_back(index);
}

/// Notes what the commit of that mark has changed. It stands, whatever happens here.
void DatabaseFile::note_changes(Mark mark) {
  newest_ = mark;
  forget_durable_changes();
  try {
    if (changed_.size() > kMostChanges) throw std::bad_alloc();
    changes_.push_back({mark, std::move(changed_)});
    for (const std::uint64_t index : changes_.back().blocks) last_change_[index] = mark;
  } catch (const std::bad_alloc&) {
    all_changed_ = mark;
  }
}

void DatabaseFile::forget_durable_changes() {
  while (!changes_.empty() && unless_durable(changes_.front().mark) == 0) {
    for (const std::uint64_t index : changes_.front().blocks) {
      const auto last = last_change_.find(index);
      if (last != last_change_.end() && last->second == changes_.front().mark)
        last_change_.erase(last);
    }
    changes_.pop_front();
  }
}

/// Requires: mutex_ held, shared at least.
Mark DatabaseFile::newest_change(std::uint64_t bytes, std::uint64_t at) const {
  if (unless_durable(newest_) == 0) return 0;
  for (const Range& range : shape_.unawaited) {
    if (at >= range.begin && at + bytes <= range.end) return 0;
  }
  // What is not there may have been there, and be there again after a crash.
  if (at + bytes > bytes_) return newest_;
  Mark newest = all_changed_;
  for (std::uint64_t index = at / shape_.block_bytes; index * shape_.block_bytes < at + bytes;
       ++index) {
    const auto last = last_change_.find(index);
    if (last != last_change_.end()) newest = std::max(newest, last->second);
  }
  return unless_durable(newest);
}

Mark DatabaseFile::newest() const {
  const std::shared_lock lock(mutex_);
  return unless_durable(newest_);
}

void DatabaseFile::await(Mark mark) {
  if (unless_durable(mark) == 0) return;
  try {
    core_of(*pool_).engine().persist(mark);
  } catch (const Exception& exception) {
    if (exception.code() == Code::kPoisoned) failed_ = true;
    throw;
  }
  Mark durable = durable_.load(std::memory_order_relaxed);
  // Release: as the engine's own timestamp, which was acquired just now.
  while (durable < mark && !durable_.compare_exchange_weak(durable, mark, std::memory_order_release,
                                                           std::memory_order_relaxed)) {
  }
}

}  // namespace perdure::sqlite
