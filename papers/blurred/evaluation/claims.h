// SPDX-License-Identifier: BSD-3-Clause
// What the text of Blurred Persistence states, held against the sections that measured it: functions of their series alone, so
// that tests can give them other series. A series has the name of its system; where there are several workloads,
// "<workload>: <system>".
#pragma once

#include "measure/claim.h"
#include "measure/section.h"

namespace perdure::bench::reproduce::paper_blurred {

/// What the paper calls the overhead that BPPM reduces: the share of the time that persistence adds to a transaction, BASE's
/// beyond NP's, which BPPM takes away again; in percent. The series have this prefix. Nothing: BASE is as quick as NP.
Found overhead_removed(const Section& section, const std::string& prefix, double x);

/// Figure 9: every system of one thread, by workload; BASE+stream among them.
void judge_one_thread(Section& section);
/// Figure 10, on so many CPUs: Hash and RBTree, with "<workload>: <system>, aborts" in percent.
void judge_threads(Section& section, unsigned cpus);
/// Figures 11 and 12: BASE, MNE, BPPM, NP; in Figure 11 also "BPPM, values" in MB/s.
void judge_value_sizes(Section& section);
void judge_transaction_sizes(Section& section);
/// Figure 13: BPPM on every workload.
void judge_log_sizes(Section& section);
/// Figure 14: "most", in us, by KiB of the log.
void judge_recovery(Section& section);
/// Figure 15: BASE, MNE, MNE-ASYNC, BPPM.
void judge_idle_times(Section& section);
/// Figure 16.
void judge_memory_latencies(Section& section);
/// Figure 17: BP(VCBP), BPPM, BPPM-A and "static", which is one of the first two by the latency alone, on every workload.
void judge_adaptive(Section& section);
/// Table II: "<workload>" and "paper: <workload>" in ms.
void judge_warm_up(Section& section);

}  // namespace perdure::bench::reproduce::paper_blurred
