// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/domain/x86.h"

#include <cpuid.h>

namespace perdure::x86 {

WriteBack best_write_back() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return WriteBack::kClflush;
  if ((ebx & (1u << 24)) != 0) return WriteBack::kClwb;
  if ((ebx & (1u << 23)) != 0) return WriteBack::kClflushopt;
  return WriteBack::kClflush;
}

}  // namespace perdure::x86
