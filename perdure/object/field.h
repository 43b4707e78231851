// SPDX-License-Identifier: BSD-3-Clause
// field<T>: a value in a persistent class. It is read and assigned like a T; the running
// transaction sees to the rest.
#pragma once

#include <type_traits>

#include "perdure/object/session.h"
#include "perdure/persistable.h"
#include "perdure/tx.h"

namespace perdure {

/// Only in objects that a heap made (object_heap::make), and only in a transaction on that heap.
/// Errors: throws Exception kMisuse elsewhere, and for an assignment in read_only().
template <class T>
class field {
  static_assert(
      !std::is_pointer_v<T> && !std::is_reference_v<T>,
      "perdure: a volatile pointer or reference in a heap would dangle after a restart; use "
      "perdure::ref<T>");
  static_assert(
      std::is_trivially_copyable_v<T>,
      "perdure: this type owns something outside the heap (std::string, std::vector, a "
      "handle, ...); use ref<array<char>> for text, ref<array<T>> for rows, ref<T> for objects");
  static_assert(
      Persistable<T>,
      "perdure: something in this type is a raw pointer, a reference, or of a type that is "
      "not persistable");

 public:
  field() = delete;  // so neither a field nor a class that has one is ever made outside a heap
  field* operator&() = delete;  // an address would outlive the transaction
  const field* operator&() const = delete;

  operator T() const { return get(); }  // NOLINT: read like a T
  T get() const {
    detail::Session& session = detail::session_of(std::addressof(value_), sizeof(T));
    if constexpr (Field<T>) {
      return session.load(value_);
    } else {
      T value;
      if (session.tx != nullptr) {
        session.tx->read(&value, std::addressof(value_), sizeof(T));
      } else {
        value = value_;
      }
      return value;
    }
  }
  field& operator=(const T& value) {
    detail::Session& session = detail::session_of(std::addressof(value_), sizeof(T));
    if constexpr (Field<T>) {
      session.store(value_, value);
    } else if (session.tx != nullptr) {
      session.tx->write(std::addressof(value_), &value, sizeof(T));
    } else {
      value_ = value;
    }
    return *this;
  }
  field& operator=(const field& other) { return *this = other.get(); }

  field& operator+=(const T& by)
    requires std::is_arithmetic_v<T>
  {
    return *this = static_cast<T>(get() + by);
  }
  field& operator-=(const T& by)
    requires std::is_arithmetic_v<T>
  {
    return *this = static_cast<T>(get() - by);
  }
  T operator++()
    requires std::is_arithmetic_v<T>
  {
    const T value = static_cast<T>(get() + 1);
    *this = value;
    return value;
  }
  T operator--()
    requires std::is_arithmetic_v<T>
  {
    const T value = static_cast<T>(get() - 1);
    *this = value;
    return value;
  }
  T operator++(int)
    requires std::is_arithmetic_v<T>
  {
    const T value = get();
    *this = static_cast<T>(value + 1);
    return value;
  }
  T operator--(int)
    requires std::is_arithmetic_v<T>
  {
    const T value = get();
    *this = static_cast<T>(value - 1);
    return value;
  }

 private:
  field(const field&) =
      default;  // trivial, so that a heap's bytes are one; private, so that none is copied out
  T value_;
};

}  // namespace perdure
