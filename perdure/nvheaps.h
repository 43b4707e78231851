// SPDX-License-Identifier: BSD-3-Clause
// The object heap with the names of the NV-heaps paper (ASPLOS 2011, Figure 2); perdure/object.h is
// the same in the style of C++.
//
//   class NVList : public NVObject {
//     DECLARE_POINTER_TYPES(NVList);
//
//    public:
//     DECLARE_MEMBER(int, value);
//     DECLARE_PTR_MEMBER(NVList::NVPtr, next);
//   };
//
//   NVHeap<NVList>* nv = NVHOpen<NVList>("foo.nvheap");
//   AtomicBegin(nv) {
//     NVList::VPtr a = nv->GetRoot();
//     while (a->get_next() != NULL) { ... a = a->get_next(); }
//   } AtomicEnd;
//
// Differences: NVHOpen and AtomicBegin name the class and the heap (a program may have many open).
// What AtomicBegin encloses is a function, so `return` and `break` leave only it; it runs again
// after a conflict, so it must set variables outside of it anew. NVClose closes the heap, which the
// paper leaves to the end of the program.
#pragma once

#include <string>
#include <tuple>

#include "perdure/object.h"

/// The base of the paper's classes. Requires: DECLARE_POINTER_TYPES comes first in the class.
class NVObject : public perdure::detail::object_base {};

namespace perdure::nvheaps {

template <class T>
struct Root : object<Root<T>> {
  ref<T> first;
  static constexpr const char* persistent_name = "NVRoot";
  PERDURE_FIELDS(Root, first);
};

template <int N>
struct Number {};

/// The fields that T declared from the Nth use of __COUNTER__ on.
template <class T, int N>
constexpr auto fields() {
  if constexpr (requires { T::perdure_member(Number<N>{}); }) {
    return std::tuple_cat(std::make_tuple(T::perdure_member(Number<N>{})), fields<T, N + 1>());
  } else {
    return std::tuple<>();
  }
}

}  // namespace perdure::nvheaps

/// An open heap whose root pointer leads to a T. Errors: those of perdure::object_heap, thrown.
template <class T>
class NVHeap {
 public:
  NVHeap(const std::string& path, const perdure::PoolOptions& options)
      : heap_(perdure::object_heap<perdure::nvheaps::Root<T>>::open_or_create(path, options)
                  .value()) {}

  /// In a transaction and outside.
  perdure::handle<T> GetRoot() {
    return heap_.read_only([](auto root) { return perdure::handle<T>(root->first); });
  }
  template <class Pointer>
  void SetRoot(const Pointer& to) {
    heap_.atomically([&](auto root) { root->first = to; });
  }
  /// Requires: AtomicBegin.
  template <class U, class... Arguments>
  perdure::local<U> New(Arguments&&... arguments) {
    return heap_.template make<U>(std::forward<Arguments>(arguments)...);
  }
  template <class Body>
  void atomically(Body&& body) {
    heap_.atomically(std::forward<Body>(body));
  }
  perdure::object_heap<perdure::nvheaps::Root<T>>& heap() { return heap_; }

 private:
  perdure::object_heap<perdure::nvheaps::Root<T>> heap_;
};

/// Opens the file, which is made if it is not there. The caller closes it.
template <class T>
NVHeap<T>* NVHOpen(const std::string& path, const perdure::PoolOptions& options = {}) {
  return new NVHeap<T>(path, options);
}
template <class T>
void NVClose(NVHeap<T>* heap) {
  delete heap;
}

#define DECLARE_POINTER_TYPES(Class)                                       \
 public:                                                                   \
  using NVPtr = ::perdure::ref<Class>;                                     \
  using WeakNVPtr = ::perdure::weak_ref<Class>;                            \
  using VPtr = ::perdure::handle<Class>;                                   \
  using perdure_class = Class;                                             \
  static constexpr auto perdure_fields() {                                 \
    return ::perdure::nvheaps::fields<Class, PERDURE_NEXT(__COUNTER__)>(); \
  }                                                                        \
                                                                           \
 private:                                                                  \
  static_assert(true)
#define PERDURE_NEXT(number) ((number) + 1)

/// int get_name() const; void set_name(int).
#define DECLARE_MEMBER(Type, name)                               \
  PERDURE_DECLARE(::perdure::field<Type>, name, __COUNTER__);    \
  Type get_##name() const { return perdure_##name.get(); }       \
  void set_##name(const Type& value) { perdure_##name = value; } \
  static_assert(true)

/// The same for Class::NVPtr, which owns, and Class::WeakNVPtr, which does not.
#define DECLARE_PTR_MEMBER(Pointer, name)                  \
  PERDURE_DECLARE(Pointer, name, __COUNTER__);             \
  auto get_##name() const { return perdure_##name.get(); } \
  template <class To>                                      \
  void set_##name(const To& to) {                          \
    perdure_##name = to;                                   \
  }                                                        \
  static_assert(true)

#define PERDURE_DECLARE(Member, name, number)                                                  \
 private:                                                                                      \
  Member perdure_##name;                                                                       \
                                                                                               \
 public:                                                                                       \
  static constexpr ::perdure::detail::FieldOf<Member> perdure_member(                          \
      ::perdure::nvheaps::Number<(number)>) {                                                  \
    return ::perdure::detail::FieldOf<Member>{#name, offsetof(perdure_class, perdure_##name)}; \
  }                                                                                            \
  static_assert(true)

#define AtomicBegin(heap) (heap)->atomically([&]
#define AtomicEnd )
