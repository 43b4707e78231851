// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object/core.h"

#include <algorithm>
#include <cstring>

namespace perdure::detail {

using object_layout::Header;
using object_layout::kCountMask;
using object_layout::kDead;
using object_layout::kHeaderBytes;
using object_layout::kOrphan;
using object_layout::kTypeMask;
using object_layout::OrphanTable;
using object_layout::Proxy;
using object_layout::Stripe;

// ---- refusals -----------------------------------------------------------------------------------

Session& session_grown(const void* address, std::size_t bytes) {
  Session* const session = Session::current;
  if (session == nullptr)
    throw Exception(Code::kMisuse,
                    "an object is used outside a transaction; wrap the code in "
                    "heap.atomically([&] { ... })");
  session->bytes = core_of(session->core->pool()).region().grown_bytes();
  if (!session->holds(address, bytes))
    throw Exception(Code::kMisuse,
                    "an object of another heap, or of none, is used in a transaction on " +
                        core_of(session->core->pool()).region().path() +
                        "; nothing was read or written");
  return *session;
}

void refuse_stale() {
  throw Exception(Code::kMisuse,
                  "a local pointer is used outside the transaction in which it was got; keep a "
                  "perdure::handle instead");
}

void refuse_null() { throw Exception(Code::kMisuse, "a null reference is followed"); }

void ObjectCore::refuse_damage(const Session& session, const char* what) {
  throw Exception(Code::kCorrupt, core_of(session.core->pool()).region().path() + ": " + what +
                                      " in an object cannot be; `perdure check` tells more, "
                                      "restore the heap from a backup");
}

void ObjectCore::refuse_index(std::uint64_t index, std::uint64_t size) {
  throw Exception(Code::kInvalid,
                  "element " + std::to_string(index) + " of an array of " + std::to_string(size));
}

void ObjectCore::refuse_nesting() {
  throw Exception(Code::kMisuse,
                  "a transaction on one heap inside one on another: they could not become durable "
                  "together; end the first, or keep the data in one heap");
}

void ObjectCore::refuse_elsewhere() {
  throw Exception(Code::kMisuse,
                  "an object is asked of a heap outside a transaction on it; wrap the code in "
                  "heap.atomically([&] { ... })");
}

void ObjectCore::require_object_now(Session& session, Offset target, std::uint64_t bytes) {
  session.bytes = core_of(*pool_).region().grown_bytes();
  if (target % 16 != 0 || target < first_object_ || target > session.bytes ||
      bytes > session.bytes - target)
    refuse_damage(session, "a reference");
}

// ---- transactions -------------------------------------------------------------------------------

PoolCore::Context& ObjectCore::context_for_session() {
  PoolCore::Context& context = core_of(*pool_).context();
  if (context.tx.active())
    throw Exception(Code::kMisuse,
                    "a transaction on objects inside Pool::atomically on the same pool; begin with "
                    "object_heap::atomically");
  return context;
}

void ObjectCore::begin(Session& session, Tx* tx, std::size_t number) {
  session.tx = tx;
  session.core = this;
  session.base = core_of(*pool_).world().base;
  session.stripe = number % object_layout::kStripes;
}

void ObjectCore::begin_attempt(Session& session) {
  static std::atomic<std::uint64_t> threads{0};
  thread_local std::uint64_t serial = (threads.fetch_add(1, std::memory_order_relaxed) + 1) << 40;
  session.serial = ++serial;
  session.bytes = core_of(*pool_).region().grown_bytes();
  session.unreferenced.clear();
  session.born.clear();
  session.taken.clear();
  session.given.clear();
  session.deaths_left = options_.deaths_at_once;
  session.left_dead = false;
  session.ended = 0;
}

void ObjectCore::take_back(Session& session) noexcept {
  for (const Offset object : session.born) handles_->disown(object);
  session.born.clear();
  give_places(session.taken);
  session.given.clear();
  session.left_dead = false;
  session.ended = 0;
}

void ObjectCore::finish(Session& session) noexcept {
  give_places(session.given);
  if (session.ended != 0) ended_.fetch_add(session.ended, std::memory_order_relaxed);
  try {
    if (session.left_dead) end_dead_list(session.stripe);
  } catch (...) {  // the pool refuses, or is full: the next open goes on
  }
  while (!session.let_go.empty()) {
    const Session::LetGo gone = session.let_go.back();
    session.let_go.pop_back();
    gone.of->let_go(gone.object);
    gone.of->leave();
  }
  if (any_later_.load(std::memory_order_relaxed)) end_earlier_orphans();
}

void ObjectCore::refuse_unless_home_is_all() {
  if (Session::current != nullptr) refuse_nesting();
  if (core_of(*pool_).engine().committed_words() != nullptr ||
      core_of(*pool_).engine().pages_for_open_words() != nullptr)
    throw Exception(Code::kMisuse, "unprotected() on a softwrap engine, whose words are elsewhere");
}

// ---- references ---------------------------------------------------------------------------------

void ObjectCore::add_reference(Session& session, Offset object) {
  Header& header = session.header(object);
  const Word state = session.load(header.state);
  if ((state & kDead) != 0)
    throw Exception(Code::kMisuse, "a reference to an object whose end has begun");
  if ((state & kOrphan) != 0) {
    const std::uint32_t place = object_layout::count_of(state);
    session.given.push_back(place);  // first: of memory it may fail
    session.store(place_at(place), Word{0});
    session.store(header.state, (state & kTypeMask) | 1);
    return;
  }
  if (object_layout::count_of(state) == kCountMask)
    throw Exception(Code::kNoSpace, "an object has 2^32 - 1 references; no more can be counted");
  session.store(header.state, state + 1);
}

void ObjectCore::drop_reference(Session& session, Offset object) {
  require_object(session, object, 0);
  Header& header = session.header(object);
  const Word state = session.load(header.state);
  if (object_layout::count_of(state) == 0 || (state & (kOrphan | kDead)) != 0)
    refuse_damage(session, "a reference count");
  if (object_layout::count_of(state) == 1) session.unreferenced.push_back(object);
  session.store(header.state, state - 1);
}

void ObjectCore::assign_weak(Session& session, Offset& field, Offset to) {
  const Offset before = session.load(field);
  Offset proxy = 0;
  if (to != 0) {
    Header& header = session.header(to);
    if ((session.load(header.state) & kDead) != 0)
      throw Exception(Code::kMisuse, "a reference to an object whose end has begun");
    proxy = session.load(header.aside);
    if (proxy == 0) {
      proxy = session.offset_of(allocate(session, sizeof(Proxy)));
      session.store(proxy_at(session, proxy).target, to);
      session.store(proxy_at(session, proxy).count, std::uint64_t{0});
      session.store(header.aside, proxy);
    }
  }
  if (proxy == before) return;
  if (proxy != 0) {
    Proxy& at = proxy_at(session, proxy);
    session.store(at.count, session.load(at.count) + 1);
  }
  session.store(field, proxy);
  if (before != 0) drop_weak_reference(session, before);
}

void ObjectCore::drop_weak_reference(Session& session, Offset proxy) {
  Proxy& at = proxy_at(session, proxy);
  const std::uint64_t count = session.load(at.count);
  if (count == 0) refuse_damage(session, "a count of weak references");
  session.store(at.count, count - 1);
  // While the object lives, its proxy stays with it.
  if (count == 1 && session.load(at.target) == 0) free(session, &at);
}

void ObjectCore::drop_proxy(Session& session, Header& header) {
  const Offset proxy = session.load(header.aside);
  if (proxy == 0) return;
  Proxy& at = proxy_at(session, proxy);
  // In this moment all weak references to the object are null.
  session.store(at.target, Offset{0});
  if (session.load(at.count) == 0) free(session, &at);
  session.store(header.aside, Offset{0});
}

// ---- the end of objects -------------------------------------------------------------------------

void ObjectCore::settle(Session& session) {
  // The list grows while this loop runs.
  for (std::size_t i = 0; i < session.unreferenced.size(); ++i)
    consider(session, session.unreferenced[i]);
  session.unreferenced.clear();
}

void ObjectCore::consider(Session& session, Offset object) {
  Header& header = session.header(object);
  const Word state = session.load(header.state);
  const bool orphan = (state & kOrphan) != 0;
  if ((state & kDead) != 0 || (!orphan && object_layout::count_of(state) != 0)) return;
  const Word type = state & kTypeMask;
  // First the object's ownership record, then the question. A thread that takes a handle does it in
  // the other order (hold), so one of the two sees the other.
  if (session.tx != nullptr) session.tx->own_now(header.state);
  session.store(header.state, type | kDead);
  if (handles_->keep_orphan(object)) {
    if (orphan) return session.store(header.state, state);
    const std::uint32_t place = take_place(session);
    session.store(place_at(place), object);
    session.store(header.state, type | kOrphan | place);
    return;
  }
  if (orphan) {
    const std::uint32_t place = object_layout::count_of(state);
    session.given.push_back(place);
    session.store(place_at(place), Word{0});
  }
  drop_proxy(session, header);
  if (session.deaths_left == 0) return push_dead(session, object);
  --session.deaths_left;
  end_object(session, object, type);
}

void ObjectCore::end_object(Session& session, Offset object, Word state) {
  const std::uint16_t number = object_layout::type_of(state);
  const TypeInfo* const type = number < by_number_.size() ? by_number_[number] : nullptr;
  if (type == nullptr) refuse_damage(session, "a type");
  require_object(session, object, type->bytes);
  std::byte* const at = session.base + object;
  if (type->destroy != nullptr) type->destroy(at);
  std::size_t dropped = 0;
  for (const Member& member : type->members) {
    if (member.kind == MemberKind::kValue) continue;
    auto* const elements = reinterpret_cast<Offset*>(at + member.offset);
    const auto drop = [&](std::uint64_t from, std::uint64_t to) {
      for (std::uint64_t i = from; i < to; ++i) {
        const Offset target = session.load(elements[i]);
        if (target == 0) continue;
        member.kind == MemberKind::kRef ? drop_reference(session, target)
                                        : drop_weak_reference(session, target);
        ++dropped;
      }
    };
    std::uint64_t count = member.count;
    if (type->is_array) {
      auto& size = *reinterpret_cast<std::uint64_t*>(at);
      count = session.load(size);
      if (count > (session.bytes - object - type->bytes) / sizeof(Offset))
        refuse_damage(session, "an array's size");
      if (count > kElementsAtOnce && session.tx != nullptr) {
        // The last ones; it comes again for the others.
        drop(count - kElementsAtOnce, count);
        session.store(size, count - kElementsAtOnce);
        session.deaths_left = 0;
        return push_dead(session, object);
      }
    }
    drop(0, count);
  }
  // In the log, dropping a reference takes as much room as ending an object, so many of them leave
  // less room for other objects.
  if (dropped > kFewReferences) session.deaths_left -= std::min(session.deaths_left, dropped);
  free(session, at - kHeaderBytes);
  ++session.ended;
}

void ObjectCore::push_dead(Session& session, Offset object) {
  Stripe& stripe = control_->stripes[session.stripe];
  session.store(session.header(object).aside, session.load(stripe.dead));
  session.store(stripe.dead, object);
  session.left_dead = true;
}

void ObjectCore::end_dead_list(std::size_t stripe_index) {
  Stripe& stripe = control_->stripes[stripe_index];
  for (bool more = true; more;) {
    // Relaxed durability is enough: what ends here cannot be reached, and the order of commits is
    // kept.
    more = run_own(
        [&](Session& session) {
          session.stripe = stripe_index;
          Offset object = 0;
          while (session.deaths_left > 0 && (object = session.load(stripe.dead)) != 0) {
            require_object(session, object, 0);
            Header& header = session.header(object);
            const Word state = session.load(header.state);
            if ((state & kDead) == 0) refuse_damage(session, "the list of dead objects");
            session.store(stripe.dead, session.load(header.aside));
            session.store(header.aside, Offset{0});
            --session.deaths_left;
            end_object(session, object, state);
            settle(session);
          }
          session.left_dead = false;  // this loop goes on with it
          return session.load(stripe.dead) != 0;
        },
        false, Durability::kRelaxed);
  }
}

// ---- handles and orphans ------------------------------------------------------------------------

HandleEntry* ObjectCore::hold(Session& session, Offset object) {
  HandleEntry* const entry = handles_->take(object);
  try {
    // After the handle is there: see consider(). Read anew, so that a mark made meanwhile ends this
    // attempt.
    if ((session.load(session.header(object).state) & kDead) != 0)
      throw Exception(Code::kMisuse, "a handle on an object whose end has begun");
  } catch (...) {
    HandleTable::drop(entry);
    throw;
  }
  return entry;
}

Session& ObjectCore::session_of(const HandleEntry& entry) {
  const ObjectCore* const core = entry.table->core();
  if (core == nullptr)
    throw Exception(Code::kMisuse,
                    "a handle into a heap that was closed; open it again, and start "
                    "from its root");
  Session* const session = Session::current;
  if (session == nullptr)
    throw Exception(Code::kMisuse,
                    "an object is used outside a transaction; wrap the code in "
                    "heap.atomically([&] { ... })");
  if (session->core != core)
    throw Exception(Code::kMisuse, "a handle into " + core_of(*core->pool_).region().path() +
                                       " is used in a transaction on " +
                                       core_of(*session->core->pool_).region().path() +
                                       "; references do not lead from heap to heap, nothing was "
                                       "written");
  if (entry.object.load(std::memory_order_acquire) == 0)
    throw Exception(Code::kMisuse,
                    "a handle on an object whose transaction came to nothing: it never was");
  return *session;
}

void ObjectCore::end_if_orphan(Offset object) noexcept {
  try {
    if (!can_run()) {
      const std::lock_guard lock(later_mutex_);
      later_.push_back(object);
      any_later_.store(true, std::memory_order_relaxed);
      return;
    }
    run_own(
        [&](Session& session) {
          if (is_orphan(session, object)) consider(session, object);
        },
        false, Durability::kRelaxed);
  } catch (...) {  // the pool refuses, or is full: it stays an orphan
  }
}

bool ObjectCore::can_run() {
  try {
    return !core_of(*pool_).context().tx.active();
  } catch (const Exception&) {  // a thread that is ending, or one too many
    return false;
  }
}

void ObjectCore::end_earlier_orphans() {
  std::vector<Offset> objects;
  {
    const std::lock_guard lock(later_mutex_);
    objects.swap(later_);
    any_later_.store(false, std::memory_order_relaxed);
  }
  for (const Offset object : objects) end_if_orphan(object);
}

bool ObjectCore::is_orphan(Session& session, Offset object) {
  const Word state = session.load(session.header(object).state);
  if ((state & kOrphan) == 0) return false;
  const std::uint32_t place = object_layout::count_of(state);
  {
    const std::lock_guard lock(orphans_mutex_);
    if (place / OrphanTable::kSlots >= orphan_tables_.size()) return false;
  }
  return session.load(place_at(place)) == object;
}

Word& ObjectCore::place_at(std::uint32_t place) {
  const std::lock_guard lock(orphans_mutex_);
  const std::size_t table = place / OrphanTable::kSlots;
  if (table >= orphan_tables_.size())
    throw Exception(Code::kCorrupt,
                    core_of(*pool_).region().path() +
                        ": an object names a place among the orphans that is not there; restore "
                        "the heap from a backup");
  auto* const at =
      reinterpret_cast<OrphanTable*>(core_of(*pool_).world().base + orphan_tables_[table]);
  return at->slots[place % OrphanTable::kSlots];
}

std::uint32_t ObjectCore::take_place(Session& session) {
  const std::lock_guard lock(orphans_mutex_);
  if (free_places_.empty()) throw NoPlace{orphan_tables_.size()};
  session.taken.push_back(0);  // first: of memory it may fail
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  session.taken.back() = place;
  return place;
}

void ObjectCore::give_places(std::vector<std::uint32_t>& places) noexcept {
  if (places.empty()) return;
  const std::lock_guard lock(orphans_mutex_);
  // Its memory was reserved with the table.
  free_places_.insert(free_places_.end(), places.begin(), places.end());
  places.clear();
}

void ObjectCore::add_orphan_tables(std::size_t beyond) {
  // One at a time: the places of a table are told by when it came.
  const std::lock_guard one(growing_mutex_);
  // Doubles the tables, so that a transaction that needs thousands of places does not run again for
  // each table.
  for (std::size_t wanted = std::max<std::size_t>(1, 2 * beyond);
       !add_orphan_table_up_to(wanted);) {
  }
}

bool ObjectCore::add_orphan_table_up_to(std::size_t wanted) {
  {
    const std::lock_guard lock(orphans_mutex_);
    if (orphan_tables_.size() >= wanted) return true;
    // Memory is reserved now: nothing may fail between the commit and the bookkeeping for it.
    orphan_tables_.reserve(wanted);
    free_places_.reserve(wanted * OrphanTable::kSlots);
  }
  const Offset table = run_own(
      [&](Session& session) {
        auto* const at = static_cast<OrphanTable*>(allocate(session, sizeof(OrphanTable)));
        OrphanTable empty{};
        empty.next = session.load(control_->orphans);
        session.tx->write(at, &empty, sizeof(empty));
        session.store(control_->orphans, session.offset_of(at));
        return session.offset_of(at);
      },
      false, Durability::kStrict);
  const std::lock_guard lock(orphans_mutex_);
  const std::size_t first = orphan_tables_.size() * OrphanTable::kSlots;
  orphan_tables_.push_back(table);
  for (std::size_t i = OrphanTable::kSlots; i-- > 0;)
    free_places_.push_back(static_cast<std::uint32_t>(first + i));
  return orphan_tables_.size() >= wanted;
}

// ---- objects ------------------------------------------------------------------------------------

Offset ObjectCore::make(std::size_t type, std::uint64_t bytes) {
  if (Session::current == nullptr || Session::current->core != this)
    throw Exception(Code::kMisuse,
                    "an object is made outside a transaction on its heap; wrap the code in "
                    "heap.atomically([&] { ... })");
  Session& session = *Session::current;
  // Before the object is there. They grow by doubling, not by one.
  session.born.push_back(0);
  session.born.pop_back();
  session.unreferenced.push_back(0);
  session.unreferenced.pop_back();
  auto* const at = static_cast<std::byte*>(allocate(session, kHeaderBytes + bytes));
  std::array<Word, 64> words{};
  words[0] = Word{numbers_[type]} << object_layout::kTypeShift;
  std::uint64_t left = kHeaderBytes + round_up(bytes, kWordBytes);
  for (std::byte* to = at; left > 0;) {
    const std::uint64_t here = std::min<std::uint64_t>(left, sizeof(words));
    if (session.tx != nullptr) {
      session.tx->write(to, words.data(), here);
    } else {
      std::memcpy(to, words.data(), here);
    }
    words[0] = 0;
    to += here;
    left -= here;
  }
  const Offset object = session.offset_of(at) + kHeaderBytes;
  session.born.push_back(object);
  session.unreferenced.push_back(object);
  return object;
}

Offset ObjectCore::make_array(std::size_t type, std::uint64_t elements,
                              std::uint64_t element_bytes) {
  if (elements > (std::uint64_t{1} << 40) / element_bytes)
    throw Exception(Code::kInvalid, "an array of " + std::to_string(elements) + " elements");
  const Offset object = make(type, sizeof(std::uint64_t) + elements * element_bytes);
  Session& session = *Session::current;
  session.store(*reinterpret_cast<std::uint64_t*>(session.base + object), elements);
  return object;
}

std::size_t ObjectCore::number_of(const void* key) const {
  const auto at = std::find(keys_.begin(), keys_.end(), key);
  if (at == keys_.end())
    throw Exception(Code::kMisuse,
                    "no object of this heap can ever lead to one of this class; add a ref to it to "
                    "a class of the heap");
  return static_cast<std::size_t>(at - keys_.begin());
}

void* ObjectCore::allocate(Session& session, std::uint64_t bytes) {
  if (session.tx != nullptr) return session.tx->allocate(bytes);
  Heap& heap = core_of(*pool_).heap();
  const Offset object = pool_->atomically([&](Tx& tx) { return tx.reserve(bytes); });
  MaskedWrites writes;
  heap.publish_writes(heap.describe(object), writes);
  store_directly(writes);
  session.bytes = core_of(*pool_).region().grown_bytes();
  return session.base + object;
}

void ObjectCore::free(Session& session, void* at) {
  if (session.tx != nullptr) return session.tx->free(at);
  Heap& heap = core_of(*pool_).heap();
  const HeapObject object = heap.check_live(session.offset_of(at));
  MaskedWrites writes;
  heap.free_writes(object, writes);
  store_directly(writes);
  heap.release(object.offset);
}

void ObjectCore::store_directly(const MaskedWrites& writes) {
  for (const MaskedWrite& write : writes) {
    Word* const home = core_of(*pool_).region().word(write.offset);
    store_word(home, (load_word(home) & ~write.mask) | (write.value & write.mask));
  }
}

}  // namespace perdure::detail
