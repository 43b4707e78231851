// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/wraps.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "perdure/alias/aliases.h"
#include "perdure/api/pool_core.h"
#include "perdure/base/offset_set.h"
#include "perdure/domain/private_pages.h"
#include "perdure/engine/write_set.h"

namespace perdure {

using Clock = std::chrono::steady_clock;

/// The part of one thread. Only its thread uses it, except `opened`.
struct Wraps::Place {
  explicit Place(std::unique_ptr<CommittedWords> words) : committed(std::move(words)) {}
  alias::Aliases<>::Wrap wrap;
  std::unique_ptr<CommittedWords>
      committed;         // where it finds those that are not home; null: all are
  bool joined = false;   // the wrap is open in the states of the open tables
  bool looking = false;  // and `committed` is entered, for as long as the wrap is open
  unsigned depth = 0;
  WrapOptions options;
  std::optional<Error> failed;  // why it was aborted
  /// What it has stored; where it stored in place, what was there before.
  WriteSet writes;
  OffsetSet pinned;  // pages that hold what it stored in place
  OffsetSet allocated;
  OffsetSet freed;
  std::atomic<Clock::rep> opened{0};  // when; 0: not open
};

struct Wraps::State {
  State(Pool& of, const WrapSettings& with)
      : pool(&of),
        settings(with),
        pages(core_of(of).engine().pages_for_open_words()),
        open(with.open, with.threshold) {}

  // ---- the open tables --------------------------------------------------------------------------

  /// Takes the next step for the table that is not active. Requires: manager is held. Nothing is
  /// ever stored home from these tables.
  void advance() {
    while (open.advance([](const auto&) { return true; })) {
    }
  }
  /// Makes the other table active, if the active one is full and the other empty.
  void take_turns() {
    const std::unique_lock lock(manager, std::try_to_lock);
    if (!lock) return;  // somebody else is at it
    advance();
    if (open.is_full()) (void)open.states().fill();
  }
  bool has_room() const {
    const auto& active = open.active();
    return active.words() < active.limits().words && active.pages() < active.limits().pages;
  }
  /// For a store that has found no room (§IV-B): holds new wraps back until the other table is
  /// empty. False: it does not become so in time.
  bool make_room() {
    const std::lock_guard lock(manager);
    if (has_room()) return true;  // others have waited for it, too
    (void)open.states().hold();
    const auto give_up = Clock::now() + settings.patience;
    bool made = false;
    for (;;) {
      advance();
      made = open.states().fill();
      if (made || Clock::now() >= give_up) break;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    open.states().release();
    return made;
  }
  std::string no_room() {
    Clock::rep oldest = Clock::now().time_since_epoch().count();
    const auto now = oldest;
    const std::lock_guard lock(mutex);
    for (const auto& place : places) {
      if (const auto opened = place->opened.load(std::memory_order_relaxed); opened != 0)
        oldest = std::min(oldest, opened);
    }
    const auto age =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::duration(now - oldest));
    return "what open wraps have stored takes all " + std::to_string(settings.open.words) +
           " words or " + std::to_string(settings.open.pages) +
           " pages of the open table, and the other one is in use as long as wraps of its time are "
           "open (the oldest one for " +
           std::to_string(age.count()) +
           " ms); close wraps sooner, store less in one, or ask for larger tables "
           "(WrapSettings::open)";
  }

  // ---- a wrap -----------------------------------------------------------------------------------

