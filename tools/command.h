// SPDX-License-Identifier: BSD-3-Clause
// What the commands that open a pool share.
#pragma once

#include <string>

#include "perdure/expert.h"
#include "perdure/pool.h"
#include "tools/command_line.h"
#include "tools/report.h"

namespace perdure::tools {

/// An option in bytes that takes "64G".
Option add_size(Command command, const std::string& name, std::uint64_t& value,
                const std::string& what);
/// --truncation.
void add_truncation_option(Command command, Truncation& truncation);
/// Options of a command that opens a pool for writing: --domain, --truncation and
/// --recovery-target.
void add_open_options(Command command, ExpertOptions& options);
/// Options of a command that may create one: --capacity, --segment, --ring, --slots, --roots.
void add_create_options(Command command, ExpertOptions& options);

/// Where a pool is and what its acknowledgements are worth; the head of most reports.
Report describe(const Pool& pool, const std::string& path);
Report describe(const RecoveryReport& recovery);

}  // namespace perdure::tools
