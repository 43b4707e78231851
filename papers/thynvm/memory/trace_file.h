// SPDX-License-Identifier: BSD-3-Clause
// Recorded traces: the records of a run in a file, for measurements that many people repeat, and
// where the program itself cannot be handed on. A record takes 1.2 bytes on average (bzip2).
//
//   file     = "PRDTRACE" version:u32 0:u32  head block* totals  offset-of-totals:u64 "PRDTREND"
//   section  = tag:u32 frame-bytes:u32 content-bytes:u32 0:u32  zstd frame of its content
//   head     = section "HEAD": program, count of arguments, arguments   (texts: length, bytes)
//   block    = section "RECS": number of the block, count of its records, records
//   totals   = section "TOTL": instructions, skipped, then fetches, loads, stores, runs
//   record   = kind | size_log2 << 2 | min(gap, 7) << 5 : u8, gap - 7 if that is 7, address
//   address  = of kRun the number itself, else the difference (zigzag) to the address before: of
//              the fetch before for fetches, of the load or store before for both; at a block's
//              begin to 0
//
// Numbers are little-endian; those without a width are LEB128 (seven bits a byte, the lowest
// first). Each block can be decoded alone. Frames have zstd's checksum; what is in front of them is
// checked against what is found.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "papers/thynvm/memory/access.h"

namespace perdure::memory {

inline constexpr std::uint32_t kTraceVersion = 1;

struct TraceTotals {
  std::uint64_t instructions = 0;
  std::uint64_t skipped = 0;      // before the first record
  std::uint64_t records[4] = {};  // by AccessKind
  bool operator==(const TraceTotals&) const = default;
};

class TraceWriter {
 public:
  /// Creates the file, or empties it.
  /// Errors: of all functions: Exception (kIo).
  TraceWriter(std::string path, std::string_view program, std::span<const std::string> arguments);

  void write(std::span<const Access> records);
  /// Without it the file counts as truncated. Instructions are what the gaps and runs add up to.
  void finish(std::uint64_t skipped_instructions);

 private:
  void write_block();
  void write_section(std::uint32_t tag, std::string_view content);
  void write_bytes(std::string_view bytes);

  std::string path_;
  std::ofstream file_;
  std::uint64_t offset_ = 0;
  std::uint64_t blocks_ = 0;
  std::vector<Access> block_;
  TraceTotals totals_;
};

class TraceFile final : public AccessSource {
 public:
  /// Errors: Exception: kNotFound; kForeign when it is no trace; kVersion when another release
  ///         wrote it; kTruncated when its recording or its transfer did not end; kCorrupt; kIo.
  explicit TraceFile(std::string path);

  /// Errors: Exception (kCorrupt, kIo), before a record is handed out that was not written.
  std::span<const Access> next() override;

  const std::string& program() const { return program_; }
  const std::vector<std::string>& arguments() const { return arguments_; }
  const TraceTotals& totals() const { return totals_; }

 private:
  std::string read_bytes(std::size_t count);
  std::string read_section(std::uint32_t tag);
  void read_head();
  void read_totals();
  void decode_block(const std::string& content);

  std::string path_;
  std::ifstream file_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t totals_at_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t section_at_ = 0;  // of the section being read
  std::string program_;
  std::vector<std::string> arguments_;
  TraceTotals totals_;  // as the file says
  TraceTotals found_;   // until now
  std::uint64_t blocks_ = 0;
  std::vector<Access> records_;
};

}  // namespace perdure::memory
