// SPDX-License-Identifier: BSD-3-Clause
// What isolation costs: threads that meet in the same words against threads that do not, and long
// read-only transactions beside writers (the concurrency of Mnemosyne §5: encounter-time locks, a
// global time stamp, invisible readers).
#pragma once

#include <string>
#include <vector>

#include "bench/system.h"
#include "measure/measure.h"

namespace perdure::bench {

struct ContentionRow {
  std::string name;
  unsigned readers = 0;  // threads
  unsigned writers = 0;
  bool pinned = false;
  double cpu_part =
      0;  // of the time for which the threads had CPUs: where it is low they seldom met
  // Of all threads of the kind together, in wall time; with a CPU for each thread, without what
  // other jobs of the machine took.
  Quartiles reads_per_s;
  Quartiles writes_per_s;
  // Attempts that met another thread and ran again, for each transaction that committed. Where none
  // committed, all attempts.
  double read_retries = 0;
  double write_retries = 0;
  double longest_ns = 0;  // that one transaction took, with all its attempts and waits
  /// What the thread did that got through least, of what all writers did on the average.
  double least_share = 1;
};

/// Every row with `options.threads` threads; with one, only those that mean something then.
/// Errors: throws Exception kCorrupt when a scan sees half of a transfer.
std::vector<ContentionRow> measure_contention(const SystemOptions& options, const RaceRules& rules);

}  // namespace perdure::bench
