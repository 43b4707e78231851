// SPDX-License-Identifier: BSD-3-Clause
// What `perdure-lab sim` runs, by name: the paper's three micro-benchmarks, its two key-value stores, the
// programs that stand for SPEC's, any other program, or a recorded trace.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "papers/thynvm/memory/access.h"
#include "papers/thynvm/memory/emulated_program.h"

namespace perdure::memory {

struct WorkloadOptions {
  unsigned factor = 1;  // of the micro-benchmarks' sizes; the paper's are 3
  std::uint64_t seed = 1;
  std::uint32_t value_bytes = 256;  // of the key-value stores
  std::uint64_t operations = 20'000;
  std::uint64_t end_epoch = 0;  // theirs: after so many operations each an end-of-epoch instruction
  std::uint64_t instructions = 100'000'000;  // of programs: at most so many, after the skipped ones
  std::uint64_t skip = 0;                    // of `program`
  std::string input = "/dev/null";           // of `program`: its standard input
  std::string plugin;                        // empty: the one built with this library
};

/// A source, with what it needs while it runs (an input directory, which goes with it).
struct Workload {
  std::string name;
  std::string what;  // for reports: program, version, input
  std::unique_ptr<AccessSource> source;
  const EmulatedProgram* program = nullptr;  // the same, where it is one
  std::shared_ptr<void> keeps;
};

struct WorkloadName {
  std::string name, what;
};
/// All that have names.
std::vector<WorkloadName> workload_names();

/// Errors: Exception: kInvalid for a name that is none, naming all; what the sources say.
Workload make_workload(const std::string& name, const WorkloadOptions& options);
/// A program with its arguments, as the shell would find it.
Workload make_program(const std::vector<std::string>& command, const WorkloadOptions& options);
Workload make_recorded(const std::string& path);

}  // namespace perdure::memory
