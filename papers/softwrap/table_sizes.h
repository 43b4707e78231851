// SPDX-License-Identifier: BSD-3-Clause
// How large the tables of the engine softwrap-tables are.
#pragma once

#include "perdure/alias/alias_table.h"

namespace perdure::softwrap {

/// Sizes are powers of two. A table is full when 1 in `threshold` of its entries is taken.
struct TableSizes {
  alias::AliasLimits limits{};
  std::uint64_t threshold = 8;
};

}  // namespace perdure::softwrap
