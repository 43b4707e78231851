// SPDX-License-Identifier: BSD-3-Clause
// BackingFiles: the files behind a frame pool, opened when they are needed first, by the names that
//               the pool's file table has.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "perdure/error.h"
#include "perdure/region/file.h"
#include "perdure/region/frame_layout.h"

namespace perdure {

/// A BackingStore (see frame_table.h). Threads: none; the caller's lock.
class BackingFiles {
 public:
  using Namer = std::function<std::string_view(FileNumber)>;
  BackingFiles(std::uint64_t page_bytes, Namer name_of)
      : page_bytes_(page_bytes), name_of_(std::move(name_of)) {}

  /// Creates the file if there is none (durably, with its name), and returns its one absolute name.
  /// Errors: kNotFound (no such directory), kInvalid (not a regular file), kIo.
  static Result<std::string> prepare(const std::string& path);

  /// Errors: kNotFound when a file that the table names is gone, kIo, kNoSpace.
  Result<void> read_page(FilePage page, std::byte* to);
  Result<void> write_page(FilePage page, const std::byte* from);
  /// Errors: kIo, from then on for good: after a failed sync the kernel may have dropped the pages
  ///         and report success next time.
  Result<void> sync(FileNumber file);
  void close(FileNumber file) { open_.erase(file); }

 private:
  Result<int> descriptor_of(FileNumber file);
  Offset offset_of(FilePage page) const { return page.page * page_bytes_; }
  std::string describe(FilePage page) const;

  std::uint64_t page_bytes_;
  Namer name_of_;
  std::unordered_map<FileNumber, Descriptor> open_;
  std::unordered_map<FileNumber, Error> failed_;
};

}  // namespace perdure
