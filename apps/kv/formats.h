// SPDX-License-Identifier: BSD-3-Clause
// Records as text and bytes, for `kv load`, `scan` and `dump`. All three formats carry every
// possible key and value.
//
//   tsv      key TAB value NEWLINE; a tab, newline, backslash or zero byte is written \t \n \\ \0
//   jsonl    {"key":…,"value":…} on a line; what is not UTF-8 is given as base64 in "key64" or
//   "value64" instead lengths  key length SPACE value length NEWLINE key value NEWLINE: nothing is
//   escaped
#pragma once

#include <cstdint>
#include <cstdio>
#include <istream>
#include <string>
#include <string_view>

namespace perdure::kv {

enum class Format : std::uint8_t { kTsv, kJsonl, kLengths };

struct Record {
  std::string key;
  std::string value;
};

/// The text of one record, its line end included.
std::string encode(Format format, std::string_view key, std::string_view value);

class RecordReader {
 public:
  RecordReader(std::istream& input, Format format) : input_(&input), format_(format) {}

  /// The next record, or false at the end. Errors: throws Exception kInvalid that names the line
  /// (for `lengths` the record) and what is wrong with it.
  bool next(Record& record);
  /// Bytes taken so far.
  std::uint64_t bytes() const { return bytes_; }

 private:
  bool next_line();
  bool next_lengths(Record& record);
  [[noreturn]] void fail(const std::string& what) const;

  std::istream* input_;
  Format format_;
  std::string line_;
  std::uint64_t number_ = 0;  // of the current line or record, from 1
  std::uint64_t bytes_ = 0;
};

}  // namespace perdure::kv