  void join(Place& place) {
    if (place.options.local) locals.fetch_add(1, std::memory_order_relaxed);
    if (!place.options.local && pages == nullptr) {
      open.states().open(place.wrap);
      place.joined = true;
    }
    if (place.committed != nullptr) {
      place.committed->enter();
      place.looking = true;
    }
  }
  void stop_looking(Place& place) {
    if (place.looking) place.committed->leave();
    place.looking = false;
  }
  void leave_tables(Place& place) {
    stop_looking(place);
    if (!place.joined) return;
    open.states().close(place.wrap);
    place.joined = false;
    if (open.is_full()) take_turns();
  }
  /// Undoes what the wrap stored to the word.
  void take_back(Place& place, const MaskedWrite& write) {
    if (in_place(place)) {
      CachedStores::merge(word(write.offset), write.value, write.mask);
    } else if (!place.options.local) {
      open.forget(write.offset, write.mask);
    }
  }
  /// Called after the commit: what the wrap stored stands where the engine has it now.
  void forget_all(Place& place) {
    if (!place.options.local && !in_place(place)) {
      for (const MaskedWrite& write : place.writes.writes()) open.forget(write.offset, write.mask);
    }
    for (const Offset page : place.pinned) pages->unpin(base() + page, 1);
    place.pinned.clear();
    place.writes.clear();
  }
  /// Undoes everything that the wrap did; it is still open.
  void undo(Place& place, Error why) {
    // First: who gets the space next may store there.
    if (in_place(place)) {
      for (const MaskedWrite& write : place.writes.writes()) take_back(place, write);
    }
    forget_all(place);
    for (const Offset object : place.allocated) heap().cancel(object);
    place.allocated.clear();
    place.freed.clear();
    leave_tables(place);
    place.failed = std::move(why);
  }
  void end(Place& place) {
    leave_tables(place);
    if (place.options.local) locals.fetch_sub(1, std::memory_order_relaxed);
    place.options.local = false;
    place.writes.clear();
    place.allocated.clear();
    place.freed.clear();
    place.failed.reset();
    place.depth = 0;
    place.opened.store(0, std::memory_order_relaxed);
  }
  void commit(Place& place) {
    drop_writes_to_freed(place);
    stop_looking(place);  // so that the commit may take home what the engine's tables hold
    pool->atomically(place.options.durability, [&](Tx& tx) {
      for (const Offset object : place.allocated) tx.publish_for_caller(object);
      for (MaskedWrite write : place.writes.writes()) {
        if (in_place(place)) write.value = load_word(word(write.offset));
        tx.store_bytes(write);
      }
      for (const Offset object : place.freed) tx.free(base() + object);
    });
    place.allocated.clear();
    forget_all(place);
  }
  /// Once the commit has freed their space, another thread may own it, and its words in the open
  /// table.
  void drop_writes_to_freed(Place& place) {
    if (place.freed.empty()) return;
    std::vector<std::pair<Offset, Offset>> gone;
    for (const Offset object : place.freed)
      gone.emplace_back(object, object + heap().usable_bytes(object));
    std::sort(gone.begin(), gone.end());
    std::vector<MaskedWrite> kept;
    for (const MaskedWrite& write : place.writes.writes()) {
      auto after = std::upper_bound(gone.begin(), gone.end(), std::pair(write.offset, ~Offset{0}));
      if (after != gone.begin() && write.offset < std::prev(after)->second) {
        take_back(place, write);
      } else {
        kept.push_back(write);
      }
    }
    place.writes.clear();
    for (const MaskedWrite& write : kept) place.writes.put(write.offset, write.value, write.mask);
  }

  // ---- words in place ---------------------------------------------------------------------------

  bool in_place(const Place& place) const { return pages != nullptr && !place.options.local; }
  Word* word(Offset at) const { return core_of(*pool).region().word(at); }

  /// Requires: a pin on a page is one of its wrap, and stays until what it stored is committed or
  ///           taken back.
  void store_in_place(Place& place, const MaskedWrite& write) {
    const Offset page = round_down(write.offset, kPageBytes);
    if (!place.pinned.contains(page)) {
      place.pinned.insert(page);
      pages->pin(base() + page, 1);
      // One fault makes the page private; a load first would be another one.
      CachedStores::merge(word(write.offset), 0, 0);
    }
    const MaskedWrite* known = place.writes.find(write.offset);
    const Word fresh = write.mask & ~(known != nullptr ? known->mask : 0);
    if (fresh != 0) place.writes.put(write.offset, load_word(word(write.offset)), fresh);
    if (write.mask == kWholeWord) {
      CachedStores::store(word(write.offset), write.value);
    } else {
      CachedStores::merge(word(write.offset), write.value, write.mask);
    }
  }
  /// Whether a load is one: nobody's words are anywhere else.
  bool loads_in_place() const {
    return pages != nullptr && locals.load(std::memory_order_relaxed) == 0;
  }
  void load_in_place(void* to, Offset at, std::size_t bytes) const {
    auto* out = static_cast<std::byte*>(to);
    while (bytes > 0) {
      const std::size_t skip = at % kWordBytes;
      const std::size_t here = std::min(bytes, kWordBytes - skip);
      const Word value = load_word(word(at - skip));
      std::memcpy(out, reinterpret_cast<const std::byte*>(&value) + skip, here);
      out += here;
      at += here;
      bytes -= here;
    }
  }

