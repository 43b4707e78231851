// SPDX-License-Identifier: BSD-3-Clause
// What NV-heaps' text and Table 1 state, held against the sections that measured it: functions of their series alone, so that
// tests can give them other series. The names of the series are those of the sources that measure; of the two logs,
// "undo-objects" is the paper's.
#pragma once

#include "measure/section.h"

namespace perdure::bench::nvheaps {

/// Table 1: "<column>" and "<column>, of 64", "paper: <column>".
void judge_operations(reproduce::Section& section);
/// Figure 4: "<engine>, 1 thread" and with 2.
void judge_transaction_sizes(reproduce::Section& section);
/// Figures 5 and 6, and the two logs, by workload.
void judge_performance(reproduce::Section& section);
void judge_price_of_safety(reproduce::Section& section);
void judge_logs(reproduce::Section& section);
/// Figure 7, by workload.
void judge_other_systems(reproduce::Section& section);
/// Figure 8, which is not run.
void judge_memcached(reproduce::Section& section);

}  // namespace perdure::bench::nvheaps
