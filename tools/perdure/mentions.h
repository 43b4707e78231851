// SPDX-License-Identifier: BSD-3-Clause
// Which heap objects nobody can find any more, also where types are unknown: an object counts as found when any word that
// can be found itself could be its address, or a link to it or into it. What is left over is lost for certain, as long as
// programs keep addresses and links in whole, aligned words.
#pragma once

#include <vector>

#include "perdure/address_space.h"
#include "perdure/pool.h"
#include "tools/reachability.h"

namespace perdure::tools {

struct Unmentioned {
  std::vector<Reachability::Object> objects;  // by offset
  std::vector<RegionEntry> regions;           // of an address space, by offset
};

/// The search starts from the pool's roots; in an address space from its static variables and its regions, too. Records of
/// append logs (perdure::Log) are searched as the program sees them.
/// Errors:  throws Exception kCorrupt when a log is damaged.
/// Threads: none else may use the pool.
Unmentioned find_unmentioned(Pool& pool);
Unmentioned find_unmentioned(AddressSpace& space);

/// Every live object of the heap, by offset.
std::vector<Reachability::Object> live_objects(Pool& pool);

}  // namespace perdure::tools
