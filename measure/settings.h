// SPDX-License-Identifier: BSD-3-Clause
// How large an evaluation is, and where it takes place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/measure.h"
#include "measure/pcm_disk.h"
#include "measure/section.h"
#include "papers/nvheaps/evaluation/sizes.h"

namespace perdure::bench::reproduce {

/// Of the evaluation of Blurred Persistence.
struct BlurredSettings {
  std::vector<unsigned> threads = {1, 2, 4, 8};                            // Figure 10
  std::vector<std::uint64_t> value_bytes = {8, 64, 256, 1024, 4096};       // Figure 11
  std::vector<std::uint64_t> operations = {1, 2, 4, 8, 16, 32};            // Figure 12
  std::vector<std::uint64_t> log_kib = {104, 256, 512, 1024, 2048, 4096};  // Figures 13 and 14
  std::vector<unsigned> idle_percent = {90, 70, 50, 30, 10, 0};            // Figure 15
  std::vector<double> latencies_ns = {35, 95, 150, 1000, 2000};  // Figures 16, 17, Table II
  std::vector<unsigned> look_up_percent = {0, 50, 90, 99};       // mixes, which the paper has not
  std::uint64_t live = 2'000;                                    // entries of each thread
  std::uint64_t warm_up = 10'000;                                // transactions, Table II
};

/// Of the evaluation of SoftWrAP.
struct SoftwrapSettings {
  std::uint64_t array_words = std::uint64_t{1} << 23;
  std::vector<double> arrivals_per_s = {10e3, 20e3, 40e3, 60e3, 80e3, 100e3, 150e3, 200e3};
  std::vector<std::uint64_t> alias_words = {1 << 8,  1 << 10, 1 << 12, 1 << 14, 1 << 16,
                                            1 << 18, 1 << 20, 1 << 21, 1 << 22};
  std::vector<unsigned> threads;  // none: up to the machine's CPUs, and twice as many
  std::vector<double> line_ns = {0, 200, 400, 600, 1000, 1500, 2000};
  std::vector<unsigned> stores = {1, 2, 5, 10, 20, 40};
  std::vector<unsigned> reuse_percent = {0, 10, 25, 50, 75, 90};
  std::uint64_t tree_inserts = 20'000;
  std::vector<double> tpcc_line_ns = {0, 500, 1000, 2000};
  std::int64_t tpcc_divisor = 10;  // of the standard's numbers of items, customers and orders
};

/// Of the evaluation of NV-heaps.
struct NvHeapsSettings {
  nvheaps::Sizes sizes;
  std::uint64_t elements = 1'000'000;                                       // Figure 4
  std::vector<std::uint64_t> updates = {1, 2, 4, 8, 16, 32, 64, 128, 256};  // the same
  nvheaps::Sizes beside_others{.array_words = 100'000,                      // Figure 7
                               .keys = 20'000,
                               .vertices = 1024,
                               .edges = 4096};
};

/// Of the evaluation of ThyNVM, which is simulated.
struct ThyNvmSettings {
  unsigned factor = 1;                 // of the micro-benchmarks; the paper's is 3
  std::uint64_t records = UINT64_MAX;  // of a micro-benchmark: at most so many
  std::vector<std::size_t> values = {0, 1, 2, 3,
                                     4};  // of Figures 9 and 10: which of the paper's sizes
  std::uint64_t operations = 10'000;
  std::uint64_t instructions = 50'000'000;  // of each program
  std::vector<std::uint32_t> block_entries = {256, 512, 1024, 2048, 4096, 8192};
  std::vector<double> epochs_ms = {1, 3, 10, 30};
  std::vector<double> nvm_percent = {50, 100, 200, 400};
};

/// Of `perdure run`, ThyNVM's checkpointing in software, which is measured.
struct RuntimeSettings {
  RaceRules rules{3, 2};
  double work = 1;      // of the programs: some two seconds for most
  double most_s = 720;  // for all programs: fewer rounds if need be
  std::uint64_t steady_mib = 256;
  double steady_s = 6;
  unsigned resumes = 5;
};

struct Settings {
  std::string name;  // quick, default or full
  std::string dir;
  std::string disk_dir = ".";  // Figure 7 of NV-heaps, the state directories of `perdure run`
  std::uint64_t seed = 1;
  RaceRules rules;
  EmulatedMemory memory;                    // of every experiment but Figure 7
  std::vector<std::uint64_t> value_bytes;   // Figures 4 to 7
  std::vector<std::uint64_t> record_bytes;  // Table 6
  std::vector<unsigned> threads;            // Figures 4 and 5
  std::vector<unsigned> idle_percent;       // Figure 6
  std::vector<double> latencies_ns;         // Figure 7
  std::uint64_t live = 0;                   // records of each thread in a hash table or tree
  std::vector<std::uint64_t> tree_nodes;    // Table 5
  std::uint64_t tree_inserts = 0;           // in one run of Table 5
  std::vector<std::uint64_t> replayed;      // transactions to replay, §6.3.2
  std::uint64_t heap_objects = 0;           // in the heap that is rebuilt, §6.3.2
  std::vector<std::uint64_t> frame_mib;     // of memory to reconstruct regions of, §6.3.2
  std::vector<std::uint64_t> regions;       // of an address space, §6.3.2
  std::uint64_t ldap_entries = 0;           // added to a directory, Table 4
  BlurredSettings blurred;
  SoftwrapSettings softwrap;
  NvHeapsSettings nvheaps;
  ThyNvmSettings thynvm;
  RuntimeSettings runtime;
};

Settings default_settings();
Settings quick_settings();
Settings full_settings();

/// Says on standard error how far an experiment is: `done` of `total` steps.
void tell_progress(const std::string& what, std::size_t done, std::size_t total);
void tell_end(double seconds);

// The experiments. Each measures, puts the paper's values beside what it found, and judges.

/// Figure 4 (write latency) and Figure 5 (update throughput): two views of the same runs.
std::vector<Section> measure_hash_table(const Settings& settings);
/// Figure 6: asynchronous against synchronous truncation.
Section measure_truncation(const Settings& settings);
/// Figure 7: slower memory.
Section measure_latencies(const Settings& settings);
/// Table 4, the part of Tokyo Cabinet.
Section measure_store(const Settings& settings);
/// Table 4, the part of OpenLDAP.
Section measure_ldap(const Settings& settings);
/// Table 5: updating a tree against serialising it.
Section measure_trees(const Settings& settings);
/// Table 6: the two logs.
Section measure_log_throughput(const Settings& settings);
/// §6.3.2: what opening a pool costs.
Section measure_reincarnation(const Settings& settings);
/// §6.3.2: reconstructing the regions of all frames when the machine boots.
Section measure_boot(const Settings& settings);
/// §6.3.2: mapping the regions of a program when it starts.
Section measure_remap(const Settings& settings);

// Those of Blurred Persistence.

/// Figure 9: one thread.
Section measure_one_thread(const Settings& settings);
/// Figure 10: threads and aborts.
std::vector<Section> measure_threads(const Settings& settings);
/// Figures 11 and 12: the size of values and of transactions.
Section measure_value_sizes(const Settings& settings);
Section measure_transaction_sizes(const Settings& settings);
/// Figures 13 and 14: the size of logs.
Section measure_log_sizes(const Settings& settings);
Section measure_recovery(const Settings& settings);
/// Figure 15: idle time.
Section measure_idle_times(const Settings& settings);
/// Figure 16: slower memory.
Section measure_memory_latencies(const Settings& settings);
/// Not in the paper: look-ups among the updates.
Section measure_mixes(const Settings& settings);
/// Figure 17 and Table II: the adaptive choice.
std::vector<Section> measure_adaptive(const Settings& settings);

// Those of SoftWrAP.

/// Tables I and II, Figure 5.
Section measure_wraps(const Settings& settings);
/// Figure 4: the emulated memory itself.
Section measure_store_times(const Settings& settings);
/// Figure 6: arrival rates.
Section measure_arrivals(const Settings& settings);
/// Figure 7.
Section measure_alias_tables(const Settings& settings);
/// Figure 8.
Section measure_responses_over_time(const Settings& settings);
/// Figure 9.
Section measure_wrap_threads(const Settings& settings);
/// Figure 10.
Section measure_line_times(const Settings& settings);
/// Figure 11.
Section measure_wrap_sizes(const Settings& settings);
/// Figure 12.
Section measure_reuse(const Settings& settings);
/// Figures 13 and 14.
Section measure_tree_inserts(const Settings& settings);
/// Figure 16: TPC-C on SQLite, where SQLite is.
Section measure_tpcc(const Settings& settings);

}  // namespace perdure::bench::reproduce
