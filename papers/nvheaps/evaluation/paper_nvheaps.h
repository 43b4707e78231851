// SPDX-License-Identifier: BSD-3-Clause
// What "NV-Heaps: Making Persistent Objects Fast and Safe with Next-Generation, Non-Volatile Memories" (ASPLOS 2011) prints: Table 1,
// and what the text says about its figures, whose bars are only in pictures.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace perdure::bench::nvheaps::paper {

inline constexpr std::string_view kName = "nvheaps";
inline constexpr std::string_view kTitle =
    "NV-Heaps: Making Persistent Objects Fast and Safe with Next-Generation, Non-Volatile Memories "
    "(ASPLOS 2011)";

// Table 1: microseconds. What is printed as "<0.1" stands as 0.1, what as n/a as nothing.
struct Column {
  std::string_view name;
  std::array<std::optional<double>, 7>
      us;  // new/delete, V-to-NV, NV-to-NV, weak, nop tx, log for read, for write
};
inline constexpr std::optional<double> kNone{};
inline constexpr std::array<Column, 7> kTable1 = {{
    {"BASE", {0.1, 0.03, 0.03, kNone, kNone, kNone, kNone}},
    {"SAFE", {0.1, 0.05, 0.05, 0.05, kNone, kNone, kNone}},
    {"TX", {0.1, 0.11, 0.17, 0.20, 0.05, 0.17, 1.68}},
    {"C-TX DRAM", {0.1, 0.13, 0.25, 0.25, 0.05, 0.26, 1.99}},
    {"C-TX STTM", {0.75, 0.13, 0.72, 0.78, 0.05, 0.26, 5.55}},
    {"C-TX PCM", {2.16, 0.13, 1.68, 1.84, 0.05, 0.26, 12.67}},
    {"NoDur", {0.1, 0.08, 0.13, 0.15, 0.05, 0.21, 1.00}},
}};
inline constexpr std::string_view kWriteIsDearest =
    "in C-TX the most expensive operation is logging an object for writing (1.99 us)";
inline constexpr std::string_view kVolatileOperations =
    "V-to-NV pointers and read logging need no durability: the same on DRAM, STTM and PCM";
inline constexpr std::string_view kWriteLatency =
    "PCM makes logging for writing 6.4 times as expensive as DRAM, STTM 2.8 times";
inline constexpr double kPcmWrite = 6.4;
inline constexpr double kSttmWrite = 2.8;
inline constexpr std::string_view kTable1Text = "Table 1's own numbers";

// Figure 4.
inline constexpr std::string_view kAmortised =
    "four elements in a transaction amortise most of what it costs, beyond that the gain is "
    "marginal";
inline constexpr std::string_view kScaling = "eight threads do 7.5 times what one does";
inline constexpr double kScalingOfEight = 7.5;

// Figure 5.
inline constexpr std::string_view kDurability =
    "durability reduces performance by 40 % on average (NoDur to DRAM)";
inline constexpr double kDurabilityPercent = 40;
inline constexpr std::string_view kDurabilityMost =
    "durability costs SixDegs most: complex transactions and frequent epoch barriers";
inline constexpr std::string_view kSlowerMemory =
    "slower memory costs roughly in proportion to its latency: DRAM, then STTM, then PCM";
inline constexpr double kDramNs = 35, kSttmNs = 95, kPcmNs = 215;  // of a write
inline constexpr std::string_view kScaleWell =
    "with eight threads SPS, HashTable and BTree do 7.6, 7.3 and 7 times what one does";
inline constexpr std::array<double, 3> kScaleOfEight = {7.6, 7.3, 7.0};
inline constexpr std::string_view kScaleLess =
    "SixDegs and SSCA scale less well: long transactions, conflicts";

// Figure 6.
inline constexpr std::string_view kSafe =
    "SAFE takes a modest part of BASE's performance, of BTree 62 %, the most";
inline constexpr double kSafeBTreePercent = 62;
inline constexpr std::string_view kTransactions = "TX takes 82 % of SAFE's performance on average";
inline constexpr double kTransactionsPercent = 82;
inline constexpr std::string_view kBTreeSteep =
    "the price of TX is especially steep for BTree: a node in the log is many pointer copies";
inline constexpr std::string_view kIsolation = "C-TX takes 30 % of TX's performance on average";
inline constexpr double kIsolationPercent = 30;
inline constexpr std::string_view kSafety =
    "BASE is 11 times as fast as C-TX on average, with one thread";
inline constexpr double kSafetyFactor = 11;
inline constexpr std::string_view kReclaim =
    "with several threads C-TX lets HashTable, RBTree and SPS reclaim much of their lost "
    "performance";

// §3.5, not measured there.
inline constexpr std::string_view kWholeObjects =
    "whole objects are copied to the log, not fields: each log operation has a barrier, which that "
    "amortises, most when a transaction updates an object several times";

// Figure 7, four threads.
inline constexpr std::string_view kBerkeley =
    "NV-heap DRAM is 2 to 643 times as fast as Berkeley DB, on average 33 times";
inline constexpr double kBerkeleyMean = 33;
inline constexpr double kBerkeleyLeast = 2;
inline constexpr double kBerkeleyMost = 643;
inline constexpr std::string_view kStasis =
    "it is 13 to 814 times as fast as Stasis, on average 244 times";
inline constexpr std::string_view kRamDisk =
    "Berkeley DB on the RAM disk is 24 times as fast as on disk, 3.2 times as fast as on the SSD";
inline constexpr double kRamDiskOverSsd = 3.2;
inline constexpr double kRamDiskOverDisk = 24;
inline constexpr std::string_view kNoSync =
    "without waiting for the device Berkeley DB is 2 to 10 times as fast";
inline constexpr double kNoSyncLeast = 2;
inline constexpr double kNoSyncMost = 10;
inline constexpr std::string_view kPcmBTree =
    "the BTree on PCM is 6.7 times as fast as Berkeley DB on the same technology; SPS and "
    "HashTable "
    "are similar";
inline constexpr double kPcmBTreeFactor = 6.7;
inline constexpr std::string_view kSixDegrees =
    "in SixDegs Berkeley DB is nearly as fast, in part because it counts no references";

// Figure 8.
inline constexpr std::string_view kMemcached =
    "memcached on a persistent hash table: within 8 to 16 % of the original, 5 % "
    "without durability; up to 39 times Memcachedb with synced writes, 3.9 times without";
inline constexpr double kMemcachedLeastPercent = 8;
inline constexpr double kMemcachedMostPercent = 16;
inline constexpr double kMemcachedNoDurPercent = 5;
inline constexpr double kOverMemcachedbSynced = 39;
inline constexpr double kOverMemcachedbFast = 3.9;

}  // namespace perdure::bench::nvheaps::paper
