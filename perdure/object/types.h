// SPDX-License-Identifier: BSD-3-Clause
// TypeInfo: what a heap knows of its classes, derived from PERDURE_FIELDS(Class, field, ...). It is
// also recorded in the heap, as text, so that a program whose classes have changed gets an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "perdure/error.h"
#include "perdure/type_id.h"

namespace perdure {

template <class T>
class field;
template <class T>
class ref;
template <class T>
class weak_ref;
template <class T>
class array;
template <class T>
class object;
template <class T>
class local;

/// What may stand in a persistent class: values, owning and weak references, some of one of them in
/// a row.
enum class MemberKind : std::uint8_t { kValue, kRef, kWeakRef };

struct Member {
  std::string name;
  MemberKind kind = MemberKind::kValue;
  std::string type;  // of the value, or of what is referred to
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // of one
  std::uint64_t count = 1;
  friend bool operator==(const Member&, const Member&) = default;
  std::uint64_t end() const { return offset + bytes * count; }
};

struct TypeInfo {
  std::string name;
  std::uint64_t bytes = 0;  // of an array: without its elements
  bool is_array = false;    // then there is one member, its element, as many as its first word says
  std::vector<Member> members;
  void (*destroy)(void*) = nullptr;  // the class's destructor; null: it has none, or is not known

