// SPDX-License-Identifier: BSD-3-Clause
// What ThyNVM's text states and its bars show, held against the sections that simulated it: functions of their series alone, so
// that tests can give them other series. Text and bars are judged apart, because they contradict each other in places. A
// system's series is called "<reading>: <system>", where there are two stores "<store>, <reading>: <system>".
#pragma once

#include <string>

#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::thynvm {

/// Figure 7: time, Ideal DRAM 1; beside it "paper: <system>".
void judge_micro(Section& section, Reading reading);
/// The same sentence's clauses on the patterns as programs, at whatever places the section has.
void judge_compiled(Section& section, Reading reading);
/// A goal of ours, not the paper's: its protocol with all that can overlap is the quickest in every pattern.
void judge_overlap(Section& section, Reading reading);
/// Figure 8: bytes for a byte, and "<reading>: <system>, stopped".
void judge_traffic(Section& section, Reading reading);
/// Sections 2.3 and 5: "<reading>: thynvm, stopped" and that of pages alone; and what the tables take.
void judge_schemes(Section& section, Reading reading, double table_bytes);
/// Figures 9 and 10; beside them "paper: <store>, <system>".
void judge_throughput(Section& section, Reading reading);
void judge_bandwidth(Section& section, Reading reading);
/// Figure 11: IPC, Ideal DRAM 1; beside it "paper: thynvm".
void judge_programs(Section& section, Reading reading);
/// Figure 12: "<reading>" and "<reading>, written".
void judge_table_sizes(Section& section, Reading reading);

}  // namespace perdure::bench::thynvm