  // ---- words in tables --------------------------------------------------------------------------

  static constexpr std::size_t kAtOnce = 64;
  struct Words {
    std::array<Word, kAtOnce> value;
    std::array<Word, kAtOnce> mask;
  };

  /// `count` words from `at` on, the newest of each.
  void load(Place& place, Offset at, std::size_t count, Words& words) {
    // First what is not committed, then what is: the other way round, what is committed in between
    // would be missed.
    const bool open_ones = !open.empty();
    const bool visit = open_ones && !place.joined;
    if (visit) open.states().open(place.wrap);
    bool whole = true;
    for (std::size_t i = 0; i < count; ++i) {
      const Offset word = at + i * kWordBytes;
      words.value[i] = words.mask[i] = 0;
      if (const MaskedWrite* mine = in_place(place) ? nullptr : place.writes.find(word)) {
        words.mask[i] = mine->mask;
        words.value[i] = mine->value & mine->mask;
      }
      if (open_ones && words.mask[i] != kWholeWord) {
        Word value = 0;
        const Word more = open.peek(word, value) & ~words.mask[i];
        words.value[i] |= value & more;
        words.mask[i] |= more;
      }
      whole = whole && words.mask[i] == kWholeWord;
    }
    if (visit) open.states().close(place.wrap);
    if (whole) return;
    if (count == 1) {
      words.value[0] |= committed_word(place, at) & ~words.mask[0];
      return;
    }
    std::array<Word, kAtOnce> committed;
    pool->read_only([&](Tx& tx) { tx.read(committed.data(), base() + at, count * kWordBytes); });
    for (std::size_t i = 0; i < count; ++i) words.value[i] |= committed[i] & ~words.mask[i];
  }

  /// One word is read in one piece: it needs no transaction.
  Word committed_word(Place& place, Offset at) const {
    const Word* const home = core_of(*pool).region().word(at);
    if (place.committed == nullptr) return load_word(home);
    if (!place.looking) place.committed->enter();
    const Word word = place.committed->load(at, home);
    if (!place.looking) place.committed->leave();
    return word;
  }

  /// Requires: the same bytes are in the wrap's list already.
  void store_open(Offset to, const std::byte* from, std::size_t bytes) {
    while (!try_store_open(to, from, bytes)) {
      if (!make_room()) throw Exception(Code::kNoSpace, no_room());
    }
    if (open.is_full()) take_turns();
  }
  bool try_store_open(Offset to, const std::byte* from, std::size_t bytes) {
    if (bytes >= kShadowBytes) return open.write(to, from, bytes);
    bool stored = true;
    by_words(to, from, bytes, [&](const MaskedWrite& write) {
      stored = stored && open.store(write.offset, write.value, write.mask);
    });
    return stored;
  }
  template <class Visit>
  static void by_words(Offset to, const std::byte* from, std::size_t bytes, Visit visit) {
    while (bytes > 0) {
      const std::size_t skip = to % kWordBytes;
      const std::size_t here = std::min(bytes, kWordBytes - skip);
      Word value = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&value) + skip, from, here);
      visit(MaskedWrite{to - skip, value, byte_mask(skip, here)});
      to += here;
      from += here;
      bytes -= here;
    }
  }

  /// Whether this is a forked child: the wraps and the pool belong to its parent.
  bool forked() const { return pid != ::getpid(); }
  std::byte* base() const { return core_of(*pool).region().base(); }
  Heap& heap() const { return core_of(*pool).heap(); }
  Offset offset_of(const void* address) const {
    return static_cast<Offset>(static_cast<const std::byte*>(address) - base());
  }
  bool may_store(Offset at, std::size_t bytes) const {
    Region& region = core_of(*pool).region();
    return inside(at, bytes, region.superblock().heap_offset, region.grown_bytes());
  }

  Pool* pool;
  const WrapSettings settings;
  PrivatePages* const pages;        // where the engine has any: open words stand in place
  std::atomic<unsigned> locals{0};  // local wraps that are open
  alias::Aliases<> open;            // what open wraps have stored, but for local ones
  std::mutex manager;               // of `open`
  std::mutex mutex;                 // of the next two
  std::vector<std::unique_ptr<Place>> places;
  std::vector<Place*> idle;
  const int pid = ::getpid();
};

