// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/instantiations.h"

namespace perdure {

template class Redo<Adr<x86::Clwb>>;
template class Redo<AnyMemory>;
template class Redo<Eadr>;
template class Redo<Dram>;
template class Redo<InPrivatePages<AnyMemory>>;
template class Redo<InPrivatePages<Sync<RegionDevice>>>;

}  // namespace perdure
