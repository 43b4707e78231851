// SPDX-License-Identifier: BSD-3-Clause
// What the parts of the restorer share.
#pragma once

#include <cstdint>

#include "apps/run/plan.h"
#include "apps/run/raw_syscall.h"

namespace perdure::run {

inline constexpr std::uint64_t kParking = kRestorerBase + (std::uint64_t{1} << 30);  // of the vDSO

inline const Plan& plan() { return *reinterpret_cast<const Plan*>(kPlanBase); }
template <class T>
const T* array(std::uint64_t offset) {
  return reinterpret_cast<const T*>(kPlanBase + offset);
}

/// Says what failed, and ends the process.
[[noreturn]] void fail(const char* what, std::uint64_t value, long error = 0);
inline void must(long result, const char* what, std::uint64_t value) {
  if (failed(result)) fail(what, value, result);
}

// --- attributes.cc
/// Makes memory of the restorer's own that holds what was mapped of its file: the kernel allows a
/// process another program file when nothing of the old one is mapped any more.
void leave_program_file();
/// The descriptor of the image's program file, or -1.
long open_program_file();
/// When all threads are there: locks that closing a file has dropped, signals, timers.
void bring_back_events();
/// Last, as limits and priorities may keep the restorer itself from its work.
void bring_back_limits();

}  // namespace perdure::run
