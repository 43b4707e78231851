// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench`: what transactions cost, beside the hardware's floor and the peers, all measured
// in the same run.
#pragma once

#include "tools/command_line.h"

namespace perdure::bench {

/// Adds the `bench` subcommand. Its callback throws Exception when a directory cannot be used.
void add_bench_command(tools::Command app);

}  // namespace perdure::bench
