// SPDX-License-Identifier: BSD-3-Clause
// The pointers of object heaps (NV-heaps §3.4):
//
//   ref<T>       in an object, to an object: keeps it alive
//   weak_ref<T>  the same, but does not; becomes null in the moment in which its object ends
//   local<T>     in a variable, within one transaction: costs nothing, keeps nothing alive
//   handle<T>    in a variable, for as long as one likes: keeps its object alive, also when nothing
//                else leads there
//
// All but a handle are read and assigned in transactions only, and only within one heap: another
// heap's object is refused when it is assigned, before anything is written.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include "perdure/object/core.h"
#include "perdure/object/types.h"

namespace perdure {

/// An object, in the transaction in which this was got. Null, or what the heap says is a T.
/// Errors: throws Exception kMisuse when it is null, or used in another transaction.
template <class T>
class local {
 public:
  local(std::nullptr_t) {}  // NOLINT: null is null
  T* operator->() const {
    if (at_ == nullptr) [[unlikely]]
      detail::refuse_null();
    check();
    return at_;
  }
  /// Elements of an array.
  template <class Index>
  decltype(auto) operator[](Index index) const
    requires requires(T& at) { at[index]; }
  {
    return (*operator->())[index];
  }
  explicit operator bool() const { return at_ != nullptr; }
  friend bool operator==(const local& a, const local& b) { return a.at_ == b.at_; }
  friend bool operator==(const local& a, std::nullptr_t) { return a.at_ == nullptr; }
  static void* operator new(std::size_t) = delete;

 private:
  template <class>
  friend class ref;
  template <class>
  friend class weak_ref;
  template <class>
  friend class handle;
  template <class>
  friend class object;
  friend class detail::ObjectCore;
  local(T* at, std::uint64_t serial) : at_(at), serial_(serial) {}
  void check() const {
    const detail::Session* const session = detail::Session::current;
    if (session == nullptr || session->serial != serial_) [[unlikely]]
      detail::refuse_stale();
  }
  /// In the running session; null: 0. Errors: as those of the class.
  Offset offset() const {
    if (at_ == nullptr) return 0;
    check();
    return detail::Session::current->offset_of(at_);
  }

  T* at_ = nullptr;
  std::uint64_t serial_ = 0;
};

template <class T>
class weak_ref;
template <class T>
class handle;

/// An owning reference, in a persistent class or an array.
template <class T>
class ref {
 public:
  ref() = delete;  // so none is ever made outside a heap
  ref* operator&() = delete;

  local<T> get() const {
    detail::Session& session = detail::session_of(this, sizeof(*this));
    const Offset target = session.load(target_);
    if (target == 0) return nullptr;
    session.core->require_object(session, target, sizeof(T));
    return {reinterpret_cast<T*>(session.base + target), session.serial};
  }
  operator local<T>() const { return get(); }  // NOLINT: read like a pointer
  local<T> operator->() const { return get(); }
  explicit operator bool() const {
    return detail::session_of(this, sizeof(*this)).load(target_) != 0;
  }
  friend bool operator==(const ref& a, const local<T>& b) { return a.get() == b; }
  friend bool operator==(const ref& a, std::nullptr_t) { return !a; }

  ref& operator=(const local<T>& to) {
    set(to.offset());
    return *this;
  }
  ref& operator=(const ref& to) { return *this = to.get(); }
  ref& operator=(const weak_ref<T>& to);
  ref& operator=(const handle<T>& to);
  ref& operator=(std::nullptr_t) {
    set(0);
    return *this;
  }

 private:
  ref(const ref&) = default;
  void set(Offset to) {
    detail::Session& session = detail::session_of(this, sizeof(*this));
    session.core->assign(session, target_, to);
  }
  Offset target_;
};

/// A reference that does not own, for circles.
template <class T>
class weak_ref {
 public:
  weak_ref() = delete;
  weak_ref* operator&() = delete;

  /// Null from the moment in which the object ends.
  local<T> get() const {
    detail::Session& session = detail::session_of(this, sizeof(*this));
    const Offset target = session.core->target_of(session, proxy_);
    if (target == 0) return nullptr;
    session.core->require_object(session, target, sizeof(T));
    return {reinterpret_cast<T*>(session.base + target), session.serial};
  }
  operator local<T>() const { return get(); }  // NOLINT
  local<T> operator->() const { return get(); }
  explicit operator bool() const { return static_cast<bool>(get()); }
  friend bool operator==(const weak_ref& a, const local<T>& b) { return a.get() == b; }
  friend bool operator==(const weak_ref& a, std::nullptr_t) { return !a; }

