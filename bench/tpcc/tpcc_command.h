// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench tpcc`: TPC-C on SQLite, on the VFSes and in the modes that are asked for.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::bench::tpcc {

/// Adds the command to `perdure-lab bench`.
void add_tpcc_command(CLI::App& bench);

}  // namespace perdure::bench::tpcc
