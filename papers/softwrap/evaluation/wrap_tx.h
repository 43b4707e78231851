// SPDX-License-Identifier: BSD-3-Clause
// WrapTx: a wrap as containers see a transaction, so that one runs on the paper's face. Isolation is the caller's.
#pragma once

#include "perdure/api/pool_core.h"
#include "perdure/pptr.h"
#include "perdure/tx.h"
#include "perdure/wraps.h"

namespace perdure::bench::reproduce {

/// Both must outlive it. What it does goes to the wrap that the calling thread has open.
class WrapTx {
 public:
  WrapTx(Pool& pool, Wraps& wraps) : base_(core_of(pool).region().base()), wraps_(&wraps) {}
  template <Field T>
  T load(const T& field) const {
    return wraps_->load(field);
  }
  template <Field T>
  void store(T& field, std::type_identity_t<T> value) {
    wraps_->store(field, value);
  }
  void read(void* to, const void* from, std::size_t bytes) const { wraps_->read(to, from, bytes); }
  void write(void* to, const void* from, std::size_t bytes) { wraps_->write(to, from, bytes); }
  template <class T>
  T* at(pptr<T> to) const {
    return to ? reinterpret_cast<T*>(base_ + to.offset) : nullptr;
  }
  template <class T>
  pptr<T> link_to(const T* object) const {
    if (object == nullptr) return {};
    return {static_cast<Offset>(reinterpret_cast<const std::byte*>(object) - base_)};
  }
  void* allocate(std::size_t bytes) { return wraps_->allocate(bytes); }
  void free(void* object) { wraps_->free(object); }

 private:
  std::byte* base_;
  Wraps* wraps_;
};
static_assert(Transaction<WrapTx>);

}  // namespace perdure::bench::reproduce
