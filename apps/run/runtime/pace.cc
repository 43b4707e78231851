// SPDX-License-Identifier: BSD-3-Clause
// When the next epoch ends: some time after the last one, or as the budget says.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/budget.h"
#include "apps/run/runtime/runtime.h"

namespace perdure::run {
namespace {

std::uint64_t last_ns;        // when the last epoch ended, or failed to
std::uint64_t fixed_wait_ns;  // from then to the next, unless the budget says so
Budget budget(1);
struct Touched {
  std::uint64_t faults, memory;
} touched_before;  // at the last epoch's end
struct Accounted {
  std::uint64_t time_ns, program_ns, supervisor_ns;
} accounted;  // when it was asked last; of this process

std::uint64_t processors() {
  static std::uint64_t count = 0;
  if (count == 0) {
    std::uint64_t mask[128] = {};
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    for (long i = 0; i < bytes / 8; ++i)
      count += static_cast<std::uint64_t>(__builtin_popcountll(mask[i]));
    if (count == 0) count = 1;
  }
  return count;
}

/// Of what the supervisor has worked since it was asked last: the part that was at the program's expense. It takes turns
/// with the program on processors and shares their caches and memory, the more, the more of them the program uses.
std::uint64_t supervisors_cost() {
  const Accounted now{now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_PROCESS_CPUTIME_ID),
                      shared().supervisor_cpu_ns};
  const Accounted last = accounted;
  accounted = now;
  const std::uint64_t all = (now.time_ns - last.time_ns) * processors();
  const std::uint64_t used = now.program_ns - last.program_ns;
  if (last.time_ns == 0 || all == 0) return 0;
  return (now.supervisor_ns - last.supervisor_ns) / 1000 * (used < all ? used * 1000 / all : 1000);
}

/// Minor faults, and the most memory there has been, in pages.
Touched touched_ever() {
  rusage usage{};
  syscall(SYS_getrusage, RUSAGE_SELF, &usage);
  return {static_cast<std::uint64_t>(usage.ru_minflt),
          static_cast<std::uint64_t>(usage.ru_maxrss) * 1024 / kPageBytes};
}

}  // namespace

// About: the kernel's notes of first writes are faults, too, and so is new memory, unless it comes in huge pages.
std::uint64_t touched_pages() {
  const Touched now = touched_ever();
  const std::uint64_t faults = now.faults - touched_before.faults;
  const std::uint64_t more = now.memory - touched_before.memory;
  return faults > more ? faults : more;
}

std::uint64_t time_until_next() {
  const std::uint64_t period =
      shared().period_ns != 0 ? fixed_wait_ns : budget.period_ns(touched_pages());
  const std::uint64_t since = now_ns(CLOCK_MONOTONIC) - last_ns;
  return since < period ? period - since : 0;
}

// With a budget: the pause, what the kernel's notes of first writes cost, and the supervisor.
void plan_next(std::uint64_t pause_ns, std::uint64_t written_pages, std::uint64_t touched) {
  const std::uint64_t fixed = shared().period_ns;
  if (fixed == 0) {
    return budget.spend(pause_ns + written_pages * fault_ns() + supervisors_cost(),
                        now_ns(CLOCK_MONOTONIC) - last_ns, touched);
  }
  // However long the pauses are, the program gets half of the time.
  fixed_wait_ns = fixed > 2 * pause_ns ? fixed - pause_ns : pause_ns;
}

void begin_next(bool ended) {
  last_ns = now_ns(CLOCK_MONOTONIC);
  if (ended) touched_before = touched_ever();
}

void begin_pace() {
  accounted = {};
  fixed_wait_ns = shared().period_ns;
  budget = Budget(shared().budget_millionths);
  begin_next(true);
}

}  // namespace perdure::run
