// SPDX-License-Identifier: BSD-3-Clause
// One run of FileHistory::roll_back().
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/run/files/history.h"
#include "apps/run/files/undo_layout.h"
#include "apps/run/files/undo_log.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run::files {

class TakingBack {
 public:
  /// Reads and checks all. Errors: Exception, as roll_back() before anything is changed.
  TakingBack(const std::string& directory, std::uint64_t epoch,
             const FileHistory::RollBack& options);

  /// Errors: Exception, as roll_back() later.
  void run();

 private:
  void step() const {
    if (options_.before_step) options_.before_step();
  }
  /// Throws if a system call failed.
  static void done(bool success, const std::string& path) {
    if (!success) throw Exception(io_error(path));
  }

  // Which records, and when they are done with (rollback.cc).
  void check();
  void take_back(UndoFile& file);
  void will_change(const UndoRecord& record);
  void settle(UndoFile& file, std::uint64_t offset);

  // What takes one back (taking_back.cc). `order`: how many records are as old, or older.
  void take_back(const UndoRecord& record, std::uint64_t order);
  void restore_state(const UndoRecord& record);
  void restore_contents(const UndoRecord& record);
  void restore_attribute(const UndoRecord& record);
  void restore_kept(const UndoRecord& record);
  void restore_copied(const UndoRecord& record);
  void restore_directory(const UndoRecord& record);
  void remove_made(const UndoRecord& record, std::uint64_t order);
  void rename_back(const UndoRecord& record);
  void exchange_back(const UndoRecord& record);

  std::string kept(FileId file) const { return FileHistory::kept_path(directory_, file); }
  /// Whether the path names the file.
  bool is(const std::string& path, FileId file) const {
    return FileHistory::is(directory_, file, path);
  }
  std::string find(FileId file, const std::string& path) const;
  void set_attributes(const std::string& path, const RecordBody& body);
  void made_anew(FileId before, const std::string& path);
  void remove(const std::string& path, const struct stat& state);

  const std::string directory_;
  const FileHistory::RollBack& options_;
  std::vector<UndoFile> undo_;
  struct Move {
    FileId file;
    std::uint64_t order;
  };
  std::multimap<std::string, Move> moved_to_;
  std::map<FileId, std::set<std::string>> names_;
  std::map<std::string, Descriptor> changed_;  // directories with changes that are not synced
};

}  // namespace perdure::run::files