  weak_ref& operator=(const local<T>& to) {
    set(to.offset());
    return *this;
  }
  weak_ref& operator=(const weak_ref& to) { return *this = to.get(); }
  weak_ref& operator=(const ref<T>& to) { return *this = to.get(); }
  weak_ref& operator=(const handle<T>& to);
  weak_ref& operator=(std::nullptr_t) {
    set(0);
    return *this;
  }

 private:
  weak_ref(const weak_ref&) = default;
  void set(Offset to) {
    detail::Session& session = detail::session_of(this, sizeof(*this));
    session.core->assign_weak(session, proxy_, to);
  }
  Offset proxy_;
};

/// Keeps an object alive from volatile memory, across transactions. Made in a transaction, copied
/// and dropped anywhere.
/// Errors:  access throws Exception kMisuse outside a transaction on its heap, when the heap was
///          closed, and when the transaction that made the object came to nothing.
/// Durable: not: what only handles lead to is gone after a restart.
/// Threads: each handle one; any number of handles on one object.
template <class T>
class handle {
 public:
  handle() = default;
  handle(std::nullptr_t) {}             // NOLINT
  handle(const local<T>& to) {          // NOLINT
    const Offset object = to.offset();  // first: it refuses without a transaction
    if (object != 0)
      entry_ = detail::Session::current->core->hold(*detail::Session::current, object);
  }
  handle(const ref<T>& to) : handle(to.get()) {}       // NOLINT
  handle(const weak_ref<T>& to) : handle(to.get()) {}  // NOLINT
  handle(const handle& other) : entry_(other.entry_) {
    if (entry_ != nullptr) detail::HandleTable::add(*entry_);
  }
  handle(handle&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  handle& operator=(handle other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~handle() {
    if (entry_ != nullptr) detail::HandleTable::drop(entry_);
  }

  local<T> get() const {
    if (entry_ == nullptr) return nullptr;
    detail::Session& session = detail::ObjectCore::session_of(*entry_);
    return {reinterpret_cast<T*>(session.base + entry_->object.load(std::memory_order_relaxed)),
            session.serial};
  }
  operator local<T>() const { return get(); }  // NOLINT
  local<T> operator->() const { return get(); }
  explicit operator bool() const { return entry_ != nullptr; }
  friend bool operator==(const handle& a, const handle& b) { return a.entry_ == b.entry_; }
  friend bool operator==(const handle& a, std::nullptr_t) { return a.entry_ == nullptr; }

 private:
  detail::HandleEntry* entry_ = nullptr;
};

namespace detail {
template <class P>
inline constexpr bool is_pointer = false;
template <class T>
inline constexpr bool is_pointer<ref<T>> = true;
template <class T>
inline constexpr bool is_pointer<weak_ref<T>> = true;
template <class T>
inline constexpr bool is_pointer<local<T>> = true;
template <class T>
inline constexpr bool is_pointer<handle<T>> = true;
}  // namespace detail

/// Whether two of different kinds lead to the same object.
template <class T, template <class> class P, template <class> class Q>
  requires(detail::is_pointer<P<T>> && detail::is_pointer<Q<T>> && !std::same_as<P<T>, Q<T>>)
bool operator==(const P<T>& a, const Q<T>& b) {
  return static_cast<local<T>>(a) == static_cast<local<T>>(b);
}

template <class T>
ref<T>& ref<T>::operator=(const weak_ref<T>& to) {
  return *this = to.get();
}
template <class T>
ref<T>& ref<T>::operator=(const handle<T>& to) {
  return *this = to.get();
}
template <class T>
weak_ref<T>& weak_ref<T>::operator=(const handle<T>& to) {
  return *this = to.get();
}

namespace detail {

class object_base {
 public:
  void operator&() const = delete;  // an address would outlive the transaction
  static void* operator new(std::size_t) = delete;

 protected:
  // Not noexcept, so that neither are those of the classes: a field's access may end the attempt.
  ~object_base() noexcept(false) = default;
};

}  // namespace detail

/// What persistent classes derive from: struct Node : perdure::object<Node> { ... };
/// They have no constructors: a heap makes them with all fields zero, and then calls
/// `init(arguments...)` if the class has it. Their destructors, if any, run in the transaction in
/// which an object ends, before its references are dropped; they run again when that transaction
/// has to.
template <class T>
class object : public detail::object_base {
 public:
  /// This object, for references to itself. Requires: a transaction.
  local<T> self() {
    auto* const me = static_cast<T*>(this);
    return {me, detail::session_of(this, sizeof(T)).serial};
  }
};

}  // namespace perdure
