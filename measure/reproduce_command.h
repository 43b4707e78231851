// SPDX-License-Identifier: BSD-3-Clause
// `perdure reproduce`: the evaluation of a paper, run again on this machine, with the paper's values
// beside ours.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::bench::reproduce {

/// Adds the `reproduce` subcommand. Its callback throws Exception when a directory or file cannot
/// be used.
void add_reproduce_command(CLI::App& app);

}  // namespace perdure::bench::reproduce
