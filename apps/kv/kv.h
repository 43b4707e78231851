// SPDX-License-Identifier: BSD-3-Clause
// The embedded store for people and scripts: `perdure kv …`.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::kv {

void add_kv_commands(CLI::App& app);

/// `kv demo` and the worker process that it starts and kills.
void add_demo_command(CLI::App& kv);

}  // namespace perdure::kv
