// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/transaction.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "perdure/base/check.h"
#include "perdure/base/waiting.h"
#include "perdure/domain/primitives.h"
#include "perdure/engine/bulk_writes.h"
#include "perdure/engine/engine.h"
#include "perdure/heap/heap.h"
#include "perdure/region/region.h"

namespace perdure {
namespace {

/// New objects from so many bytes on, and the first of a transaction, are written past the cache.
/// The lines of others are flushed at the commit: a locked instruction, as the next ownership
/// record's, waits for writes past the cache.
constexpr std::uint64_t kStreamedBytes = 1024;

/// How far links of a pool may lead; in an address space also into regions beyond the heap.
std::uint64_t links_end(const TxWorld& world) {
  const bool is_space = world.range_bytes != ~std::uint64_t{0};
  return (is_space ? world.range_bytes : world.heap_end->load(std::memory_order_acquire)) /
         kWordBytes;
}

}  // namespace

Tx::Tx(const TxWorld& world, std::size_t slot)
    : world_(&world),
      base_(world.base),
      links_end_(links_end(world)),
      biased_locking_(world.biased_locking),
      has_slot_(slot != kNoSlot),
      may_be_plain_(world.biased_locking != nullptr),
      plain_begin_(reinterpret_cast<std::uintptr_t>(world.base) + world.heap_begin),
      bulk_(new BulkWrites),
      heap_cache_(new HeapCache),
      slot_(slot),
      thread_(__builtin_thread_pointer()) {}
Tx::~Tx() {
  delete heap_cache_;
  delete bulk_;
}

std::size_t Tx::take_slot_away() {
  if (!has_slot() || active()) return kNoSlot;
  has_slot_.store(false, std::memory_order_relaxed);
  // From here on a thread that begins an update sees that it has no slot.
  barrier_everywhere();
  // Acquire: what that thread has done to the slot is seen by the one that gets it.
  if (!active_.load(std::memory_order_acquire)) return slot_;
  has_slot_.store(true, std::memory_order_relaxed);
  return kNoSlot;
}

bool Tx::storable_elsewhere(Offset at) const {
  const Superblock& super = world_->region->superblock();
  return at >= world_->range_bytes || world_->region->in_part(at, kWordBytes) ||
         inside(at, kWordBytes, super.root_offset, roots_of(super).end()) ||
         inside(at, kWordBytes, super.heap_offset, world_->region->grown_bytes());
}

void Tx::refuse_use() const {
  if (active())
    throw Exception(Code::kMisuse,
                    "a transaction is used by a thread that has not begun it; each thread runs its "
                    "own: call atomically() there");
  throw Exception(Code::kMisuse,
                  "a transaction is used after its end; keep no reference to it, call atomically() "
                  "again");
}

void Tx::look_at_link(Offset to, std::uint64_t words) const {
  links_end_ = links_end(*world_);
  if (std::rotr(to, 3) <= links_end_ - words) return;
  throw Exception(
      Code::kCorrupt,
      world_->region->path() + ": a link leads to byte " + std::to_string(to) +
          (to % kWordBytes != 0 ? ", where no object begins" : ", outside of the pool") +
          "; `perdure check` says more, `perdure salvage` saves the rest");
}

void Tx::look_at_bytes(Offset from, std::uint64_t bytes) const {
  links_end_ = links_end(*world_);
  if (bytes <= links_end_ * kWordBytes - from) return;
  throw Exception(Code::kCorrupt,
                  world_->region->path() + ": what begins at byte " + std::to_string(from) +
                      " says to have " + std::to_string(bytes) +
                      " bytes, more than the pool has from there on; `perdure check` says more, "
                      "`perdure salvage` saves the rest");
}

void Tx::check_object(const void* object, std::uint64_t bytes) {
  const Offset at = offset_of(object);
  if (world_->heap->fits(at, bytes)) [[likely]]
    return;
  if (stale()) conflict();  // it was freed meanwhile
  throw Exception(Code::kCorrupt,
                  world_->region->path() + ": the object at byte " + std::to_string(at) +
                      " says to have " + std::to_string(bytes) +
                      " bytes, for which it was not allocated; `perdure check` says more, "
                      "`perdure salvage` saves the rest");
}

void Tx::refuse_store() const {
  if (read_only_)
    throw Exception(Code::kMisuse, "a store in a read_only() transaction; use atomically()");
  throw Exception(
      Code::kMisuse,
      "a store to an address outside the pool; transactions store to persistent objects");
}

std::size_t Tx::usable_bytes(const void* object) {
  const auto bytes = ask_heap([&] { return world_->heap->usable_bytes(offset_of(object)); });
  if (stale()) conflict();  // the answer is about now, the transaction about its snapshot
  return bytes;
}

void Tx::publish_for_caller(Offset reserved) {
  PERDURE_CHECK(allocated_.size() == callers_, "the caller's objects come first");
  if (allocated_.insert(world_->heap->describe(reserved))) ++callers_;
}

void Tx::begin_specially() {
  limit_plain_reads();
  if (always_apart_) began();
  if (announcing_) announced_.store(snapshot_, std::memory_order_release);
}

Word* Tx::word_in_bulk(Offset at) {
  return has_bulk_ && at < world_->range_bytes ? bulk_->find(at) : nullptr;
}

Word Tx::owned_word_apart(Offset at) {
  if (const Word* const word = word_in_bulk(at)) return *word;
  const MaskedWrite* mine = set_of(at).find(at);
  if (mine == nullptr) return committed_word(at);
  const Word value = at < world_->range_bytes ? own_value(*mine) : mine->value;
  if (mine->mask == kWholeWord) return value;
  return (committed_word(at) & ~mine->mask) | (value & mine->mask);
}

void Tx::put_apart(Offset at, Word value, Word mask) {
  if (Word* const word = word_in_bulk(at)) {
    *word = (*word & ~mask) | (value & mask);
    return;
  }
  if (!put_in_place(at, value, mask)) writes_.put(at, value, mask);
}

Tx::InPlace* Tx::in_place_at(Offset at) {
  for (std::size_t i = in_place_.size(); i > in_place_from_; --i) {
    InPlace& object = in_place_[i - 1];
    if (at - object.begin < object.bytes) return &object;
  }
  return nullptr;
}

bool Tx::put_in_place(Offset at, Word value, Word mask) {
  InPlace* const object = in_place_at(at);
  if (object == nullptr) return false;
  if (mask == kWholeWord) {
    home_stores_->store(home(at), value);
  } else {
    home_stores_->merge(home(at), value, mask);
  }
  object->low = std::min(object->low, at);
  object->high = std::max(object->high, at + kWordBytes);
  return true;
}

std::size_t Tx::stream_in_place(Offset at, const char* from, std::size_t bytes) {
  if (at % kLineBytes != 0) return 0;
  InPlace* const object = in_place_at(at);
  if (object == nullptr) return 0;
  std::array<Word, 8 * kLineBytes / kWordBytes> words;
  bytes = std::min({bytes, object->begin + object->bytes - at, sizeof(words)});
  bytes = round_down(bytes, kLineBytes);
  if (bytes == 0) return 0;
  for (std::size_t line = 0; line < bytes; line += kLineBytes) own(at + line);
  std::memcpy(words.data(), from, bytes);
  const std::size_t count = bytes / kWordBytes;
  if (object == &in_place_.front() || object->bytes >= kStreamedBytes) {
    home_stores_->write_through(home(at), words.data(), count, Site::kInPlace);
    object->streamed = true;
    return bytes;
  }
  for (std::size_t i = 0; i < count; ++i) home_stores_->store(home(at) + i, words[i]);
  object->low = std::min(object->low, at);
  object->high = std::max(object->high, at + bytes);
  return bytes;
}

std::size_t Tx::write_in_bulk(Offset at, const char* from, std::size_t bytes) {
  require_use();
  bytes = round_down(bytes, kWordBytes);
  // A savepoint does not know of them.
  if (at % kWordBytes != 0 || read_only_ || announcing_ || in_place_at(at) != nullptr ||
      !inside(at, bytes, world_->heap_begin, world_->heap_end->load(std::memory_order_relaxed)))
    return 0;
  if (!lazy_) {
    for (Offset line = at; line < at + bytes; line = round_down(line, kLineBytes) + kLineBytes)
      own(line);
  }
  if (!has_bulk_) {
    Word first = 0;
    std::memcpy(&first, from, sizeof(first));
    writes_.put(at, first);
    writes_.say_may_hold_all();
    has_bulk_ = apart_ = true;
    plain_span_ = 0;
  }
  bulk_->put(at, from, bytes / kWordBytes);
  return bytes;
}

void Tx::own_writes() {
  const LockTable& table = *world_->locks;
  const std::uint64_t mine = me();
  // First: locked instructions wait for one miss after the other.
  for (const MaskedWrite& write : writes_.writes()) __builtin_prefetch(&table.of(write.offset), 1);
  locks_.reserve(locks_.size() + writes_.size());
  for (const MaskedWrite& write : writes_.writes()) {
    LockTable::Orec& orec = table.of(write.offset);
    std::uint64_t before = orec.load(std::memory_order_acquire);
    if (before == mine) continue;
    locks_.push_in_room({&orec, before});
    if (LockTable::is_unlocked_up_to(before, snapshot_) &&
        orec.compare_exchange_strong(before, mine, std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) [[likely]]
      continue;
    locks_.pop_back();
    own(write.offset);
  }
  if (!has_bulk_) return;
  for (const BulkWrites::Run& run : bulk_->runs()) {
    for (Offset at = run.begin; at < run.end(); at = round_down(at, kLineBytes) + kLineBytes)
      own(at);
  }
}

void Tx::await_owner(const LockTable::Orec& orec) {
  // Two that wait for each other both come to the end of their patience.
  const auto free = [&] { return !LockTable::locked(orec.load(std::memory_order_relaxed)); };
  for (int paused = 0; paused < kBriefPauses; ++paused) {
    if (free()) return;
    pause_briefly();
  }
  // On memory the owner would be done by now. And whoever sleeps with locks makes others sleep.
  if (horizon_ == nullptr || !locks_.empty()) conflict();
  // The owner is not running, or waits for the log latch. It is not woken by yielding: beside other
  // programs' threads a yield may last for milliseconds.
  constexpr int kSleeps = 10;
  for (int slept = 0; slept < kSleeps; ++slept) {
    sleep_briefly();
    if (free()) return;
  }
  conflict();
}

void Tx::limit_plain_reads() {
  plain_until_ = looks_apart_ ? 0 : snapshot_;
  if (horizon_ != nullptr) plain_until_ = std::min(plain_until_, horizon_->durable());
}

/// Moves the snapshot to now if nothing that was read has changed; ends the attempt otherwise.
void Tx::extend() {
  if (!tracked_) conflict();
  const std::uint64_t now = world_->clock->now();
  if (!validate()) conflict();
  snapshot_ = now;
  limit_plain_reads();
  if (announcing_) announced_.store(now, std::memory_order_release);
}

bool Tx::validate() const {
  for (const Read& read : reads_) {
    const std::uint64_t current = read.orec->load(std::memory_order_acquire);
    // Owned by this transaction: it was locked at a version within the snapshot, so it has not
    // changed since the read.
    if (current != read.seen && current != me()) return false;
  }
  return true;
}

template <class WordAt>
void Tx::copy_words(char* to, Offset from, std::size_t bytes, WordAt word_at) {
  while (bytes > 0) {
    const Offset at = round_down(from, kWordBytes);
    const std::size_t skip = from - at;
    const std::size_t here = std::min(bytes, kWordBytes - skip);
    const Word word = word_at(at);
    std::memcpy(to, reinterpret_cast<const char*>(&word) + skip, here);
    to += here;
    from += here;
    bytes -= here;
  }
}

void Tx::read_by_lines(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<char*>(to);
  for (Offset offset = offset_of(from); bytes > 0;) {
    const std::size_t here = std::min(bytes, kLineBytes - offset % kLineBytes);
    validated(offset, [&](Source source) {
      if (source == Source::kHome) {
        copy_in_doubt(out, base_ + offset, here);
      } else {
        copy_words(out, offset, here, [&](Offset at) { return word_from(source, at); });
      }
      return Word{0};
    });
    out += here;
    offset += here;
    bytes -= here;
  }
}

Word Tx::load_among_others(Offset at) {
  if (among_others_ && !writes_.may_hold(at)) [[likely]] {
    // As validated() does, for what nearly every load meets: the word is at home, and no newer than
    // the snapshot.
    LockTable::Orec& orec = world_->locks->of(at);
    const std::uint64_t before = orec.load(std::memory_order_acquire);
    const Word value = load_word(home(at));
    if (LockTable::is_unlocked_up_to(before, plain_until_) &&
        orec.load(std::memory_order_relaxed) == before && (!tracked_ || reads_.has_room()))
        [[likely]] {
      if (tracked_ && (reads_.empty() || reads_.back().orec != &orec))
        reads_.push_in_room({&orec, before});
      return value;
    }
  }
  return load_in_doubt(at);
}
Word Tx::load_in_doubt(Offset at) {
  return validated(at, [&](Source source) { return word_from(source, at); });
}

void Tx::store_word(Offset at, Word value) {
  if (at % kWordBytes != 0) [[unlikely]]  // a damaged link leads there
    return store_part(at, &value, kWordBytes - at % kWordBytes);
  lock_for_word(at);
  put(at, value);
}

void Tx::store_part(Offset offset, const void* value, std::size_t bytes) {
  const Offset at = round_down(offset, kWordBytes);
  lock(at);
  Word word = bytes < kWordBytes ? owned_word(at) : 0;
  std::memcpy(reinterpret_cast<char*>(&word) + offset % kWordBytes, value, bytes);
  put(at, word);
}

void Tx::write(void* to, const void* from, std::size_t bytes) {
  const auto* in = static_cast<const char*>(from);
  Offset offset = offset_of(to);
  while (bytes > 0) {
    if (!in_place_.empty() && bytes >= kLineBytes) {
      if (const std::size_t taken = stream_in_place(offset, in, bytes); taken > 0) {
        in += taken;
        offset += taken;
        bytes -= taken;
        continue;
      }
    }
    if (bytes >= bulk_bytes_) {
      const std::size_t taken = write_in_bulk(offset, in, bytes);
      in += taken;
      offset += taken;
      bytes -= taken;
      if (bytes == 0) return;
    }
    const Offset at = round_down(offset, kWordBytes);
    const std::size_t skip = offset - at;
    const std::size_t here = std::min(bytes, kWordBytes - skip);
    Word word = 0;
    if (here == kWordBytes) {
      lock_for_word(at);
    } else {
      lock(at);
      word = owned_word(at);
    }
    std::memcpy(reinterpret_cast<char*>(&word) + skip, in, here);
    put(at, word);
    in += here;
    offset += here;
    bytes -= here;
  }
}

void Tx::read_exact(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<char*>(to);
  Offset offset = offset_of(from);
  while (bytes > 0) {
    const std::size_t here = std::min(bytes, kWordBytes - offset % kWordBytes);
    const Word piece = load_piece(offset, here);
    std::memcpy(out, &piece, here);
    out += here;
    offset += here;
    bytes -= here;
  }
}

void Tx::write_exact(void* to, const void* from, std::size_t bytes) {
  const auto* in = static_cast<const char*>(from);
  Offset offset = offset_of(to);
  while (bytes > 0) {
    const std::size_t here = std::min(bytes, kWordBytes - offset % kWordBytes);
    Word piece = 0;
    std::memcpy(&piece, in, here);
    store_piece(offset, piece, here);
    in += here;
    offset += here;
    bytes -= here;
  }
}

HeapObject Tx::reserve_object(std::uint64_t bytes) {
  for (;;) {
    if (const HeapObject object = world_->heap->reserve(*heap_cache_, bytes); object.offset != 0)
      return object;
    Heap::Change change(*world_->heap, *heap_cache_, bytes);
    while (change.next()) {
      if (change.outdated.bytes != 0) outdate(change.outdated.begin, change.outdated.bytes);
      if (!change.writes.empty()) world_->engine->publish(change.writes, slot_);
      if (change.segments != 0) grow(change.segments, change.least_segments);
    }
  }
}

void Tx::grow(std::uint64_t segments, std::uint64_t least) {
  const Word fresh = heap_layout::segment_word(heap_layout::SegmentKind::kFree);
  auto grown = world_->engine->grow(segments, fresh);
  if (!grown && grown.error().code == Code::kNoSpace && segments > least)
    grown = world_->engine->grow(least, fresh);
  grown.value();
}

void* Tx::allocate(std::size_t bytes) {
  require_use();
  if (read_only_)
    throw Exception(Code::kMisuse, "an allocation in a read_only() transaction; use atomically()");
  const HeapObject object = reserve_object(bytes);
  try {
    allocated_.insert(object);
  } catch (...) {
    world_->heap->release(object, *heap_cache_);
    throw;
  }
  if (home_stores_ != nullptr && bytes >= in_place_bytes_ && initialises_in_place()) {
    // Whoever still reads what was there before came after this transaction began alone, and so did
    // who freed it. Then the stores need ownership records.
    if (alone_ && !still_alone()) conflict();
    in_place_.push_back({object.offset, round_up(bytes, kWordBytes)});
    apart_ = true;
    plain_span_ = 0;
    // One that is looked for among many costs more than its log.
    constexpr std::size_t kAtATime = 8;
    if (in_place_.size() > in_place_from_ + kAtATime) ++in_place_from_;
  }
  return base_ + object.offset;
}

void Tx::free(void* object) {
  if (object == nullptr) return;
  require_use();
  if (read_only_)
    throw Exception(Code::kMisuse, "a free in a read_only() transaction; use atomically()");
  const Offset offset = offset_of(object);
  const bool is_new = allocated_.contains(offset);
  // Two transactions that free the same object meet here, whatever else they read and wrote.
  if (!is_new && !alone_ && storable(offset)) own(offset);
  const HeapObject old = ask_heap(
      [&] { return is_new ? world_->heap->describe(offset) : world_->heap->check_live(offset); });
  if (!freed_.insert(old))
    throw Exception(Code::kMisuse, "double free: the object at offset " + std::to_string(offset) +
                                       " was freed by this transaction already; nothing was freed");
}

void Tx::outdate(Offset begin, std::uint64_t bytes) {
  // A timestamp is drawn even when running alone: the contents of a pool's file do not depend on
  // other threads.
  const std::uint64_t version = world_->clock->draw().timestamp;
  if (alone_) {  // nobody reads what was there before; who begins later finds it free
    if (!still_alone()) conflict();
    return;
  }
  if (biased_locking_ != nullptr) biased_locking_->end_unless(place_);
  std::vector<Read> outdated;  // what this gave a new version, and the old one
  bool shares_with_itself = false;
  for (Offset line = round_down(begin, kLineBytes); line < begin + bytes; line += kLineBytes) {
    LockTable::Orec& orec = world_->locks->of(line);
    for (int waited = 0;; ++waited) {
      std::uint64_t current = orec.load(std::memory_order_acquire);
      if (current == me()) {
        // Another line of this transaction shares the orec: readers conflict until it ends.
        shares_with_itself = true;
        break;
      }
      if (LockTable::locked(current)) {
        // The wait is bounded: the owner may wait for a lock that the caller holds.
        if (waited > 1000) conflict();
        give_way();
      } else if (LockTable::version(current) >= version) {
        break;
      } else if (orec.compare_exchange_weak(current, LockTable::unlocked(version),
                                            std::memory_order_acq_rel)) {
        outdated.push_back({&orec, current});
        break;
      }
    }
  }
  // A version that is newer than need be does no harm, and which they are takes long to find out.
  if (shares_with_itself) {
    for (Lock& lock : locks_) lock.before = LockTable::unlocked(version);
  }
  // This transaction's own reads may share an orec with that space: nothing that it read has
  // changed. Without this it would conflict with itself, and with the same space again and again.
  const auto by_orec = [](const Read& a, const Read& b) { return a.orec < b.orec; };
  std::sort(outdated.begin(), outdated.end(), by_orec);
  for (Read& read : reads_) {
    const auto found = std::lower_bound(outdated.begin(), outdated.end(), read, by_orec);
    if (found != outdated.end() && found->orec == read.orec && found->seen == read.seen)
      read.seen = LockTable::unlocked(version);
  }
}

void Tx::collect_heap_writes() {
  if (allocated_.empty() && freed_.empty()) return;
  MaskedWrites& writes = heap_writes();
  for (const HeapObject& object : allocated_) {
    // Allocated and freed in the same transaction: the bitmap does not change.
    if (!freed_.contains(object.offset)) world_->heap->publish_writes(object, writes);
  }
  for (const HeapObject& object : freed_) {
    // Freed by another commit since free() asked: a conflict, not misuse.
    if (!allocated_.contains(object.offset))
      ask_heap([&] { world_->heap->free_writes(object, writes); });
  }
}

Tx::Savepoint Tx::save() {
  PERDURE_CHECK(!has_bulk_, "who saves announces itself");
  expect_savepoint(false);
  Savepoint savepoint{writes_.writes(), volatile_writes_.writes(), allocated_.size(), freed_.size(),
                      in_place_.size()};
  if (apart_) {
    for (MaskedWrite& write : savepoint.writes) write.value = own_value(write);
  }
  in_place_from_ = in_place_.size();  // what they hold now is not kept anywhere else
  return savepoint;
}

void Tx::roll_back_to(const Savepoint& savepoint) {
  expect_savepoint(true);
  writes_.clear();
  for (const MaskedWrite& write : savepoint.writes)
    writes_.put(write.offset, write.value, write.mask);
  volatile_writes_.clear();
  for (const MaskedWrite& write : savepoint.volatile_writes)
    volatile_writes_.put(write.offset, write.value, write.mask);
  std::size_t index = 0;
  for (const HeapObject& object : allocated_) {
    if (index++ >= savepoint.allocated) world_->heap->release(object, *heap_cache_);
  }
  allocated_.shrink(savepoint.allocated);
  in_place_.shrink(savepoint.in_place);
  in_place_from_ = in_place_.size();
  freed_.shrink(savepoint.freed);
}

void Tx::store_volatile() noexcept {
  for (const MaskedWrite& write : volatile_writes_.writes()) {
    auto* word = reinterpret_cast<std::byte*>(home(write.offset));
    for (std::size_t at = 0; at < kWordBytes;) {
      std::size_t end = at;
      while (end < kWordBytes && (write.mask & byte_mask(end, 1)) != 0) ++end;
      if (end > at) store_exact(word + at, write.value >> (8 * at), end - at);
      at = end + 1;
    }
  }
  volatile_writes_.clear();
}

void Tx::make_visible(std::uint64_t timestamp) noexcept {
  if (!volatile_writes_.empty()) store_volatile();
  last_timestamp_ = snapshot_ = timestamp;
  // Whoever has freed something keeps its locks: another transaction that frees the same object and
  // gets its ownership record asks the heap, which must know of it by then.
  if (freed_.empty()) let_go();
}

void Tx::let_go() noexcept {
  for (const HeapObject& object : freed_) world_->heap->release(object, *heap_cache_);
  freed_.clear();
  // Release: whoever sees the new version sees the home stores made under the lock.
  for (const Lock& lock : locks_)
    lock.orec->store(LockTable::unlocked(last_timestamp_), std::memory_order_release);
  locks_.clear();
}

void Tx::finish_all() noexcept {
  let_go();
  reads_.clear();
  end();
}

void Tx::end() noexcept {
  writes_.clear();
  volatile_writes_.clear();
  allocated_.clear();
  callers_ = 0;
  freed_.clear();
  in_place_.clear();
  in_place_from_ = 0;
  if (always_apart_) [[unlikely]]
    ended();
  if (has_bulk_) [[unlikely]] {
    bulk_->clear();
    has_bulk_ = false;
  }
  apart_ = always_apart_;
  stored_apart_ = false;
  seen_ = 0;
  alone_ = among_others_ = plain_ = false;
  plain_span_ = 0;
  place_.end();
  if (announcing_) announced_.store(~std::uint64_t{0}, std::memory_order_release);
  active_.store(false, std::memory_order_release);
}

void Tx::give_back() noexcept { world_->heap->give_back(*heap_cache_); }

void Tx::roll_back() noexcept {
  const bool readable = apart_ && take_back();
  if (!readable || locks_.empty()) {
    for (const Lock& lock : locks_) lock.orec->store(lock.before, std::memory_order_release);
  } else {
    // What was stored in place is another object's memory to a reader who still holds a pointer to
    // that; see outdate(). Or it stood where others read, and is gone again.
    const std::uint64_t version = LockTable::unlocked(world_->clock->draw().timestamp);
    for (const Lock& lock : locks_) lock.orec->store(version, std::memory_order_release);
  }
  std::size_t index = 0;
  for (const HeapObject& object : allocated_) {
    if (index++ >= callers_) world_->heap->release(object, *heap_cache_);
  }
  locks_.clear();
  reads_.clear();
  end();
}

}  // namespace perdure
