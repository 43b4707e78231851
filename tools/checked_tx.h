// SPDX-License-Identifier: BSD-3-Clause
// CheckedTx: looks at structures that nobody vouches for. A container's own code walks them,
// because containers are written against the Tx face; every access that leaves the heap ends the
// walk instead of the process, and so does a walk in circles.
#pragma once

#include <cstring>
#include <span>
#include <string>

#include "perdure/api/pool_core.h"
#include "perdure/pool.h"

namespace perdure::tools {

/// Read-only. Errors: throws Exception kCorrupt on an access outside the heap, kMisuse on a write.
class CheckedTx {
 public:
  CheckedTx(Tx& tx, const Pool& pool)
      : tx_(&tx), base_(tx.at(pptr<std::byte>{})), memory_(pool.memory()) {}
  /// Outside of any transaction. Requires: a pool that was opened to be inspected.
  explicit CheckedTx(Pool& pool) : base_(core_of(pool).region().base()), memory_(pool.memory()) {}

  template <Field T>
  T load(const T& field) {
    check(&field, sizeof(T));
    return tx_ != nullptr ? tx_->load(field) : field;
  }
  void read(void* to, const void* from, std::size_t bytes) {
    check(from, bytes);
    if (tx_ != nullptr) {
      tx_->read(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }
  template <class T>
  T* at(pptr<T> to) const {
    return reinterpret_cast<T*>(const_cast<std::byte*>(base_) + to.offset);
  }
  template <class T>
  pptr<T> link_to(const T* object) const {
    return {static_cast<Offset>(reinterpret_cast<const std::byte*>(object) - base_)};
  }
  template <Field T>
  void store(T&, std::type_identity_t<T>) {
    refuse();
  }
  void write(void*, const void*, std::size_t) { refuse(); }
  void* allocate(std::size_t) { refuse(); }
  void free(void*) { refuse(); }

  /// Errors: throws Exception kCorrupt when the bytes are not all in the heap, and when more was
  /// looked at than any sound structure makes one transaction look at.
  void check(const void* address, std::size_t bytes) {
    if (++accesses_ > kMostAccessesPerWord * (memory_.size() / kWordBytes))
      throw Exception(Code::kCorrupt, "goes in circles");
    const auto* const at = static_cast<const std::byte*>(address);
    const auto skip = static_cast<std::uint64_t>(at - memory_.data());
    if (skip > memory_.size() || bytes > memory_.size() - skip)
      throw Exception(Code::kCorrupt, "refers to " + std::to_string(bytes) + " bytes at byte " +
                                          std::to_string(static_cast<Offset>(at - base_)) +
                                          ", outside the heap");
  }

 private:
  static constexpr std::uint64_t kMostAccessesPerWord = 32;

  [[noreturn]] static void refuse() { throw Exception(Code::kMisuse, "a check does not write"); }

  Tx* tx_ = nullptr;
  std::uint64_t accesses_ = 0;
  const std::byte* base_;
  std::span<const std::byte> memory_;
};
static_assert(Transaction<CheckedTx>);

}  // namespace perdure::tools
