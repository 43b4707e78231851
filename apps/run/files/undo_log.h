// SPDX-License-Identifier: BSD-3-Clause
// The undo file of one epoch: appended to record by record, checked as a whole before it is used.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "apps/run/files/undo_layout.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run::files {

struct UndoRecord {
  RecordBody body{};
  std::string path, other;
  std::string data;
  FileId id() const { return {body.device, body.inode, body.generation}; }
  FileId other_id() const { return {body.other_device, body.other_inode, body.other_generation}; }
};

/// Without the generation.
FileId id_of(const struct stat& state);
/// Kind, generation, and what `state` says of inode, mode, owner, times and size.
RecordBody body_of(UndoKind kind, const struct stat& state, std::uint64_t generation);

std::string undo_path(const std::string& directory, std::uint64_t epoch);
/// The epochs that have an undo file, in order. Errors: Exception: kIo.
std::vector<std::uint64_t> undo_epochs(const std::string& directory);

/// Makes what was written to a directory durable. Errors: Exception: kIo.
void sync_directory(const std::string& directory);

class UndoLog {
 public:
  /// Nothing is written before the first record.
  UndoLog(std::string directory, std::uint64_t epoch, std::uint64_t previous, bool power);

  /// Errors: Exception: kNoSpace, kIo; the file is as it was.
  void append(RecordBody body, const std::string& path, const std::string& other = {},
              const std::string& data = {});
  /// Where the next record will be.
  std::uint64_t bytes() const { return bytes_; }
  /// Waits until the records are on the device. Errors: Exception: kIo.
  void sync();
  bool exists() const { return file_.get() >= 0; }

 private:
  void create();
  std::string directory_;
  std::uint64_t epoch_, previous_;
  bool power_;
  Descriptor file_;
  std::uint64_t bytes_;
  bool synced_ = true;
  std::string buffer_;
};

/// An undo file as it was found.
class UndoFile {
 public:
  /// Reads all of it. A record that was not written to its end does not count: its change was not let through.
  /// Errors: Exception: kCorrupt: file, offset and remedy; kForeign; kVersion; kNotFound; kIo.
  explicit UndoFile(const std::string& path);

  const std::string& path() const { return path_; }
  const UndoHead& head() const { return head_; }
  /// Where each record begins.
  const std::vector<std::uint64_t>& offsets() const { return offsets_; }
  bool torn() const { return torn_; }
  /// Errors: Exception: kCorrupt, kIo.
  UndoRecord read(std::uint64_t offset) const;
  /// Removes the record at the offset and all after it. Errors: Exception: kIo.
  void cut(std::uint64_t offset, bool sync);

 private:
  void scan(std::uint64_t file_bytes);
  bool zeros_from(std::uint64_t offset, std::uint64_t end) const;
  [[noreturn]] void damaged(std::uint64_t offset, const std::string& what) const;
  std::string path_;
  Descriptor file_;
  UndoHead head_{};
  std::vector<std::uint64_t> offsets_;
  bool torn_ = false;
};

}  // namespace perdure::run::files
