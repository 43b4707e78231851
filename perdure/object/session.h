// SPDX-License-Identifier: BSD-3-Clause
// Session: the state of a thread's running transaction on an object heap. Fields and pointers find
// it by themselves; without one they throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "perdure/engine/transaction.h"
#include "perdure/object/layout.h"

namespace perdure::detail {

class HandleTable;
class ObjectCore;

struct Session {
  /// Null: no transaction at all, for the layers that NV-heaps §5.4 compares
  /// (ObjectCore::run_unprotected).
  Tx* tx = nullptr;
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;   // of the pool that can be addressed
  std::uint64_t serial = 0;  // another for each attempt of each thread
  ObjectCore* core = nullptr;
  std::size_t stripe = 0;
  Session* outer = nullptr;

  // What an attempt did, and what is completed or undone at its end.
  std::vector<Offset> unreferenced;  // objects whose count came to 0, or began there
  std::vector<Offset> born;          // objects that it made
  std::vector<std::uint32_t> taken;  // orphans' places
  std::vector<std::uint32_t> given;
  std::size_t deaths_left = 0;  // so many objects may still end in this transaction
  bool left_dead = false;       // some are on the list of dead objects
  std::uint64_t ended = 0;      // objects
  // What is not taken back with an attempt.
  struct LetGo {
    HandleTable* of;
    Offset object;
  };
  std::vector<LetGo> let_go;  // objects whose last handle went, of any heap

  static inline thread_local constinit Session* current = nullptr;

  bool holds(const void* address, std::size_t size) const {
    const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - base);
    return offset < bytes && size <= bytes - offset;
  }
  Offset offset_of(const void* address) const {
    return static_cast<Offset>(static_cast<const std::byte*>(address) - base);
  }

  template <class T>
  T load(const T& from) {
    if (tx == nullptr) [[unlikely]]
      return from;
    return tx->load(from);
  }
  template <class T>
  void store(T& to, T value) {
    if (tx == nullptr) [[unlikely]] {
      to = value;
      return;
    }
    tx->store(to, value);
  }
  object_layout::Header& header(Offset object) {
    return *reinterpret_cast<object_layout::Header*>(base + object - object_layout::kHeaderBytes);
  }
};

/// The running session, when the pool has grown to hold the bytes. Errors: throws Exception kMisuse
/// when it has not, and without one.
Session& session_grown(const void* address, std::size_t bytes);
[[noreturn]] void refuse_stale();
[[noreturn]] void refuse_null();

/// The running session, of which `address` must be a part.
/// Errors: throws Exception kMisuse.
inline Session& session_of(const void* address, std::size_t bytes) {
  Session* const session = Session::current;
  if (session == nullptr || !session->holds(address, bytes)) [[unlikely]]
    return session_grown(address, bytes);
  return *session;
}

}  // namespace perdure::detail
