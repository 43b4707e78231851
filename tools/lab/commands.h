// SPDX-License-Identifier: BSD-3-Clause
// The commands of `perdure-lab` that are not a benchmark's, and the option that its commands share.
#pragma once

#include <string>
#include <vector>

#include "papers/engine_kind.h"
#include "tools/command_line.h"

namespace perdure::tools {

/// --engine.
void add_engine_option(Command command, papers::EngineKind& engine);

void add_explore_command(Command app);
void add_torture_command(Command app);
void add_mutants_command(Command app);
void add_recover_command(Command app);
/// `program`: the words after --.
void add_sim_command(Command app, const std::vector<std::string>& program);

}  // namespace perdure::tools

namespace perdure::bench::reproduce {

/// `reproduce`: the evaluation of a paper, run again on this machine, with the paper's values beside ours.
void add_reproduce_command(tools::Command app);

}  // namespace perdure::bench::reproduce
