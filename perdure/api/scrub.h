// SPDX-License-Identifier: BSD-3-Clause
// Scrubbing: reads what is at rest in a pool from the device, past the system's cache, and compares it
// with its checksums.
#pragma once

#include <string>

#include "perdure/region/page_sums.h"

namespace perdure {

/// Of a pool that anybody may have open, who goes on; of what is written meanwhile nothing is said.
/// Pools before format version 6 have no sums: no area is at rest.
/// Errors: those of Region::read_superblock(), kCorrupt (the size of the pool), kIo.
Result<PageSumsReport> scrub_pool(const std::string& path, const ShowAreas& show = nullptr);

/// Gives all pages of a pool that nobody has open their sums anew, however many there are. They vouch
/// for damage that is there as well: scrub_pool() first.
/// Errors: those of Pool::open(); kInvalid: a pool before format version 6.
Result<void> complete_sums(const std::string& path);

}  // namespace perdure
