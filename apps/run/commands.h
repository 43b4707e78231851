// SPDX-License-Identifier: BSD-3-Clause
// perdure run, resume and inspect.
#pragma once

namespace CLI {
class App;
}

namespace perdure::run {

void add_run_commands(CLI::App& app);

}  // namespace perdure::run