/// A thread's places, given back when it ends.
struct Wraps::Leaver {
  struct Entry {
    std::weak_ptr<State> state;
    const State* of;  // as long as `state` lives
    Place* place;
  };
  std::vector<Entry> entries;

  ~Leaver() {
    for (const Entry& entry : entries) {
      const std::shared_ptr<State> state = entry.state.lock();
      if (state == nullptr || state->forked()) continue;
      if (entry.place->depth != 0) {
        state->undo(*entry.place, {Code::kAborted, "its thread ended"});
        state->end(*entry.place);
      }
      const std::lock_guard lock(state->mutex);
      state->idle.push_back(entry.place);
    }
  }
};

Wraps::Wraps(Pool& pool, const WrapSettings& settings) {
  if (core_of(pool).engine().changes_in_place())
    throw Exception(Code::kInvalid,
                    core_of(pool).region().path() +
                        ": wraps read without locks, and the engine undo-objects has what is not "
                        "committed in place; use another engine");
  const alias::AliasLimits& limits = settings.open;
  if (!std::has_single_bit(limits.words) || !std::has_single_bit(limits.pages) ||
      !std::has_single_bit(limits.page_bytes) || limits.page_bytes < 64 || settings.threshold == 0)
    throw Exception(
        Code::kInvalid,
        "wraps: the tables' words, pages and page_bytes must be powers of two, pages of "
        "64 bytes at least, and the threshold not 0");
  state_ = std::make_shared<State>(pool, settings);
}

Wraps::~Wraps() {
  // In a child it is left alone, as the pool is: its threads and locks are the parent's.
  if (state_->forked()) (void)new std::shared_ptr<State>(std::move(state_));
}

Wraps::Place& Wraps::place() const {
  thread_local Leaver mine;
  for (const Leaver::Entry& entry : mine.entries) {
    if (entry.of == state_.get() && !entry.state.expired()) return *entry.place;
  }
  std::erase_if(mine.entries, [](const Leaver::Entry& entry) { return entry.state.expired(); });
  mine.entries.reserve(mine.entries.size() + 1);
  const std::lock_guard lock(state_->mutex);
  Place* found = nullptr;
  if (!state_->idle.empty()) {
    found = state_->idle.back();
    state_->idle.pop_back();
  } else {
    state_->places.push_back(
        std::make_unique<Place>(core_of(*state_->pool).engine().committed_words()));
    found = state_->places.back().get();
    state_->idle.reserve(state_->places.size());  // what a thread gives back needs no memory
    state_->open.states().add(found->wrap);
  }
  mine.entries.push_back({state_, state_.get(), found});
  return *found;
}

Wraps::Place& Wraps::open_place(std::string_view what) const {
  core_of(*state_->pool).refuse_after_fork();
  Place& mine = place();
  if (mine.depth == 0)
    throw Exception(Code::kMisuse, std::string(what) + ": this thread has no wrap open");
  return mine;
}

namespace {

void refuse_in_transaction(Pool& pool, std::string_view what) {
  if (core_of(pool).context().tx.active())
    throw Exception(Code::kMisuse, std::string(what) +
                                       ": inside a transaction of the pool, which would commit "
                                       "later; a wrap cannot be part of it");
}

}  // namespace

void Wraps::open(WrapOptions options) {
  core_of(*state_->pool).refuse_after_fork();
  Place& mine = place();
  if (mine.depth == 0) {
    refuse_in_transaction(*state_->pool, "open");
    mine.options = options;
    mine.opened.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    state_->join(mine);
  }
  ++mine.depth;
}

void Wraps::close() {
  Place& mine = open_place("close");
  if (mine.depth > 1) {
    --mine.depth;
    return;
  }
  refuse_in_transaction(*state_->pool, "close");
  if (mine.failed) {
    const Error why = *mine.failed;
    state_->end(mine);
    throw Exception(why);
  }
  if (!mine.writes.empty() || !mine.allocated.empty() || !mine.freed.empty()) {
    try {
      state_->commit(mine);
    } catch (...) {
      state_->undo(mine, {});
      state_->end(mine);
      throw;
    }
  }
  state_->end(mine);
}