  std::string text() const;
  /// Errors: kCorrupt.
  static Result<TypeInfo> parse(std::string_view text);
  /// Whether objects that a program with `recorded` made may be used as these: the same fields at
  /// the same places, except that new ones may stand where `recorded` has fields whose names begin
  /// with "reserved".
  bool can_stand_for(const TypeInfo& recorded) const;
  /// What is not the same, for people.
  std::string difference(const TypeInfo& recorded) const;
};

namespace detail {

template <class T>
std::string spelled() {
  std::string text;
  spell_alike(type_name<T>(), [&](char c) { text += c; });
  return text;
}

/// A class may say how it is called in heaps, so that it can move or be renamed: static constexpr
/// const char* persistent_name.
template <class T>
std::string name_in_heaps() {
  if constexpr (requires { T::persistent_name; }) {
    return T::persistent_name;
  } else {
    return spelled<T>();
  }
}

// ---- lists of types -----------------------------------------------------------------------------

template <class... T>
struct List {};

template <class T, class L>
struct IsIn;
template <class T, class... U>
struct IsIn<T, List<U...>> : std::bool_constant<(std::is_same_v<T, U> || ...)> {};

template <class T, class L>
struct IndexIn;
template <class T, class... U>
struct IndexIn<T, List<T, U...>> : std::integral_constant<std::size_t, 0> {};
template <class T, class First, class... U>
struct IndexIn<T, List<First, U...>>
    : std::integral_constant<std::size_t, 1 + IndexIn<T, List<U...>>::value> {};

// ---- what a member's type is --------------------------------------------------------------------

template <class M>
struct MemberTraits {
  static constexpr bool kIsMember = false;
};
template <class T>
struct MemberTraits<field<T>> {
  static constexpr bool kIsMember = true;
  static constexpr MemberKind kKind = MemberKind::kValue;
  static constexpr std::size_t kCount = 1;
  using Targets = List<>;
  static std::string type() { return spelled<T>(); }
};
template <class T>
struct MemberTraits<ref<T>> {
  static constexpr bool kIsMember = true;
  static constexpr MemberKind kKind = MemberKind::kRef;
  static constexpr std::size_t kCount = 1;
  using Targets = List<T>;
  static std::string type() { return name_in_heaps<T>(); }
};
template <class T>
struct MemberTraits<weak_ref<T>> : MemberTraits<ref<T>> {
  static constexpr MemberKind kKind = MemberKind::kWeakRef;
};
template <class M, std::size_t N>
struct MemberTraits<std::array<M, N>> : MemberTraits<M> {
  static_assert(
      MemberTraits<M>::kIsMember && MemberTraits<M>::kCount == 1,
      "perdure: rows are std::array<field<T>, N>, of one dimension; or field<std::array<T, N>>");
  static constexpr std::size_t kCount = N;
};

/// One of the fields that a class names.
template <class M>
struct FieldOf {
  using type = M;
  const char* name;
  std::size_t offset;
};

template <class T>
constexpr bool is_persistent_class = std::is_class_v<T> && requires { T::perdure_fields(); };

// ---- checks, each with its own message ----------------------------------------------------------

/// Whether the fields that T names are all that it has.
template <class T>
constexpr bool names_all_fields() {
  return std::apply(
      []([[maybe_unused]] auto... fields) {
        std::size_t at = 0;
        bool good = true;
        [[maybe_unused]] const auto next = [&](std::size_t offset, std::size_t bytes,
                                               std::size_t alignment) {
          good = good && offset == (at + alignment - 1) / alignment * alignment;
          at = offset + bytes;
        };
        (next(fields.offset, sizeof(typename decltype(fields)::type),
              alignof(typename decltype(fields)::type)),
         ...);
        const std::size_t end = (at + alignof(T) - 1) / alignof(T) * alignof(T);
        return good && (end == sizeof(T) || (sizeof...(fields) == 0 && std::is_empty_v<T>));
      },
      T::perdure_fields());
}

template <class... M>
constexpr bool all_members(List<M...>) {
  return (MemberTraits<M>::kIsMember && ...);
}
template <class T>
using MemberTypes =
    decltype(std::apply([](auto... fields) { return List<typename decltype(fields)::type...>{}; },
                        T::perdure_fields()));

/// Of a class in the paper's spelling (perdure/nvheaps.h).
template <class T>
constexpr bool declares_itself() {
  if constexpr (requires { typename T::perdure_class; }) {
    return std::is_same_v<typename T::perdure_class, T>;
  } else {
    return false;
  }
}

template <class T>
constexpr void require_persistent_class() {
  static_assert(std::is_base_of_v<object<T>, T> || declares_itself<T>(),
                "perdure: a persistent class derives from perdure::object<itself>");
  static_assert(!std::is_polymorphic_v<T>,
                "perdure: a class with virtual functions holds an address of this program run; it "
                "cannot be persistent");
  static_assert(is_persistent_class<T>,
                "perdure: a persistent class names its fields: PERDURE_FIELDS(Class, field, ...)");
  static_assert(
      all_members(MemberTypes<T>{}),
      "perdure: a field of a persistent class is a field<T>, ref<T> or weak_ref<T>, or a "
      "std::array of them; pointers, handles and plain members have no meaning in a heap");
  static_assert(names_all_fields<T>(),
                "perdure: PERDURE_FIELDS must name every field of the class, in their order");
  static_assert(
      std::is_trivially_destructible_v<T> || !std::is_nothrow_destructible_v<T>,
      "perdure: the destructor of a persistent class runs in a transaction, which may have "
      "to end it and run it again: it must not be noexcept");
  static_assert(alignof(T) <= 16, "perdure: heaps align objects to 16 bytes");
}

// ---- all classes that can be reached from one ---------------------------------------------------

template <class T>
struct TargetsOf {
  template <class... M>
  static auto join(List<M...>) {
    return concatenate(typename MemberTraits<M>::Targets{}...);
  }
  static auto concatenate() { return List<>{}; }
  template <class... A>
  static auto concatenate(List<A...> a) {
    return a;
  }
  template <class... A, class... B, class... Rest>
  static auto concatenate(List<A...>, List<B...>, Rest... rest) {
    return concatenate(List<A..., B...>{}, rest...);
  }
  static auto targets() {
    require_persistent_class<T>();
    return join(MemberTypes<T>{});
  }
  using type = decltype(targets());
};
template <class E>
struct TargetsOf<array<E>> {
  using type = typename MemberTraits<E>::Targets;
};

template <class Done, class Todo>
struct Closure;
template <class Done>
struct Closure<Done, List<>> {
  using type = Done;
};
template <class... Done, class First, class... Rest>
struct Closure<List<Done...>, List<First, Rest...>> {
  template <class... More>
  static auto with(List<More...>) {
    return List<Rest..., More...>{};
  }
  static auto step() {
    if constexpr (IsIn<First, List<Done...>>::value) {
      return typename Closure<List<Done...>, List<Rest...>>::type{};
    } else {
      using Todo = decltype(with(typename TargetsOf<First>::type{}));
      return typename Closure<List<Done..., First>, Todo>::type{};
    }
  }
  using type = decltype(step());
};

/// The classes of a heap with the root class T: T itself is the first.
template <class T>
using TypesFrom = typename Closure<List<>, List<T>>::type;

// ---- descriptions -------------------------------------------------------------------------------

template <class M>
Member describe_member(const char* name, std::size_t offset) {
  using Traits = MemberTraits<M>;
  return {name, Traits::kKind, Traits::type(), offset, sizeof(M) / Traits::kCount, Traits::kCount};
}

template <class T>
struct Describe {
  static TypeInfo info() {
    require_persistent_class<T>();
    TypeInfo info;
    info.name = name_in_heaps<T>();
    info.bytes = sizeof(T);
    std::apply(
        [&](auto... fields) {
          (info.members.push_back(
               describe_member<typename decltype(fields)::type>(fields.name, fields.offset)),
           ...);
        },
        T::perdure_fields());
    if constexpr (!std::is_trivially_destructible_v<T>)
      info.destroy = [](void* at) { static_cast<T*>(at)->~T(); };
    return info;
  }
};
template <class E>
struct Describe<array<E>> {
  static TypeInfo info() {
    TypeInfo info;
    info.members.push_back(describe_member<E>("element", 8));
    info.name = "array<" + info.members[0].type + ">";
    if (info.members[0].kind != MemberKind::kValue)
      info.name = (info.members[0].kind == MemberKind::kRef ? "array<ref<" : "array<weak_ref<") +
                  info.members[0].type + ">>";
    info.bytes = 8;
    info.is_array = true;
    return info;
  }
};

template <class... T>
std::vector<TypeInfo> describe(List<T...>) {
  return {Describe<T>::info()...};
}

}  // namespace detail
}  // namespace perdure

