// SPDX-License-Identifier: BSD-3-Clause
// ObjectCore: reference counts, the end of objects, handles and orphans of one open heap. Users
// meet it through perdure/object.h.
//
// Everything persistent here is changed by ordinary transactions of the pool, so a count is always
// what it counts, after any crash. NV-heaps needs operation descriptors for that; here a list of
// dead objects is left of them. An object ends in these steps:
//
//   1. A transaction that leaves an object without references ends it: it runs the destructor,
//      drops the object's references and frees its space. So it does with what that leaves without
//      references, up to deaths_at_once objects.   Crash here ⇒ nothing happened.
//   2. Further such objects are marked dead and put on a list, linked through their headers (a
//      stripe of the Control; the paper's root descriptor). When this has committed, none of them
//      can be reached, and all weak references to them are null.   Crash here ⇒ the next open goes
//      on with 3.
//   3. Transactions of deaths_at_once objects each take them from the list and end them; what they
//      leave without references joins the list (the paper's non-root descriptor).   Crash here ⇒
//      the next open goes on with 3.
// So a million objects are freed by logs of some kilobytes, and no object is ended twice.
//
// An object without references to which handles lead becomes an orphan: its offset stands in a
// table, and its state says where. When the last handle goes, or at the next open, it ends as
// above.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "perdure/api/pool_core.h"
#include "perdure/object/handles.h"
#include "perdure/object/session.h"
#include "perdure/object/types.h"
#include "perdure/pool.h"

namespace perdure {

/// What the last open of a heap found to do.
struct ObjectRecovery {
  std::uint64_t generation = 0;  // how often the heap was opened to be written
  std::uint64_t orphans = 0;     // objects that only handles of an earlier process led to
  std::uint64_t lists = 0;       // of dead objects, whose end a crash interrupted
  std::uint64_t ended = 0;       // objects that ended in the open
  std::uint64_t failed = 0;      // ends that a destructor refused; they are left to the next open
};

struct ObjectOptions {
  /// How many objects end in one transaction, at most: it bounds the transaction's log. At least 1.
  std::size_t deaths_at_once = 64;
};

namespace detail {

class ObjectCore {
 public:
  static constexpr std::uint64_t kElementsAtOnce = 64;  // of an array of references
  static constexpr std::size_t kFewReferences = 8;      // of an object that ends

  /// Makes the heap in `pool` if there is none and `create` says so; checks it, and goes on with
  /// what a crash interrupted. `types`: of the program; the first is the root's. `keys`: what
  /// number_of() is asked for.
  /// Errors: kNotFound (no heap), kTypeMismatch (with the difference), kVersion, kCorrupt, and the
  ///         pool's.
  static Result<std::unique_ptr<ObjectCore>> open(Pool& pool, std::vector<TypeInfo> types,
                                                  std::vector<const void*> keys, bool create,
                                                  const ObjectOptions& options);
  ~ObjectCore();
  ObjectCore(const ObjectCore&) = delete;
  ObjectCore& operator=(const ObjectCore&) = delete;

  Pool& pool() { return *pool_; }
  const ObjectRecovery& recovery() const { return recovery_; }
  std::uint64_t generation() const { return recovery_.generation; }
  /// Of the root. Requires: a session.
  Offset root(Session& session) { return session.load(control_->root); }

  // ---- transactions -----------------------------------------------------------------------------

  /// Runs body() as one transaction; in one on the same heap, as a part of it. Effect, durability,
  /// errors, threads: Pool::atomically, and kMisuse inside a transaction on another heap. Objects
  /// that it leaves without references end with it, or behind it.
  template <class Body>
  std::invoke_result_t<Body&> run(Body&& body, bool read_only, Durability durability) {
    if (Session* const running = Session::current) {
      if (running->core != this) refuse_nesting();
      return body();
    }
    return run_own([&](Session&) { return body(); }, read_only, durability);
  }
  /// The layers below transactions that NV-heaps §5.4 measures: counts and types are kept, nothing
  /// is atomic, isolated or durable. A baseline. One thread.
  template <class Body>
  std::invoke_result_t<Body&> run_unprotected(Body&& body) {
    if (const Session* const running = Session::current;
        running != nullptr && running->core == this && running->tx == nullptr)
      return body();
    refuse_unless_home_is_all();
    Session session;
    begin(session, nullptr, 0);
    const Finish finish_it(*this, session);
    const Scope scope(session);
    begin_attempt(session);
    session.deaths_left = ~std::size_t{0};
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      body();
      settle(session);
    } else {
      auto result = body();
      settle(session);
      return result;
    }
  }

