// SPDX-License-Identifier: BSD-3-Clause
// What "SoftWrAP: A Lightweight Framework for Transactional Support of Storage Class Memory" (MSST 2015) prints: Table II, and
// what the text says about its figures, whose curves are only in pictures.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace perdure::bench::reproduce::paper_softwrap {

inline constexpr std::string_view kName = "softwrap";
inline constexpr std::string_view kTitle =
    "SoftWrAP: A Lightweight Framework for Transactional Support of Storage Class Memory (MSST "
    "2015)";

inline constexpr double kLineNs = 1000;  // T_w
inline constexpr double kWaitNs = 220;   // T_s

// Table II: microseconds of a wrap, measured.
inline constexpr std::array<double, 3> kStores = {10, 15, 20};
inline constexpr std::array<double, 3> kNonAtomicUs = {10.226, 15.223, 20.251};
inline constexpr std::array<double, 3> kUndoUs = {25.653, 37.198, 48.701};
inline constexpr std::array<double, 3> kSoftWrapUs = {6.043, 7.956, 11.049};
// The same, estimated.
inline constexpr std::array<double, 3> kNonAtomicEstimates = {10.220, 15.220, 20.220};
inline constexpr std::array<double, 3> kUndoEstimates = {25.430, 37.530, 48.630};
inline constexpr std::array<double, 3> kSoftWrapEstimates = {5.720, 7.970, 10.220};

// Table I: microseconds of a wrap of n stores, by the formulas that Table II calls estimates.
constexpr double log_lines(double stores) {
  const auto bytes = static_cast<std::uint64_t>(12 * stores);
  return static_cast<double>((bytes + 63) / 64);
}
constexpr double non_atomic_estimate_us(double stores) {
  return (stores * kLineNs + kWaitNs) / 1e3;
}
constexpr double undo_estimate_us(double stores) {
  return (stores * (2 * kLineNs + kWaitNs) + (log_lines(stores) + 1) * kLineNs + kWaitNs) / 1e3;
}
constexpr double softwrap_estimate_us(double stores, double alias_ns) {
  const double aliasing = stores * alias_ns;
  const double streaming = log_lines(stores) * kLineNs;
  return (kLineNs + (aliasing > streaming ? aliasing : streaming) + kWaitNs) / 1e3;
}
/// T_alias of a wrap that took so long: what the formula above leaves for each store.
constexpr double alias_ns_of(double stores, double wrap_us) {
  return (wrap_us * 1e3 - kLineNs - kWaitNs) / stores;
}
inline constexpr double kAliasNs = 450;
inline constexpr std::string_view kEstimates =
    "Table I's formulas predict the times; T_alias, which one needs, comes from the wraps of 10 "
    "stores and is 450 ns";

inline constexpr std::string_view kTable1 =
    "a wrap of n stores waits once, and n + 1 times with an undo log; SoftWrAP writes its log in "
    "whole lines, the others each word where it is";
inline constexpr std::string_view kTable2 =
    "a wrap takes SoftWrAP 0.52 to 0.59 of the time of Non-Atomic, and 0.21 to 0.24 of Undo Log's";
inline constexpr std::string_view kStoreTime =
    "once the buffer is full a random store takes T_w, a sequential one a fraction: a line takes "
    "many";
inline constexpr std::string_view kArrivals =
    "at low rates SoftWrAP answers first and Undo Log takes more than double Non-Atomic's time; "
    "at most Undo Log does 39,000 wraps a second, the others nearly 100,000";
inline constexpr std::string_view kTables =
    "throughput falls with tables of 2^12 entries or less, and of more than 2^20";
inline constexpr std::string_view kSpikes =
    "responses have a spike each time that a table is full, about once a millisecond";
inline constexpr std::string_view kThreads =
    "SoftWrAP is much quicker than Undo Log, and close to Non-Atomic";
inline constexpr std::string_view kSlowMemory =
    "SoftWrAP is behind Non-Atomic with fast memory, equal at T_w = 600 ns (6.22 us), and takes "
    "6.64 us at 1500 ns";
inline constexpr std::string_view kSizes =
    "with one store Non-Atomic is ahead, with two SoftWrAP is as good, beyond it is ahead";
inline constexpr std::string_view kReuse =
    "reuse across wraps raises SoftWrAP's throughput, and that of no other";

// Figure 14: microseconds of an insert into a B+ tree, as the text tells them.
inline constexpr double kTreeNonAtomicUs = 7.4;
inline constexpr double kTreeUndoUs = 24.4;
inline constexpr double kTreeSoftWrapUs = 7.8;
inline constexpr std::string_view kTree =
    "sequential inserts: Non-Atomic 7.4 us, Undo Log 24.4 us, SoftWrAP 7.8 us; random ones alike";

// Figure 16: TPC-C on SQLite.
inline constexpr std::string_view kVariants =
    "SQLite on SoftWrAP (Figure 15 B) writes no journal, so that it writes less and waits less "
    "than "
    "SQLite with its journal in persistent memory (A)";
inline constexpr double kDiskPerS = 20;  // transactions, at most, on the disk of the time
inline constexpr std::string_view kTpcc =
    "SoftWrAP is almost as fast as Non-Atomic, and over 30 times as fast as the disk (more than "
    "600 transactions a second) with T_w of 1 and 2 us";

}  // namespace perdure::bench::reproduce::paper_softwrap
