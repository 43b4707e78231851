// SPDX-License-Identifier: BSD-3-Clause
// §6.3.2: what it costs to open a pool again after its process was killed.
#pragma once

#include <cstdint>
#include <string>

namespace perdure::bench::reproduce {

/// The process that is killed: makes a pool with `objects` records at home, commits `transactions`
/// more, tells its parent and waits for the end. Never returns.
[[noreturn]] void work_until_killed(const std::string& path, std::uint64_t objects,
                                    std::uint64_t transactions);

}  // namespace perdure::bench::reproduce
