// SPDX-License-Identifier: BSD-3-Clause
// perdure run, resume and inspect.
#pragma once

#include "tools/command_line.h"

namespace perdure::run {

void add_run_commands(tools::Command app);

}  // namespace perdure::run
