// SPDX-License-Identifier: BSD-3-Clause
// The commands of `perdure` on files of pools, address spaces, object heaps and arenas.
#pragma once

#include "tools/command_line.h"

namespace perdure::tools {

/// create, info, grow, recover.
void add_pool_commands(Command app);
void add_check_command(Command app);
void add_reclaim_command(Command app);
void add_compact_command(Command app);
void add_salvage_command(Command app);
void add_backup_commands(Command app);
void add_scrub_command(Command app);
void add_dump_command(Command app);

}  // namespace perdure::tools
