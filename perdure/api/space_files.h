// SPDX-License-Identifier: BSD-3-Clause
// SpaceFiles: where the files of a persistent address space are. A directory (directory_files.h),
// or the memory of the crash explorer.
#pragma once

#include <optional>

#include "perdure/error.h"
#include "perdure/region/region.h"

namespace perdure {

/// Files are known by number. `bytes` are those that the program sees.
/// Threads: one at a time.
class SpaceFiles {
 public:
  static constexpr std::uint64_t kStatics = 0;  // its number; regions count from 1

  virtual ~SpaceFiles() = default;
  /// Makes the file, zeroed. Durable: with its name and its blocks, on return. Errors: kExists,
  /// kNoSpace, kIo.
  virtual Result<void> create(std::uint64_t file, std::uint64_t bytes) = 0;
  /// Removes it; no error when there is none. Durable: on return. Errors: kIo.
  virtual Result<void> remove(std::uint64_t file) = 0;
  /// Its size, or nothing when there is no such file. Errors: kForeign, kTruncated, kCorrupt, kIo.
  virtual Result<std::optional<std::uint64_t>> size(std::uint64_t file) = 0;
  /// Maps [file_offset, file_offset + bytes) of it at `begin` of the reserved range.
  virtual Result<Region::Part> map(std::uint64_t file, std::uint64_t file_offset, Offset begin,
                                   std::uint64_t bytes, std::uint32_t protection) = 0;
  /// Changes what the program may do with what is mapped there.
  virtual void protect(Offset begin, std::uint64_t bytes, std::uint32_t protection) = 0;
  /// Maps memory that reaches no file at `begin`.
  virtual Result<void> map_nowhere(Offset begin, std::uint64_t bytes) = 0;
  /// Shows what is mapped at `begin` at `address`, too: stores to the one are seen at the other.
  virtual Result<void> alias(Offset begin, std::uint64_t bytes, void* address) = 0;
  /// Takes the mapping away; the addresses stay reserved.
  virtual void unmap(Offset begin, std::uint64_t bytes) = 0;
  /// Gives the blocks of a piece back; it reads as zeroes. Best effort: nothing depends on it.
  virtual void punch(std::uint64_t file, std::uint64_t file_offset, std::uint64_t bytes) = 0;
  /// Puts a new file with these bytes in the place of the old one, whole or not at all. Durable: on
  /// return.
  virtual Result<void> replace(std::uint64_t file, const std::vector<std::byte>& content) = 0;
  /// The file for messages.
  virtual std::string name(std::uint64_t file) const = 0;
};

}  // namespace perdure