  // ---- what pointers need -----------------------------------------------------------------------

  /// Errors: throws Exception kCorrupt unless an object of `bytes` may be at `target`.
  void require_object(Session& session, Offset target, std::uint64_t bytes) {
    if (target % 16 != 0 || target < first_object_ || target > session.bytes ||
        bytes > session.bytes - target) [[unlikely]]
      require_object_now(session, target, bytes);
  }
  /// `field` refers to `to` from now on.
  void assign(Session& session, Offset& field, Offset to) {
    const Offset before = session.load(field);
    if (before == to) return;
    if (to != 0) add_reference(session, to);
    session.store(field, to);
    if (before != 0) drop_reference(session, before);
  }
  void assign_weak(Session& session, Offset& field, Offset to);
  Offset target_of(Session& session, const Offset& field) {
    const Offset proxy = session.load(field);
    if (proxy == 0) return 0;
    return session.load(proxy_at(session, proxy).target);
  }
  /// One more handle on `object`. Errors: throws Exception kMisuse when its end has begun; may end
  /// the attempt.
  HandleEntry* hold(Session& session, Offset object);
  /// The running session, if the handle may be used in it. Errors: throws Exception kMisuse.
  static Session& session_of(const HandleEntry& entry);
  /// The last handle on `object` has gone. Where no transaction can be run, the next one on the
  /// heap sees to it. Requires: no session.
  void end_if_orphan(Offset object) noexcept;

  // ---- objects ----------------------------------------------------------------------------------

  /// A new object, all zero, without references. `type`: its number among the program's.
  Offset make(std::size_t type, std::uint64_t bytes);
  Offset make_array(std::size_t type, std::uint64_t elements, std::uint64_t element_bytes);
  /// The number of a type among the program's. Errors: throws Exception kMisuse for one that it
  /// does not have.
  std::size_t number_of(const void* key) const;
  template <class T>
  local<T> local_at(Offset object) {
    Session& session = *Session::current;
    return {reinterpret_cast<T*>(session.base + object), session.serial};
  }

  [[noreturn]] static void refuse_damage(const Session& session, const char* what);
  [[noreturn]] static void refuse_index(std::uint64_t index, std::uint64_t size);
  [[noreturn]] static void refuse_nesting();
  [[noreturn]] static void refuse_elsewhere();

 private:
  /// Thrown through an attempt that needs one more orphan than there is place for in so many
  /// tables.
  struct NoPlace {
    std::size_t tables;
  };

  class Scope {
   public:
    explicit Scope(Session& session) : session_(&session) {
      session.outer = Session::current;
      Session::current = &session;
    }
    ~Scope() { Session::current = session_->outer; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Session* session_;
  };

  class Finish {
   public:
    Finish(ObjectCore& core, Session& session) : core_(&core), session_(&session) {}
    ~Finish() { core_->finish(*session_); }
    Finish(const Finish&) = delete;
    Finish& operator=(const Finish&) = delete;

   private:
    ObjectCore* core_;
    Session* session_;
  };

  ObjectCore(Pool& pool, std::vector<TypeInfo> types, std::vector<const void*> keys);
  void refuse_unless_home_is_all();

