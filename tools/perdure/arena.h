// SPDX-License-Identifier: BSD-3-Clause
// Commands meet an arena (perdure/arena.h) as a file with a magic of its own.
#pragma once

#include <string>

#include "tools/report.h"

namespace perdure::tools {

/// What `perdure check` says of an arena; report["sound"] is the verdict.   Errors: throws as ArenaInspection::of().
Report check_arena(const std::string& file);
/// What `perdure info` says of it.
Report describe_arena(const std::string& file);

}  // namespace perdure::tools
