// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench tpcc`: TPC-C on SQLite, on the VFSes and in the modes that are asked for.
#pragma once

#include "tools/command_line.h"

namespace perdure::bench::tpcc {

/// Adds the command to `perdure-lab bench`.
void add_tpcc_command(tools::Command bench);

}  // namespace perdure::bench::tpcc