// ---- PERDURE_FIELDS -----------------------------------------------------------------------------

#define PERDURE_PARENTHESES ()
#define PERDURE_EXPAND(...) \
  PERDURE_EXPAND_3(PERDURE_EXPAND_3(PERDURE_EXPAND_3(PERDURE_EXPAND_3(__VA_ARGS__))))
#define PERDURE_EXPAND_3(...) \
  PERDURE_EXPAND_2(PERDURE_EXPAND_2(PERDURE_EXPAND_2(PERDURE_EXPAND_2(__VA_ARGS__))))
#define PERDURE_EXPAND_2(...) \
  PERDURE_EXPAND_1(PERDURE_EXPAND_1(PERDURE_EXPAND_1(PERDURE_EXPAND_1(__VA_ARGS__))))
#define PERDURE_EXPAND_1(...) __VA_ARGS__
#define PERDURE_FIELD_LIST(Class, member, ...)                                                   \
  ::perdure::detail::FieldOf<decltype(Class::member)>{                                           \
      #member, offsetof(Class, member)} __VA_OPT__(,                                             \
                                                   PERDURE_FIELD_LIST_AGAIN PERDURE_PARENTHESES( \
                                                       Class, __VA_ARGS__))
#define PERDURE_FIELD_LIST_AGAIN() PERDURE_FIELD_LIST

/// In a persistent class: its name and all its fields, in their order (at most 64).
#define PERDURE_FIELDS(Class, ...)                                                                \
  static constexpr auto perdure_fields() {                                                        \
    return ::std::make_tuple(__VA_OPT__(PERDURE_EXPAND(PERDURE_FIELD_LIST(Class, __VA_ARGS__)))); \
  }                                                                                               \
  static_assert(true)
