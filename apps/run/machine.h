// SPDX-License-Identifier: BSD-3-Clause
// What of a machine an image depends on.
#pragma once

#include <cpuid.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "apps/run/layout.h"
#include "apps/run/memory_map.h"
#include "perdure/base/crc32c.h"

namespace perdure::run {

/// Fills the record for this process. False without a vDSO. Uses no libc; 64 KiB of static memory.
inline bool describe_machine(MachineRecord& machine) {
  static char maps[64 << 10];
  utsname names{};
  syscall(SYS_uname, &names);
  __builtin_memcpy(machine.kernel_release, names.release, sizeof machine.kernel_release - 1);
  const long bytes = read_whole("/proc/self/maps", maps, sizeof maps);
  if (bytes <= 0) return false;
  const char* at = maps;
  MapLine line;
  while (next_line(at, maps + bytes, line)) {
    if (!line.is("[vdso]")) continue;
    machine.vdso_bytes = static_cast<std::uint32_t>(line.end - line.begin);
    machine.vdso_crc = crc32c(reinterpret_cast<const void*>(line.begin), machine.vdso_bytes);
  }
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  __cpuid(1, a, b, c, d);
  machine.cpu_features[0] = c & ~(std::uint32_t{1} << 27);  // OSXSAVE: told by xcr0
  machine.cpu_features[1] = d;
  if ((c >> 27 & 1) != 0) {
    std::uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    machine.xcr0 = std::uint64_t{high} << 32 | low;
  }
  __cpuid_count(7, 0, a, b, c, d);
  machine.cpu_features[2] = b;
  machine.cpu_features[3] = c;
  return machine.vdso_bytes != 0;
}

}  // namespace perdure::run
