// SPDX-License-Identifier: BSD-3-Clause
// The instantiations of the library's engine: one for each kind of memory on which a commit flushes
// line by line, one for whatever instruction the CPU has otherwise, one for private pages over
// memory, one for files. There are only six, because each is a copy of every commit path.
#pragma once

#include "perdure/domain/any_memory.h"
#include "perdure/domain/sync.h"
#include "perdure/engine/redo.h"

namespace perdure {

extern template class Redo<Adr<x86::Clwb>>;
extern template class Redo<AnyMemory>;
extern template class Redo<Eadr>;
extern template class Redo<Dram>;
extern template class Redo<InPrivatePages<AnyMemory>>;
extern template class Redo<InPrivatePages<Sync<RegionDevice>>>;

/// Calls make(domain) with the domain of memory of `kind`, one of the first four, and returns what
/// that returns.
template <class Make>
auto on_memory(DomainKind kind, Make make) {
  switch (kind) {
    case DomainKind::kEadr: return make(Eadr{});
    case DomainKind::kDram: return make(Dram{});
    default: break;
  }
  if (x86::best_write_back() == x86::WriteBack::kClwb) return make(Adr<x86::Clwb>{});
  return make(AnyMemory(kind));
}

}  // namespace perdure
