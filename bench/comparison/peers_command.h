// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench peers`: other stores and ours, measured in one run on the same work.
#pragma once

#include "tools/command_line.h"

namespace perdure::bench::comparison {

/// Adds the command to `perdure-lab bench`.
void add_peers_command(tools::Command bench);

}  // namespace perdure::bench::comparison
