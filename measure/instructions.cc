// SPDX-License-Identifier: BSD-3-Clause
#include "measure/instructions.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace perdure::bench {

InstructionCounter::InstructionCounter() {
  perf_event_attr what{};
  what.size = sizeof(what);
  what.type = PERF_TYPE_HARDWARE;
  what.config = PERF_COUNT_HW_INSTRUCTIONS;
  what.exclude_kernel = 1;
  what.exclude_hv = 1;
  fd_ = static_cast<int>(::syscall(SYS_perf_event_open, &what, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}
InstructionCounter::~InstructionCounter() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<std::uint64_t> InstructionCounter::read() const {
  std::uint64_t value = 0;
  if (fd_ < 0 || ::read(fd_, &value, sizeof(value)) != sizeof(value)) return std::nullopt;
  return value;
}

}  // namespace perdure::bench
