// SPDX-License-Identifier: BSD-3-Clause
// What Mnemosyne's text and tables state, held against the sections that measured it: functions of their series alone, so that
// tests can give them other series. The names of the series are those of the sources that measure.
#pragma once

#include <string>
#include <vector>

#include "measure/pcm_disk.h"
#include "measure/section.h"

namespace perdure::bench::reproduce::paper {

/// "perdure, 2 threads"
std::string of_threads(const std::string& name, unsigned threads);
inline constexpr const char* kSynchronous = "perdure synchronous, 1 thread";
inline constexpr const char* kSynchronousDeletes = "perdure synchronous's deletes, 1 thread";

/// §6.3, by lines written: ns of each word and line; what an insert has of both, at the first
/// place.
inline constexpr const char* kEachWord = "each word";
inline constexpr const char* kEachLine = "each line";
inline constexpr const char* kInsertWords = "words of an insert";
inline constexpr const char* kInsertLines = "lines of an insert";
void judge_costs(Section& section, const EmulatedMemory& memory);
/// Figures 4, 5 and 7, by value size; with these numbers of threads, on so many CPUs.
void judge_latency(Section& section, const std::vector<unsigned>& threads, unsigned cpus);
void judge_throughput(Section& section, const std::vector<unsigned>& threads, unsigned cpus);
/// "gain at 1000 ns" is Berkeley DB's time over ours; "perdure at 1000 ns" and "Berkeley DB at 1000 ns" are microseconds.
void judge_slow_memory(Section& section, const std::vector<double>& latencies_ns);
/// Table 4.
void judge_store(Section& section);
/// Several threads of its stores: "perdure", "perdure, 2 threads".
void judge_store_threads(Section& section, unsigned threads, unsigned cpus);
/// "perdure" and "back-mdb" on a disk; the other three in emulated memory, if they were measured.
inline constexpr const char* kLdapInMemory = "perdure, in memory";
inline constexpr const char* kMdbOnPcmDisk = "back-mdb on PCM-disk";
inline constexpr const char* kMdbNotSynced = "back-mdb on PCM-disk, not synced";
void judge_ldap(Section& section);
/// Table 5.
void judge_trees(Section& section);
/// Table 6.
void judge_logs(Section& section);
/// Figure 6: "decrease, 50 % idle" in percent.
void judge_truncation(Section& section, const std::vector<unsigned>& idle_percent);
/// §6.4, the same in slower memory, "Berkeley DB, 10 % idle" beside it.
void judge_slow_truncation(Section& section, const std::vector<unsigned>& idle_percent);
/// §6.3.2.
void judge_boot(Section& section);
void judge_remap(Section& section);
void judge_reincarnation(Section& section);

}  // namespace perdure::bench::reproduce::paper
