// SPDX-License-Identifier: BSD-3-Clause
// Starts programs under `perdure run` and brings them back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/run/keeper.h"

namespace perdure::run {

/// How a program is run. All but what concerns one invocation is kept in the state directory, for its resumes.
struct RunOptions {
  std::string directory;
  Keeper::Options epochs{};
  bool hold = false;                 // output waits for the commit of its epoch
  std::vector<std::string> command;  // of `run`
  bool back = false;                 // of `resume`: from the epoch before the last
  std::string statistics;  // a file for them, as JSON; "-": a table, to stderr; empty: none
};

/// Runs the program to its end. Returns what the tool shall exit with: the program's exit code, or
/// 128 and the signal that ended it.
/// Errors: Exception: kInvalid: a program that cannot be carried; kExists: the directory holds a
///         run; kBusy: somebody uses it; kNotFound; kIo.
int run_program(const RunOptions& options);

/// Brings a program back and waits for its end, with the options that it was run with.
/// Errors: Exception, no epoch is lost; files may be back at it: kNotFound: nothing to resume, or a
///         file is gone; kBusy; kCorrupt; kInvalid: another kernel, another CPU, a mapped file that
///         has changed; kIo.
int resume_program(const RunOptions& options);

}  // namespace perdure::run
