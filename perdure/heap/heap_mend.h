// SPDX-License-Identifier: BSD-3-Clause
// Makes a heap with damaged metadata one that opens, in a private copy of which nothing reaches a file.
// What may be an object is never given out again: where it cannot be told what is free, it is kept.
#pragma once

#include <string>
#include <vector>

#include "perdure/region/region.h"

namespace perdure {

struct MendedHeap {
  std::vector<std::string> mended;  // as it was, by its check or by what stands around it
  std::vector<std::string> kept;    // what it was is not known
};
/// Requires: no log has records any more; no Heap is open on the region.
MendedHeap mend_heap(Region& region);

}  // namespace perdure
