// SPDX-License-Identifier: BSD-3-Clause
// object_heap: a file of objects that refer to each other safely and survive crashes, after
// NV-heaps (ASPLOS 2011).
//
//   struct Node : perdure::object<Node> {
//     perdure::field<std::int64_t> value;
//     perdure::ref<Node> next;
//     PERDURE_FIELDS(Node, value, next);
//   };
//   struct List : perdure::object<List> {
//     perdure::ref<Node> first;
//     PERDURE_FIELDS(List, first);
//   };
//
//   auto heap = perdure::object_heap<List>::open_or_create("numbers.heap").value();
//   heap.atomically([&](auto list) {
//     auto node = heap.make<Node>();
//     node->value = 7;
//     node->next = list->first;
//     list->first = node;
//   });
//
// Objects live as long as something leads to them: a ref in another object (from the root on), or a
// handle in a variable. An object that nothing leads to ends in the same transaction. The file may
// be copied, renamed and sent while it is closed.
//
// What the compiler refuses: pointers and owning types in objects, objects and references outside a
// heap, results of transactions that lead into it, classes that no object of the heap can lead to,
// fields that are not named. What only a run can tell throws Exception kMisuse before anything is
// written: objects of another heap, locals of another transaction, handles into a closed heap.
//
// Not for: more than 2^32 - 1 references to one object; objects shared by processes.
#pragma once

#include <utility>

#include "perdure/object/array.h"
#include "perdure/object/core.h"
#include "perdure/object/field.h"
#include "perdure/object/generational_lock.h"
#include "perdure/object/pointers.h"
#include "perdure/object/types.h"
#include "perdure/pool.h"

namespace perdure {

namespace detail {

template <class T>
struct LeadsIntoAHeap : std::false_type {};
template <class T>
struct LeadsIntoAHeap<local<T>> : std::true_type {};

template <class T>
inline const char key_of{};

template <class... T>
std::vector<const void*> keys(List<T...>) {
  return {&key_of<T>...};
}

}  // namespace detail

/// Makes a new object in the running transaction's heap: object_heap::make for code without a
/// reference to the heap, as in a class.
template <class T, class... Arguments>
local<T> make(Arguments&&... arguments) {
  detail::Session* const session = detail::Session::current;
  if (session == nullptr) detail::session_grown(nullptr, 0);
  detail::ObjectCore& core = *session->core;
  local<T> made = core.local_at<T>(core.make(core.number_of(&detail::key_of<T>), sizeof(T)));
  if constexpr (requires { made->init(std::forward<Arguments>(arguments)...); }) {
    made->init(std::forward<Arguments>(arguments)...);
  } else {
    static_assert(sizeof...(Arguments) == 0,
                  "perdure: the class has no init() that takes these arguments");
  }
  return made;
}

/// Makes a new array in the running transaction's heap, all zero.
template <class E>
local<array<E>> make_array(std::uint64_t size) {
  detail::Session* const session = detail::Session::current;
  if (session == nullptr) detail::session_grown(nullptr, 0);
  detail::ObjectCore& core = *session->core;
  return core.local_at<array<E>>(
      core.make_array(core.number_of(&detail::key_of<array<E>>), size, sizeof(E)));
}

inline local<chars> make_text(std::string_view text) {
  local<chars> made = make_array<field<char>>(text.size());
  if (!text.empty()) made->write(0, text.data(), text.size());
  return made;
}

template <class Root>
class object_heap {
 public:
  using Types = detail::TypesFrom<Root>;

  /// These are like those of Pool, whose options and errors they share. A further error is
  /// kTypeMismatch, which tells the difference, when the heap's classes are not the program's.
  static Result<object_heap> create(const std::string& path, const PoolOptions& options = {},
                                    const ObjectOptions& of_objects = {}) {
    return in(Pool::create(path, options), true, of_objects);
  }
  static Result<object_heap> open(const std::string& path, const PoolOptions& options = {},
                                  const ObjectOptions& of_objects = {}) {
    return in(Pool::open(path, options), false, of_objects);
  }
  static Result<object_heap> open_or_create(const std::string& path,
                                            const PoolOptions& options = {},
                                            const ObjectOptions& of_objects = {}) {
    return in(Pool::open_or_create(path, options), true, of_objects);
  }
  /// Makes or opens a heap in a pool of its own that the caller has opened: with ExpertOptions, or
  /// with another engine.
  static Result<object_heap> in_own_pool(Result<Pool> pool, const ObjectOptions& of_objects = {}) {
    return in(std::move(pool), true, of_objects);
  }
  /// Makes or opens the heap of a pool that has other roots, too, and stays open longer than the
  /// heap. At most one heap of a pool may be open at a time.
  static Result<object_heap> in_pool(Pool& pool, const ObjectOptions& of_objects = {}) {
    return on(pool, nullptr, true, of_objects);
  }

