// SPDX-License-Identifier: BSD-3-Clause
// What "Blurred Persistence: Efficient Transactions in Persistent Memory" (ACM TOS 12(1), 2016) prints: Table II in full, and
// what the text says about its figures, whose bars are only in pictures.
#pragma once

#include <array>
#include <string_view>

namespace perdure::bench::reproduce::paper_blurred {

inline constexpr std::string_view kName = "blurred";
inline constexpr std::string_view kTitle =
    "Blurred Persistence: Efficient Transactions in Persistent Memory (TOS 2016)";

// §5.2.1, Figure 9: gains in percent, and the mean of the workloads.
struct Gain {
  double low;
  double high;
  double mean;
  std::string_view text;
};
inline constexpr Gain kOverBase{56.3, 143.7, 86.3, "BPPM over BASE: 56.3 to 143.7 %, mean 86.3 %"};
inline constexpr Gain kOverMnemosyne{74.6, 74.6, 74.6, "BPPM over MNE: mean 74.6 %"};
inline constexpr Gain kInLog{9.7, 50.5, 21.3, "XIL alone: 9.7 to 50.5 %, mean 21.3 %"};
inline constexpr Gain kVolatileCheckpoint{52.2, 84.8, 63.5,
                                          "VCBP alone: 52.2 to 84.8 %, mean 63.5 %"};
inline constexpr double kDegradation = 62.1;
inline constexpr std::string_view kDegradationText =
    "persistence costs BASE 62.1 % of the throughput of NP; BPPM almost halves that";

// §5.1.
inline constexpr std::string_view kWriteCombining =
    "MNE is BASE with write combining, which bypasses the cache, for faster log persistence";

// §5.2.2, Figure 10.
inline constexpr std::string_view kThreads =
    "throughput grows from 1 to 4 threads on 4 cores, and drops at 8, when aborts go from 1 % to "
    "over 50 %";
inline constexpr std::string_view kThreadsOverhead =
    "BPPM reduces the persistence overhead constantly, by about 40 % (hash table) and 43 % "
    "(red-black tree)";
inline constexpr std::array<double, 2> kThreadsRemoved = {40, 43};

// §5.3.1, Figure 11.
inline constexpr std::string_view kValues =
    "larger values: fewer transactions, more bytes a second; BPPM's gain drops from 39.7 % (8 B) "
    "to 23.0 % (4096 B) of the overhead";
inline constexpr double kSmallestValue = 8;
inline constexpr double kSmallestRemoved = 39.7;
inline constexpr double kLargestValue = 4096;
inline constexpr double kLargestRemoved = 23.0;
// §5.3.2, Figure 12.
inline constexpr std::string_view kTransactions =
    "larger transactions: more operations a second with persistence, about as many without";
// §5.3.3, Figures 13 and 14.
inline constexpr std::string_view kLogs = "larger logs: slightly more throughput";
inline constexpr double kRecoverySmallUs = 3.2;   // a log of 0.1 MB
inline constexpr double kRecoveryLargeUs = 49.8;  // of 2 MB
inline constexpr std::string_view kRecovery =
    "recovery time grows almost linearly with the log: 3.2 us at 0.1 MB, 49.8 us at 2 MB";
// §5.3.4, Figure 15.
inline constexpr std::string_view kIdle =
    "BPPM is ahead of MNE, synchronous or asynchronous, at every idle time";
// §5.4.1, Figure 16.
inline constexpr std::string_view kSlowMemory =
    "BPPM gains 74.1 % over BASE at 35 ns and triples it at 2000 ns; VCBP alone is then nearly "
    "five times BASE, ahead of BPPM";
inline constexpr double kFastestNs = 35;
inline constexpr double kSlowestNs = 2000;
// §5.4.2, Figure 17.
inline constexpr std::string_view kAdaptive =
    "BPPM-A is as good as the better of BPPM and BP(VCBP)";
inline constexpr std::string_view kSlowModes =
    "all workloads but SPS have worse performance in BPPM than in BP(VCBP) at 1000 and 2000 ns";
inline constexpr std::string_view kStatic =
    "a static threshold of the latency is not flexible: with one of 200 ns SPS does not run in the "
    "better mode, BPPM";
inline constexpr double kThresholdNs = 200;

// Table II: warm-up, ms.
inline constexpr std::array<double, 5> kLatenciesNs = {35, 95, 150, 1000, 2000};
struct WarmUp {
  std::string_view work;
  std::array<double, 5> ms;
};
inline constexpr std::array<WarmUp, 5> kTable2 = {{{"SPS", {39, 53, 52, 62, 62}},
                                                   {"Hash", {49, 49, 52, 51, 72}},
                                                   {"RBTree", {35, 56, 50, 60, 74}},
                                                   {"B+Tree", {112, 112, 110, 126, 128}},
                                                   {"KVStore", {216, 202, 210, 229, 245}}}};
inline constexpr std::string_view kWarmUp =
    "a warm-up of 10,000 transactions takes tens or hundreds of milliseconds";

}  // namespace perdure::bench::reproduce::paper_blurred
