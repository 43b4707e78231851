// SPDX-License-Identifier: BSD-3-Clause
// Persistable<T>: whether a T may live in persistent memory. It is checked at compile time, field
// by field: what would dangle or leak after a restart (raw pointers, references, virtual functions,
// types that own volatile memory) is refused with a message that says why. A persistent type is a
// plain struct: no constructors, no private fields; arrays of either kind are fine.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "perdure/pptr.h"

namespace perdure {

/// Specialise this to true for a class whose private fields are all persistable.
template <class T>
inline constexpr bool is_persistable_by_promise = false;

namespace detail {

template <class T>
struct is_link : std::false_type {};
template <class T>
struct is_link<pptr<T>> : std::true_type {};

template <class T>
struct ArrayElement {};
template <class T, std::size_t N>
struct ArrayElement<std::array<T, N>> {
  using type = T;
};

template <class T, std::size_t kLow = 0>
constexpr bool all_fields_persistable();

template <class T>
constexpr bool persistable() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_reference_v<U> || std::is_pointer_v<U> || std::is_member_pointer_v<U>) {
    return false;
  } else if constexpr (std::is_arithmetic_v<U> || std::is_enum_v<U>) {
    return true;
  } else if constexpr (std::is_array_v<U>) {
    return persistable<std::remove_all_extents_t<U>>();
  } else if constexpr (requires { typename ArrayElement<U>::type; }) {
    return persistable<typename ArrayElement<U>::type>();
  } else if constexpr (is_link<U>::value || is_persistable_by_promise<U>) {
    return true;
  } else if constexpr (!std::is_class_v<U> || std::is_polymorphic_v<U> ||
                       !std::is_trivially_copyable_v<U>) {
    return false;
  } else if constexpr (std::is_aggregate_v<U>) {
    return all_fields_persistable<U>();
  } else {
    return false;
  }
}

/// Becomes whatever a field of T is initialised with, each element of a C array too; noexcept if
/// that may be persistent.
template <class T>
struct AnyField {
  template <class U>
    requires(!std::is_same_v<U, T>)
  operator U() const noexcept(persistable<U>());
};
template <class T, std::size_t>
using AnyFieldOf = AnyField<T>;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-braces"  // of C arrays
/// T, initialised with as many values as there are indices.
template <class T, class Indices>
struct InitialisedBy {
  static constexpr bool kPossible = false;
};
template <class T, std::size_t... I>
  requires requires { T{AnyFieldOf<T, I>{}...}; }
struct InitialisedBy<T, std::index_sequence<I...>> {
  static constexpr bool kPossible = true;
  static constexpr bool kPersistable = noexcept(T{AnyFieldOf<T, I>{}...});
};
#pragma GCC diagnostic pop
template <class T, std::size_t kCount>
using InitialisedByCount = InitialisedBy<T, std::make_index_sequence<kCount>>;

/// The most values that T can be initialised with: from `kLow` on, which is possible, and fewer
/// than `kHigh`, if that is not 0.
template <class T, std::size_t kLow, std::size_t kHigh = 0>
consteval std::size_t most_values() {
  constexpr std::size_t kMiddle = kHigh == 0 ? 2 * kLow + 1 : (kLow + kHigh) / 2;
  if constexpr (kMiddle == kLow) {
    return kLow;
  } else if constexpr (InitialisedByCount<T, kMiddle>::kPossible) {
    return most_values<T, kMiddle, kHigh>();
  } else {
    return most_values<T, kLow, kMiddle>();
  }
}

/// Where a field must be initialised, fewer values than lead there are too few.
template <class T, std::size_t kLow>
constexpr bool all_fields_persistable() {
  constexpr std::size_t kMostTried = 64;
  if constexpr (InitialisedByCount<T, kLow>::kPossible) {
    return InitialisedByCount<T, most_values<T, kLow>()>::kPersistable;
  } else if constexpr (kLow < kMostTried) {
    return all_fields_persistable<T, kLow + 1>();
  } else {
    return false;  // a reference, which nothing becomes
  }
}

}  // namespace detail

template <class T>
concept Persistable = detail::persistable<T>();

/// Stops the compilation with the first rule that T breaks.
template <class T>
constexpr void require_persistable() {
  static_assert(
      !std::is_pointer_v<T> && !std::is_reference_v<T>,
      "perdure: a raw pointer or reference would dangle after a restart; use perdure::pptr<T>");
  static_assert(!std::is_polymorphic_v<T>,
                "perdure: a type with virtual functions holds an address of this program run; it "
                "cannot be persistent");
  static_assert(std::is_trivially_copyable_v<T>,
                "perdure: this type owns something outside the pool (std::string, std::vector, "
                "...); use perdure's "
                "containers");
  static_assert(!std::is_class_v<T> || std::is_aggregate_v<T> || is_persistable_by_promise<T> ||
                    !std::is_trivially_copyable_v<T> || std::is_polymorphic_v<T>,
                "perdure: a persistent class has no constructor and no private field: the pool "
                "hands it out zeroed and calls nothing; make it a plain struct, with functions "
                "that set its fields, or specialise perdure::is_persistable_by_promise");
  static_assert(Persistable<T>,
                "perdure: a field of this type is a raw pointer, a reference, or of a type that is "
                "not persistable (it has a constructor or a private field, or owns memory); "
                "look at its members, one of them must become a perdure::pptr or a plain value");
}

}  // namespace perdure
