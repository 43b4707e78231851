// SPDX-License-Identifier: BSD-3-Clause
// The programs that `perdure-lab sim` measures beside the paper's micro-benchmarks: eight that stand
// for the SPEC CPU2006 programs of the paper's evaluation, which nobody may pass on, and more of
// daily use. Where Debian has the program itself, in whatever version, it is that; else one whose
// inner loops work on memory as its do. Inputs are made here, from nothing but this code.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "papers/thynvm/memory/emulated_program.h"

namespace perdure::memory {

struct MeasuredProgram {
  std::string_view name;
  std::string_view stands_for;  // of SPEC CPU2006; empty: nothing
  std::string_view what;        // for readers: what is run on what
  std::string_view package;     // of Debian; empty: a guest of ours (papers/thynvm/guest)
  std::string_view path;        // of the program, or the guest's name
  std::uint64_t skip;           // instructions of a start that only reads; a guest's mark tells
};

/// In the paper's order, then the others.
std::span<const MeasuredProgram> measured_programs();

/// Errors: Exception (kInvalid) naming all programs, when there is none of this name.
const MeasuredProgram& measured_program(std::string_view name);

/// What is measured, for reports: the package with its version, or "perdure" for a guest.
/// Errors: Exception (kNotFound) when the package is not installed.
std::string version_of(const MeasuredProgram& program);

/// Writes the program's input into this folder, which must exist, and says how to start it there.
/// Two runs give the same records, but for glpsol, which looks at the clock and prints it.
/// Errors: Exception: kNotFound when the program is not installed; kIo.
Launch prepare(const MeasuredProgram& program, const std::string& directory);

}  // namespace perdure::memory
