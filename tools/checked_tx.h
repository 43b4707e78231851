// SPDX-License-Identifier: BSD-3-Clause
// CheckedTx: looks at structures that nobody vouches for. A container's own code walks them,
// because containers are written against the Tx face; every access that leaves the heap ends the
// walk instead of the process, and so does a walk in circles.
#pragma once

#include "perdure/engine/transaction.h"
#include "perdure/region/region.h"

namespace perdure::tools {

/// Read-only. Errors: throws Exception kCorrupt on an access outside the heap, kMisuse on a write.
class CheckedTx {
 public:
  CheckedTx(Tx& tx, const Region& region)
      : tx_(&tx),
        base_(region.base()),
        begin_(region.superblock().heap_offset),
        end_(region.grown_bytes()) {}

  template <Field T>
  T load(const T& field) {
    check(&field, sizeof(T));
    return tx_->load(field);
  }
  void read(void* to, const void* from, std::size_t bytes) {
    check(from, bytes);
    tx_->read(to, from, bytes);
  }
  template <class T>
  T* at(link<T> to) const {
    return tx_->at(to);
  }
  template <class T>
  link<T> link_to(const T* object) const {
    return tx_->link_to(object);
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
    if (++accesses_ > kMostAccessesPerWord * ((end_ - begin_) / kWordBytes))
      throw Exception(Code::kCorrupt, "goes in circles");
    const auto offset = static_cast<Offset>(static_cast<const std::byte*>(address) - base_);
    if (!inside(offset, bytes, begin_, end_))
      throw Exception(Code::kCorrupt, "refers to " + std::to_string(bytes) + " bytes at byte " +
                                          std::to_string(offset) + ", outside the heap");
  }

 private:
  static constexpr std::uint64_t kMostAccessesPerWord = 32;

  [[noreturn]] static void refuse() { throw Exception(Code::kMisuse, "a check does not write"); }

  Tx* tx_;
  std::uint64_t accesses_ = 0;
  const std::byte* base_;
  Offset begin_;
  Offset end_;
};
static_assert(Transaction<CheckedTx>);

}  // namespace perdure::tools
