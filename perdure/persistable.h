// SPDX-License-Identifier: BSD-3-Clause
// Persistable<T>: may a T live in persistent memory? Checked at compile time, field by field: what
// would dangle or leak after a restart (raw pointers, references, virtual functions, types that own
// volatile heap) is refused with a message that says why. Arrays inside structs are written
// std::array: the field walk (Boost.PFR) cannot see through C arrays.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <boost/pfr/core.hpp>
#include <boost/pfr/tuple_size.hpp>

#include "perdure/link.h"

namespace perdure {

/// Specialise to true for a class that keeps its own promise (private fields that are all
/// persistable).
template <class T>
inline constexpr bool is_persistable_by_promise = false;

namespace detail {

template <class T>
struct is_link : std::false_type {};
template <class T>
struct is_link<link<T>> : std::true_type {};

template <class T>
struct ArrayElement {};
template <class T, std::size_t N>
struct ArrayElement<std::array<T, N>> {
  using type = T;
};

template <class T>
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

template <class T>
constexpr bool all_fields_persistable() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return (persistable<boost::pfr::tuple_element_t<I, T>>() && ...);
  }(std::make_index_sequence<boost::pfr::tuple_size_v<T>>{});
}

}  // namespace detail

template <class T>
concept Persistable = detail::persistable<T>();

/// Stops the compilation with the first rule that T breaks.
template <class T>
constexpr void require_persistable() {
  static_assert(
      !std::is_pointer_v<T> && !std::is_reference_v<T>,
      "perdure: a raw pointer or reference would dangle after a restart; use perdure::link<T>");
  static_assert(!std::is_polymorphic_v<T>,
                "perdure: a type with virtual functions holds an address of this program run; it "
                "cannot be persistent");
  static_assert(std::is_trivially_copyable_v<T>,
                "perdure: this type owns something outside the pool (std::string, std::vector, "
                "...); use perdure's "
                "containers");
  static_assert(Persistable<T>,
                "perdure: a field of this type is a raw pointer, a reference, or of a type that is "
                "not persistable; "
                "look at its members, one of them must become a perdure::link or a plain value");
}

}  // namespace perdure
