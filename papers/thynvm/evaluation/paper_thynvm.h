// SPDX-License-Identifier: BSD-3-Clause
// What "ThyNVM: Enabling Software-Transparent Crash Consistency in Persistent Memory Systems" (MICRO 2015) reports: the bars of
// its figures, read off the vector graphics (exact to half a percent), and the sentences of its text. Where the two contradict
// each other, both stand here.
#pragma once

#include <array>
#include <string_view>

namespace perdure::bench::thynvm::paper {

inline constexpr std::string_view kName = "thynvm";
inline constexpr std::string_view kTitle =
    "ThyNVM: Enabling Software-Transparent Crash Consistency in Persistent Memory Systems (MICRO "
    "2015)";

// The systems, in the order of all tables: Ideal DRAM, Ideal NVM, journaling, shadow paging, ThyNVM.
inline constexpr int kSystems = 5;
using Bars = std::array<double, kSystems>;

// Figure 7: execution time, Ideal DRAM 1. Random, streaming, sliding.
inline constexpr std::array<Bars, 3> kFigure7 = {{{1, 1.176, 1.383, 2.004, 1.250},
                                                  {1, 1.195, 1.373, 1.269, 1.240},
                                                  {1, 1.252, 1.354, 1.206, 1.157}}};
inline constexpr std::string_view kMicroBest =
    "ThyNVM consistently performs better than the other consistency mechanisms, for all access "
    "patterns";
inline constexpr std::string_view kMicroShadow =
    "shadow paging performs poorly with the random pattern, and better than journaling with the "
    "other two";
inline constexpr std::string_view kMicroMeansText =
    "on average ThyNVM is within 14.3 % of Ideal DRAM, 5.9 % better than Ideal NVM, 10.2 % better "
    "than journaling and 14.8 % better than shadow paging";
// ThyNVM's time over that of each other system, by the text; what the bars give is computed.
struct Mean {
  int system;  // in the order of Bars
  double text;
};
inline constexpr std::array<Mean, 4> kMicroMeans = {
    {{0, 1.143}, {1, 1 - .059}, {2, 1 - .102}, {3, 1 - .148}}};

// Figure 8: megabytes written (by the CPU, by migration, by checkpoints) and the share of time spent on checkpointing.
// Journaling, shadow paging, ThyNVM. Shadow paging's bar under random is cut off at the top.
struct Writes {
  double cpu, migration, checkpoint, stopped_percent;
};
inline constexpr std::array<std::array<Writes, 3>, 3> kFigure8 = {{
    {{{283, 0, 621, 12.8}, {272, 0, 1776, 45.2}, {287, 0, 726, 2.5}}},
    {{{288, 0, 630, 17.4}, {288, 0, 291, 9.0}, {289, 585, 264, 4.1}}},
    {{{357, 0, 780, 35.0}, {304, 0, 146, 9.6}, {365, 192, 203, 5.6}}},
}};
inline constexpr std::string_view kStopsText =
    "journaling and shadow paging spend 18.9 % and 15.2 % of the time on checkpointing, ThyNVM "
    "2.5 %";
inline constexpr std::array<double, 3> kStops = {18.9, 15.2, 2.5};
inline constexpr std::string_view kTrafficText =
    "on average ThyNVM reduces NVM write traffic by 10.8 % and 14.4 % compared to journaling and "
    "shadow paging";
inline constexpr std::array<double, 2> kTrafficLess = {10.8, 14.4};
inline constexpr std::string_view kTrafficMore =
    "it writes more than the mechanism that writes least in each pattern";
inline constexpr std::string_view kTrafficMigration =
    "streaming results in a large amount of migration traffic";

// Figures 9 and 10: thousands of transactions per second and MB/s written, for values of 16, 64, 256, 1024 and 4096 bytes.
inline constexpr std::array<double, 5> kValues = {16, 64, 256, 1024, 4096};
inline constexpr std::array<Bars, 5> kHashKtps = {{{314, 287, 259, 104, 288},
                                                   {284, 265, 241, 156, 262},
                                                   {181, 171, 158, 116, 173},
                                                   {74.5, 71.3, 67.6, 62.3, 73.0},
                                                   {22.5, 21.6, 20.6, 20.1, 22.1}}};
inline constexpr std::array<Bars, 5> kTreeKtps = {{{142, 132, 129, 75, 133},
                                                   {149, 142, 135, 91, 141},
                                                   {119, 114, 108, 77, 114},
                                                   {60.2, 57.8, 57.9, 44.5, 58.9},
                                                   {20.5, 19.8, 19.1, 18.2, 20.3}}};
inline constexpr std::array<Bars, 5> kHashMbps = {{{104, 95, 280, 1039, 341},
                                                   {82, 76, 257, 736, 309},
                                                   {74, 70, 239, 607, 282},
                                                   {65, 63, 215, 325, 262},
                                                   {67, 64, 206, 252, 282}}};
inline constexpr std::array<Bars, 5> kTreeMbps = {{{36, 34, 106, 686, 119},
                                                   {43, 41, 133, 623, 154},
                                                   {48, 46, 154, 567, 165},
                                                   {55, 53, 179, 443, 204},
                                                   {60, 57, 185, 243, 249}}};
inline constexpr std::array<std::string_view, 2> kStoreNames = {"hash", "rbtree"};
inline constexpr std::string_view kStoresText =
    "ThyNVM consistently provides more throughput than journaling and shadow paging, on average "
    "8.8 "
    "% and 4.3 %, and 29.9 % and 43.1 %, with the hash table and the red-black tree; it reaches "
    "95.1 % and 96.2 % of Ideal DRAM's";
inline constexpr std::array<double, 2> kStoresOfDram = {0.951, 0.962};
inline constexpr std::array<double, 2> kStoresOfJournal = {1.088, 1.043};
inline constexpr std::array<double, 2> kStoresOfShadow = {1.299, 1.431};
inline constexpr std::string_view kBandwidthText =
    "ThyNVM writes 43.4 % and 64.2 % less to NVM than shadow paging, journaling 19.0 % and 14.0 % "
    "less than ThyNVM";
inline constexpr std::array<double, 2> kBandwidthOfShadow = {43.4, 64.2};
inline constexpr std::array<double, 2> kBandwidthOfJournal = {19.0, 14.0};

// Figure 11: IPC, Ideal DRAM 1. Ideal NVM, ThyNVM.
struct Spec {
  std::string_view program;
  double nvm, thynvm;
};
inline constexpr std::array<Spec, 8> kFigure11 = {{{"gcc", .977, .985},
                                                   {"bwaves", .882, .923},
                                                   {"milc", .935, .962},
                                                   {"leslie3d", .892, .943},
                                                   {"soplex", .989, .993},
                                                   {"GemsFDTD", 1.0, 1.0},
                                                   {"lbm", .871, .929},
                                                   {"omnetpp", .995, 1.0}}};
inline constexpr std::string_view kSpecText =
    "ThyNVM slows these benchmarks down by 3.4 % against Ideal DRAM on average, and speeds them up "
    "by "
    "2.7 % against Ideal NVM";
inline constexpr double kSpecOfDram = 1 - .034;
inline constexpr double kSpecOfNvm = 1.027;

// Figure 12: entries of the block table; thousands of transactions per second, GB written.
inline constexpr std::array<double, 6> kEntries = {256, 512, 1024, 2048, 4096, 8192};
inline constexpr std::array<double, 6> kFigure12Ktps = {222.7, 236.4, 244.1, 250.1, 253.8, 251.9};
inline constexpr std::array<double, 6> kFigure12Gb = {1.427, 1.411, 1.376, 1.361, 1.354, 1.360};
inline constexpr std::string_view kEntriesText =
    "a larger block table writes less to NVM and generally gives more throughput";

// Sections 2.3 and 5.
inline constexpr std::string_view kStallText =
    "the dual scheme reduces stall time by up to 86.2 % against pages alone";
inline constexpr double kStallLess = 86.2;
inline constexpr std::string_view kTablesText =
    "both tables take approximately 37 KB, 26 % of what blocks alone would need";

}  // namespace perdure::bench::thynvm::paper
