// SPDX-License-Identifier: BSD-3-Clause
// Raising the limits of a pool that is there: capacity, log slots, roots. Tables that become too small
// for them move into segments of the heap, because objects have to stay where they are.
#pragma once

#include <cstdint>
#include <string>

#include "perdure/domain/primitives.h"
#include "perdure/expert.h"
#include "perdure/region/region.h"

namespace perdure {

struct Limits {
  std::uint64_t capacity_bytes;
  std::uint32_t log_slots;
  std::uint32_t root_entries;

  /// Of a pool that is there, and of options.
  static Limits of(const Geometry& geometry) {
    return {geometry.capacity_bytes, geometry.log_slots, geometry.root_entries};
  }
  static Limits of(const ExpertOptions& options) {
    return {options.capacity_bytes, options.log_slots, options.root_entries};
  }
  bool are_above(const Limits& other) const {
    return capacity_bytes > other.capacity_bytes || log_slots > other.log_slots ||
           root_entries > other.root_entries;
  }
};

/// Raises each limit that is lower. Recovers the pool first, so that its logs are empty.
///
///   1. say that the logs were never used, if they will move; fence   crash here ⇒ empty logs
///   2. make the file longer; write the new tables behind its end;
///      say in the segment table that tables lie there; fence         crash here ⇒ all as before, as
///                                                                    nothing behind the end counts
///   3. write the copy of the superblock that is not in use; fence    crash here ⇒ either copy, whole:
///                                                                    the newer one counts
///   4. write the other copy, and the size; fence                     crash here ⇒ as 3. The size is at
///                                                                    least where the tables end
///   5. give back the space of the old tables
///
/// Requires: nobody else uses the region; its addresses have room for the capacity
///           (Region::OpenOptions::room_bytes). It must be opened anew afterwards.
/// Durable:  on return.
/// Errors:   kInvalid, kNoSpace, those of recovery; then the pool is as it was. kPoisoned: open it anew.
Result<void> raise_limits(Region& region, Primitives& primitives, const Limits& limits);

/// The same for a file that nobody has open, if it has a lower limit.
/// Errors: also those of Pool::open().
Result<void> raise_limits(const std::string& path, const ExpertOptions& options);

}  // namespace perdure
