// SPDX-License-Identifier: BSD-3-Clause
// Fills a database as clause 4.3.3.1 has it.
#pragma once

#include <cstdint>

#include "bench/tpcc/schema.h"

namespace perdure::bench::tpcc {

/// All in one transaction. In one build of the tool the same size and seed give the same rows, but for
/// dates.
/// Requires: an empty database.
void load(Connection& connection, const Size& size, std::uint64_t seed);

}  // namespace perdure::bench::tpcc
