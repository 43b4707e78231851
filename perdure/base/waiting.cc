// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/base/waiting.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace perdure {
namespace {

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

// Registered before main, where it costs nothing: once there are other threads, the kernel takes 10
// ms and more.
[[maybe_unused]] const bool asked_early = has_barriers();

}  // namespace

bool has_barriers() {
  static const bool has = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return has;
}

void barrier_everywhere() { (void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }

}  // namespace perdure
