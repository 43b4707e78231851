// SPDX-License-Identifier: BSD-3-Clause
// What "Mnemosyne: Lightweight Persistent Memory" (ASPLOS 2011) prints. Tables are given in full;
// of the figures, whose bars are only in pictures, what the text says about them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace perdure::bench::reproduce::paper {

inline constexpr std::string_view kName = "mnemosyne";
inline constexpr std::string_view kTitle = "Mnemosyne: Lightweight Persistent Memory (ASPLOS 2011)";

/// A range that the text states, and the sentence it stands in.
struct Range {
  double low;
  double high;
  std::string_view text;
};

// §6.3, Figures 4 and 5.
inline constexpr double kSmallValueBytes = 2048;  // "smaller than 2048B"
inline constexpr Range kWriteLatencyGain{
    6, 6,
    "one thread, values below 2048 B: write latency almost six times better than Berkeley DB"};
inline constexpr std::string_view kLargeValues =
    "values above 2048 B: Berkeley DB's write latency is the lower one";
inline constexpr std::uint64_t kInsertBytes = 64;
inline constexpr double kInsertUs = 4.3;
inline constexpr std::string_view kInsertTotal = "a hash table insert of 64 B costs 4.3 us in all";
inline constexpr double kInsertUpdates = 15;
inline constexpr double kInsertDistinctLines = 5;
inline constexpr std::string_view kInsertParts =
    "a hash table insert of 64 B is on average 15 updates to 5 distinct cache lines";
inline constexpr double kWordNs = 190;
inline constexpr double kSmallWriteSetLines = 128;
inline constexpr std::string_view kWordCost =
    "instrumenting and logging costs 190 ns for each word written, in write sets of less than 128 "
    "lines";
inline constexpr std::string_view kWordCostOfLarge =
    "for larger write sets it increases linearly with the number of lines";
inline constexpr double kLineNs = 250;
inline constexpr std::string_view kLineCost =
    "committing, a fence and flushes, costs up to 250 ns for each distinct line";
inline constexpr std::string_view kLatencyOfThreads =
    "more threads do not hurt the write latency, which rises slightly; Berkeley DB's throughput "
    "with two threads comes at the cost of its write latency";
inline constexpr Range kThroughputGain{
    10, 14, "several threads: 10-14x the update throughput of Berkeley DB"};
inline constexpr std::string_view kScaling =
    "throughput grows almost linearly with the threads; Berkeley DB's does not beyond two";
inline constexpr std::string_view kThroughputOfLarge =
    "values above 2048 B: the throughput is the higher one nevertheless, because deletes cost the "
    "same at every size";

// §6.3.1, Figure 6.
inline constexpr Range kTruncationGain{
    7, 31,
    "idle 50 or 90 % of the time: asynchronous truncation lowers the write latency by 7-31 %"};
inline constexpr Range kTruncationLoss{
    0, 42, "idle 10 % of the time: it raises the write latency, by up to 42 % at 4 KB"};

// §6.4, Figure 7.
inline constexpr std::string_view kAlwaysFaster =
    "for small data sizes Mnemosyne is always faster, with every latency";
inline constexpr std::string_view kSlowTruncation =
    "10 % idle at 2000 ns: asynchronous truncation would reduce the write latency of 1024 and 2048 "
    "B by 70 and 60 %";
inline constexpr double kSlowTruncationNs = 2000;
struct SlowTruncation {
  std::uint64_t value_bytes;
  double less_percent;
};
inline constexpr std::array<SlowTruncation, 2> kSlowTruncations = {{{1024, 70}, {2048, 60}}};
inline constexpr std::string_view kSlowTruncationAhead =
    "this would enable Mnemosyne to still perform better than the disk-based interface";
struct SlowMemory {
  double latency_ns;
  double gain;  // for small values
  std::string_view text;
};
inline constexpr std::array<SlowMemory, 2> kSlowMemory = {{
    {1000, 3, "1000 ns: 200 percent better than Berkeley DB for small values"},
    {2000, 2, "2000 ns: 100 percent better than Berkeley DB for small values"},
}};
inline constexpr double kParityLatencyNs = 2000;
inline constexpr double kParityBytes = 1024;
inline constexpr std::string_view kParity =
    "2000 ns: Berkeley DB and Mnemosyne perform the same for inserts of 1024 B";