void Wraps::abort() noexcept {
  if (state_->forked()) return;
  Place& mine = place();
  if (mine.depth != 0 && !mine.failed)
    state_->undo(mine, {Code::kAborted, "the wrap was aborted; nothing of it is there"});
}

/// Without a commit.
void Wraps::leave(unsigned depth) noexcept {
  if (state_->forked()) return;
  Place& mine = place();
  mine.depth = depth;
  if (depth == 0) state_->end(mine);
}

unsigned Wraps::depth() const { return place().depth; }
bool Wraps::aborted() const { return place().failed.has_value(); }

void Wraps::read(void* to, const void* from, std::size_t bytes) {
  core_of(*state_->pool).refuse_after_fork();
  const Region& region = core_of(*state_->pool).region();
  Offset at = state_->offset_of(from);
  if (!inside(at, bytes, 0, region.grown_bytes())) {
    std::memcpy(to, from, bytes);
    return;
  }
  if (state_->loads_in_place()) return state_->load_in_place(to, at, bytes);
  Place& mine = place();
  auto* out = static_cast<std::byte*>(to);
  State::Words words;
  while (bytes > 0) {
    const Offset begin = round_down(at, kWordBytes);
    const std::size_t here = std::min(bytes, begin + State::kAtOnce * kWordBytes - at);
    state_->load(mine, begin, (round_up(at + here, kWordBytes) - begin) / kWordBytes, words);
    std::memcpy(out, reinterpret_cast<const std::byte*>(words.value.data()) + (at - begin), here);
    out += here;
    at += here;
    bytes -= here;
  }
}

/// Runs `work` on an open wrap that has not failed; whatever it throws aborts the wrap.
template <class Work>
auto Wraps::in_wrap(std::string_view what, Work work) {
  Place& mine = open_place(what);
  if (mine.failed)
    throw Exception(Code::kMisuse,
                    std::string(what) + ": the wrap was aborted before: " + mine.failed->message);
  try {
    return work(mine);
  } catch (const Exception& error) {
    state_->undo(mine, error.error());
    throw;
  } catch (const std::bad_alloc&) {
    state_->undo(mine, {Code::kNoSpace, "out of memory"});
    throw;
  }
}

void Wraps::write(void* to, const void* from, std::size_t bytes) {
  in_wrap("store", [&](Place& mine) {
    const Offset at = state_->offset_of(to);
    if (!state_->may_store(at, bytes))
      throw Exception(Code::kMisuse,
                      "a store to an address outside the pool's objects; wraps store to what was "
                      "allocated in the pool");
    const auto* in = static_cast<const std::byte*>(from);
    if (state_->in_place(mine))
      return State::by_words(
          at, in, bytes, [&](const MaskedWrite& write) { state_->store_in_place(mine, write); });
    State::by_words(at, in, bytes, [&](const MaskedWrite& write) {
      mine.writes.put(write.offset, write.value, write.mask);
    });
    if (!mine.options.local) state_->store_open(at, in, bytes);
  });
}

void* Wraps::allocate(std::size_t bytes) {
  return in_wrap("allocate", [&](Place& mine) -> void* {
    State& state = *state_;
    refuse_in_transaction(*state.pool, "allocate");
    // In a transaction, because the heap may have to make space that others have read before.
    const Offset object = state.pool->atomically([&](Tx& tx) { return tx.reserve(bytes); });
    try {
      mine.allocated.insert(object);
    } catch (...) {
      state.heap().cancel(object);
      throw;
    }
    return state.base() + object;
  });
}

void Wraps::free(void* object) {
  if (object == nullptr) return;
  in_wrap("free", [&](Place& mine) {
    const Offset at = state_->offset_of(object);
    if (!mine.allocated.contains(at)) state_->heap().check_live(at);
    if (!mine.freed.insert(at))
      throw Exception(Code::kMisuse, "double free: the object at offset " + std::to_string(at) +
                                         " was freed by this wrap already");
  });
}

}  // namespace perdure
