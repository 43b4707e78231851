// SPDX-License-Identifier: BSD-3-Clause
// The consistency conditions of TPC-C (clause 3.3.2), all twelve.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/tpcc/schema.h"

namespace perdure::bench::tpcc {

struct Condition {
  int number;  // as in 3.3.2.1 … 3.3.2.12
  const char* claim;
  /// Yields a sentence for each place where the claim does not hold. ?1: orders of a district that
  /// were delivered when it was loaded.
  const char* query;
};
std::span<const Condition> conditions();

/// What does not hold, with the number of the condition and the first place; empty: all is well.
std::vector<std::string> violations(Connection& connection, const Size& size);

}  // namespace perdure::bench::tpcc