  template <class Body>
  std::invoke_result_t<Body&, Session&> run_own(Body&& body, bool read_only,
                                                Durability durability) {
    PoolCore::Context& context = context_for_session();
    Session session;
    begin(session, &context.tx, context.number);
    const Finish finish_it(*this, session);
    const auto whole = [&] {
      begin_attempt(session);
      if constexpr (std::is_void_v<std::invoke_result_t<Body&, Session&>>) {
        body(session);
        if (!session.unreferenced.empty()) settle(session);
      } else {
        auto result = body(session);
        if (!session.unreferenced.empty()) settle(session);
        return result;
      }
    };
    for (;;) {
      std::size_t tables = 0;
      try {
        // Around the commit as well: when that fails, handles among the results go.
        const Scope scope(session);
        return attempt(core_of(*pool_), context, read_only, durability, whole,
                       [&] { take_back(session); });
      } catch (const NoPlace& no_place) {  // is made, and then it runs again
        tables = no_place.tables;
      }
      add_orphan_tables(tables);
    }
  }

  PoolCore::Context& context_for_session();
  /// `number`: of the thread's context.
  void begin(Session& session, Tx* tx, std::size_t number);
  void begin_attempt(Session& session);
  /// Called when an attempt is rolled back.
  void take_back(Session& session) noexcept;
  /// Called after the last attempt: does what needs transactions of its own.
  void finish(Session& session) noexcept;

  /// Called before a commit: ends objects without references, or makes them orphans.
  void settle(Session& session);
  void consider(Session& session, Offset object);
  void end_object(Session& session, Offset object, Word state);
  void push_dead(Session& session, Offset object);
  void end_dead_list(std::size_t stripe);

  void add_reference(Session& session, Offset object);
  void drop_reference(Session& session, Offset object);
  void drop_weak_reference(Session& session, Offset proxy);
  void drop_proxy(Session& session, object_layout::Header& header);
  object_layout::Proxy& proxy_at(Session& session, Offset proxy) {
    require_object(session, proxy, sizeof(object_layout::Proxy));
    return *reinterpret_cast<object_layout::Proxy*>(session.base + proxy);
  }
  /// Whether `object` is one that the table of orphans names. (What was one may be anything by
  /// now.)
  bool is_orphan(Session& session, Offset object);
  std::uint32_t take_place(Session& session);
  void give_places(std::vector<std::uint32_t>& places) noexcept;
  Word& place_at(std::uint32_t place);
  /// Makes more tables than `beyond`, unless another thread has.
  void add_orphan_tables(std::size_t beyond);
  bool add_orphan_table_up_to(std::size_t wanted);
  /// Whether this thread may run a transaction of its own.
  bool can_run();
  /// Does what end_if_orphan() could not do at once.
  void end_earlier_orphans();

  void* allocate(Session& session, std::uint64_t bytes);
  void free(Session& session, void* at);
  void store_directly(const MaskedWrites& writes);
  void require_object_now(Session& session, Offset target, std::uint64_t bytes);

  // ---- opening (open.cc) ------------------------------------------------------------------------
  void create();
  void judge_types();
  void record_type(Session& session, const TypeInfo& type);
  void find_orphan_tables();
  void go_on();
  template <class Work>
  void go_on_with(Work work);
  /// False: another heap is open on the pool.
  bool claim();

  Pool* pool_;
  bool claimed_ = false;
  std::vector<TypeInfo> types_;  // of the program
  std::vector<const void*> keys_;
  std::vector<std::uint16_t> numbers_;      // of them, in the heap
  std::vector<const TypeInfo*> by_number_;  // null: not one of the program's
  object_layout::Control* control_ = nullptr;
  Offset first_object_ = 0;
  HandleTable* handles_;
  std::mutex growing_mutex_;
  std::mutex orphans_mutex_;
  std::vector<Offset> orphan_tables_;
  std::vector<std::uint32_t> free_places_;
  std::mutex later_mutex_;
  std::vector<Offset> later_;  // objects whose last handle went where no transaction could be run
  std::atomic<bool> any_later_{false};
  std::atomic<std::uint64_t> ended_{0};  // objects, since the heap was opened
  ObjectOptions options_;
  ObjectRecovery recovery_;
};

/// The classes that a heap has recorded, by number (the first is 1's); `places`: of their records.
/// Errors: throws Exception kCorrupt.
std::vector<TypeInfo> recorded_types(Pool& pool, Tx& tx, const object_layout::Control& control,
                                     std::vector<Offset>* places);

}  // namespace detail
}  // namespace perdure