  object_heap(object_heap&&) noexcept = default;
  object_heap& operator=(object_heap&& other) noexcept {
    core_.reset();  // before its pool
    pool_ = std::move(other.pool_);
    core_ = std::move(other.core_);
    return *this;
  }
  /// Closes the heap. Handles that are left lead nowhere; objects that only they led to end at the
  /// next open.
  ~object_heap() { core_.reset(); }

  /// Runs body(root) or body() as one durable, isolated transaction, and returns what it returns:
  /// Pool::atomically, whose promises hold here. In a transaction on the same heap it becomes a
  /// part of that; inside one on another heap it is refused.
  template <class Body>
  auto atomically(Body&& body) {
    return run(body, false, Durability::kStrict);
  }
  template <class Body>
  auto atomically(Durability durability, Body&& body) {
    return run(body, false, durability);
  }
  /// The same for transactions that only read.
  template <class Body>
  auto read_only(Body&& body) {
    return run(body, true, Durability::kStrict);
  }
  /// Runs body without transactions, as a baseline: see ObjectCore::run_unprotected.
  template <class Body>
  auto unprotected(Body&& body) {
    return core_->run_unprotected([&] { return call(body); });
  }

  /// Makes a new object with all fields zero, then calls init(arguments...) if the class has it.
  /// The object ends with the transaction unless something leads to it by then. Requires: a
  /// transaction on this heap.
  /// Errors: throws Exception kNoSpace, kMisuse.
  template <class T, class... Arguments>
  local<T> make(Arguments&&... arguments) {
    require_in_heap<T>();
    require_running();
    return perdure::make<T>(std::forward<Arguments>(arguments)...);
  }
  template <class E>
  local<array<E>> make_array(std::uint64_t size) {
    require_in_heap<array<E>>();
    require_running();
    return perdure::make_array<E>(size);
  }
  local<chars> make_text(std::string_view text) {
    require_in_heap<chars>();
    require_running();
    return perdure::make_text(text);
  }
  /// Requires: a transaction on this heap.
  local<Root> root() {
    require_running();
    return core_->template local_at<Root>(core_->root(*detail::Session::current));
  }

  /// How often the heap was opened, this time included.
  std::uint64_t generation() const { return core_->generation(); }
  const ObjectRecovery& recovery() const { return core_->recovery(); }
  Pool& pool() { return core_->pool(); }

 private:
  object_heap() = default;

  static Result<object_heap> in(Result<Pool> pool, bool create, const ObjectOptions& of_objects) {
    if (!pool) return pool.error();
    auto own = std::make_unique<Pool>(std::move(pool).value());
    Pool& opened = *own;
    return on(opened, std::move(own), create, of_objects);
  }
  static Result<object_heap> on(Pool& pool, std::unique_ptr<Pool> own, bool create,
                                const ObjectOptions& of_objects) {
    object_heap heap;
    heap.pool_ = std::move(own);
    auto core = detail::ObjectCore::open(pool, detail::describe(Types{}), detail::keys(Types{}),
                                         create, of_objects);
    if (!core) return core.error();
    heap.core_ = std::move(core).value();
    return heap;
  }

  template <class T>
  static constexpr void require_in_heap() {
    static_assert(detail::IsIn<T, Types>::value,
                  "perdure: no object of this heap can lead to one of this class; it belongs to "
                  "another heap, or its class is in no ref<> yet");
  }
  void require_running() {
    detail::Session* const session = detail::Session::current;
    if (session == nullptr || session->core != core_.get()) detail::ObjectCore::refuse_elsewhere();
  }
  template <class Body>
  auto call(Body& body) {
    if constexpr (std::is_invocable_v<Body&, local<Root>>) {
      return body(root());
    } else {
      return body();
    }
  }
  template <class Body>
  auto run(Body& body, bool read_only, Durability durability) {
    using Returned = decltype(call(body));
    static_assert(!std::is_pointer_v<Returned> && !detail::LeadsIntoAHeap<Returned>::value,
                  "perdure: a transaction does not return a pointer into the heap; return a value, "
                  "or a perdure::handle");
    if constexpr (std::is_invocable_v<Body&, local<Root>>) {
      static_assert(!std::is_reference_v<std::invoke_result_t<Body&, local<Root>>>,
                    "perdure: a transaction returns a value, not a reference");
    } else {
      static_assert(!std::is_reference_v<std::invoke_result_t<Body&>>,
                    "perdure: a transaction returns a value, not a reference");
    }
    return core_->run([&] { return call(body); }, read_only, durability);
  }

  std::unique_ptr<Pool> pool_;  // null: the caller's
  std::unique_ptr<detail::ObjectCore> core_;
};

}  // namespace perdure
