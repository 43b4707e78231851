// SPDX-License-Identifier: BSD-3-Clause
// The embedded store for people and scripts: `perdure kv …`.
#pragma once

#include "tools/command_line.h"

namespace perdure::kv {

void add_kv_commands(tools::Command app);

/// `kv demo` and the worker process that it starts and kills.
void add_demo_command(tools::Command kv);

}  // namespace perdure::kv
