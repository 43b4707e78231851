// SPDX-License-Identifier: BSD-3-Clause
// What SoftWrAP's text and tables state, held against the sections that measured it: functions of their series alone, so that
// tests can give them other series.
#pragma once

#include "measure/section.h"

namespace perdure::bench::reproduce::paper_softwrap {

/// Tables I and II. Series: a system's name in us, "<system>, fences" and "<system>, lines", "paper: <system>".
void judge_wraps(Section& section);
/// Figure 4. Series: "emulated, random", "emulated, sequential", "DRAM, random", "DRAM, sequential".
void judge_store_times(Section& section);
/// Figure 6. Series: a system's name in us, "<system>, rate".
void judge_arrivals(Section& section);
/// Figure 7. Series: "SoftWrAP".
void judge_alias_tables(Section& section);
/// Figure 8. Series: "highest", "mean", "tables filled".
void judge_responses_over_time(Section& section);
/// Figure 9, on so many CPUs. Series: a system's name.
void judge_threads(Section& section, unsigned cpus);
/// Figures 10 and 11. Series: a system's name in us.
void judge_line_times(Section& section);
void judge_wrap_sizes(Section& section);
/// Figure 12. Series: a system's name.
void judge_reuse(Section& section);
/// Figure 14: x is 0 for sequential inserts, 1 for random ones.
void judge_tree_inserts(Section& section);
/// Figure 16. Series: a system's name in tx/s.
void judge_tpcc(Section& section);

}  // namespace perdure::bench::reproduce::paper_softwrap