// §6.2, Table 4: updates per second, one thread.
struct StoreRow {
  std::uint64_t value_bytes;
  double msync_on_pcm_disk;
  double mnemosyne;
};
inline constexpr std::array<StoreRow, 2> kTable4 = {{{64, 19382, 42057}, {1024, 2044, 30361}}};
inline constexpr Range kStoreGain{2, 15, "about 2-15 times faster than Tokyo Cabinet with msync"};
inline constexpr std::string_view kStoreTable = "Table 4's own numbers for Tokyo Cabinet";
inline constexpr double kStoreThreadsLoss = 9;
inline constexpr double kStoreThreadsGain = 10;
inline constexpr std::string_view kStoreThreads =
    "with several threads the throughput of Tokyo Cabinet on Mnemosyne degrades by 9 %, because "
    "transactions abort";
inline constexpr std::string_view kPeerThreads =
    "with several threads the throughput of Tokyo Cabinet on PCM-disk increases by 10 %, but is "
    "still far below Mnemosyne";

// §6.2, Table 4: OpenLDAP, adds per second, 16 threads.
inline constexpr unsigned kLdapThreads = 16;
inline constexpr double kLdapMnemosyne = 7350;
inline constexpr double kLdapBerkeley = 5428;
inline constexpr double kLdapNotSynced = 6024;
inline constexpr std::string_view kLdapGain =
    "35 percent more updates than with back-bdb, its transactional back end";
inline constexpr std::string_view kLdapGainOverNotSynced =
    "22 percent more than with back-ldbm, which syncs now and then and has no transactions";

// §6.3, Table 5.
struct TreeRow {
  std::uint64_t nodes;
  double insert_us;
  double serialize_us;
  double inserts_per_serialization;
};
inline constexpr std::array<TreeRow, 4> kTable5 = {{{1024, 4.7, 517, 189},
                                                    {8192, 5.1, 3413, 1345},
                                                    {65536, 5.5, 33859, 9202},
                                                    {262144, 5.8, 143776, 24788}}};
inline constexpr std::string_view kTreeShare =
    "about 10 percent of the tree can be updated in the time that it takes to serialise it once";
inline constexpr std::string_view kTreeGrowth =
    "the insert latency grows only slightly with the tree: 4.7 us at 1K nodes, 5.8 us at 256K";

// §6.3.1, Table 6: MB/s.
struct LogThroughput {
  std::uint64_t record_bytes;
  double base;
  double tornbit;
};
inline constexpr std::array<LogThroughput, 6> kTable6 = {{{8, 17, 34},
                                                          {64, 128, 227},
                                                          {256, 416, 591},
                                                          {1024, 881, 929},
                                                          {2048, 1088, 1045},
                                                          {4096, 1244, 1093}}};
inline constexpr std::string_view kTornbitSmall =
    "records below 2048 B: the torn-bit log is up to 100 percent better";
inline constexpr std::string_view kTornbitLarge =
    "from 2048 B on the torn-bit log is the slower one";
inline constexpr std::string_view kLogTable = "Table 6's own numbers";

// §6.3.2.
inline constexpr double kBootMsPerGib = 734;
inline constexpr std::string_view kBoot =
    "a region for each frame, the worst case: 734 ms for 1 GB of memory, less than a second";
inline constexpr double kRemapMs = 1.1;
inline constexpr std::string_view kRemap = "remapping the persistent regions: about 1.1 ms";
inline constexpr double kScavengeMs = 89;
inline constexpr double kReincarnationMs = 100;
inline constexpr std::string_view kReincarnation = "remap, scavenge and replay: less than 100 ms";
inline constexpr Range kReplayUs{3, 76, "3-76 us for each transaction replayed"};

}  // namespace perdure::bench::reproduce::paper
