// SPDX-License-Identifier: BSD-3-Clause
// The commands of `perdure` on files of pools, address spaces, object heaps and arenas.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::tools {

/// create, info, recover.
void add_pool_commands(CLI::App& app);
void add_check_command(CLI::App& app);
void add_reclaim_command(CLI::App& app);
void add_compact_command(CLI::App& app);
void add_dump_command(CLI::App& app);

}  // namespace perdure::tools
