// SPDX-License-Identifier: BSD-3-Clause
// The transaction face: all that a container sees. A container is written once, as a template over
// `Tx`, and runs under every engine, and as an ordinary volatile structure with PlainTx.
#pragma once

#include <concepts>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "perdure/persistable.h"
#include "perdure/pptr.h"

namespace perdure {

/// load(field) / store(field, value)   one field of a persistent object, of 1, 2, 4 or 8 bytes
/// read(to, from, bytes) / write(to, from, bytes)   any extent, from or to persistent memory
/// at(link) / link_to(object)          between links and addresses
/// allocate(bytes) / free(object)      take effect with the transaction; what memory holds at first
///                                     is undefined
///
/// Between two accesses other transactions may commit, but what one transaction reads is always one
/// consistent state. Any access may end the current attempt by throwing `Conflict`; the transaction
/// is then run again. Do not catch it.
template <class T>
concept Transaction = requires(T tx, std::uint64_t& field, const std::uint64_t& source, void* to,
                               const void* from, std::size_t bytes, pptr<std::uint64_t> to_word) {
  { tx.load(source) } -> std::same_as<std::uint64_t>;
  tx.store(field, std::uint64_t{});
  tx.read(to, from, bytes);
  tx.write(to, from, bytes);
  { tx.at(to_word) } -> std::same_as<std::uint64_t*>;
  { tx.link_to(&field) } -> std::same_as<pptr<std::uint64_t>>;
  { tx.allocate(bytes) } -> std::same_as<void*>;
  tx.free(to);
};

/// Thrown through user code to end an attempt that met another transaction. Not an error: it never
/// leaves `atomically`. It is deliberately not derived from std::exception.
struct Conflict {};

template <class T>
concept Field = std::is_trivially_copyable_v<T> &&
                (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

/// The volatile baseline: a load is a load, memory comes from malloc, links hold addresses. No
/// atomicity at all.
class PlainTx {
 public:
  template <Field T>
  T load(const T& field) const {
    return field;
  }
  template <Field T>
  void store(T& field, std::type_identity_t<T> value) {
    field = value;
  }
  void read(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  template <class F>
  decltype(auto) view(const void* from, std::size_t bytes, F&& f) const {
    return f(std::string_view(static_cast<const char*>(from), bytes));
  }
  void write(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  template <class T>
  T* at(pptr<T> to) const {
    return reinterpret_cast<T*>(to.offset);
  }
  template <class T>
  pptr<T> link_to(const T* object) const {
    return {reinterpret_cast<std::uint64_t>(object)};
  }
  void* allocate(std::size_t bytes) {
    void* memory = std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void free(void* object) { std::free(object); }
};
static_assert(Transaction<PlainTx>);

}  // namespace perdure
