// SPDX-License-Identifier: BSD-3-Clause
// The directory kept/ of a state directory: links to files that lost a name, so that they stay what they are for as long
// as an epoch that can be resumed needs them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "apps/run/files/undo_layout.h"
#include "perdure/region/file.h"

namespace perdure::run::files {

std::string kept_name(FileId file);
/// Of the link that says what a roll-back has made in the file's place.
std::string now_name(FileId file);
std::string copy_name(std::uint64_t epoch, std::uint64_t offset);

class KeptFiles {
 public:
  /// Finds what is there; who needs it is not known. Errors: Exception: kIo, kNoSpace.
  KeptFiles(const std::string& state_directory, bool power);

  std::string path_of(const std::string& name) const { return directory_ + "/" + name; }
  /// What nobody was named for is needed to resume epochs up to this one.
  void begin_epoch(std::uint64_t epoch);

  /// Links the file that `path` names, needed to resume epochs up to `through`. False: it cannot be linked.
  /// Requires: `path` is not a directory. With power: durable on return. Errors: Exception: kIo.
  bool link(const std::string& path, FileId file, std::uint64_t through);
  /// As link(), by an open descriptor, also of a file without a name that may get one (O_TMPFILE).
  bool link(int file, FileId id, std::uint64_t through);
  bool holds(FileId file) const { return needed_through_.contains(kept_name(file)); }

  /// Copies a regular file's contents. Errors: Exception: kIo, kNoSpace.
  void copy(int from, const std::string& name, std::uint64_t through);
  /// Nothing when the file is not kept.
  void need(FileId file, std::uint64_t through);
  /// Removes what no epoch from `oldest` on needs.
  void retire(std::uint64_t oldest);

 private:
  void need(const std::string& name, std::uint64_t through);
  bool linked(const std::string& name, FileId file, std::uint64_t through);
  std::string directory_;
  bool power_;
  Descriptor handle_;
  std::map<std::string, std::uint64_t> needed_through_;
};

/// Copies what is left of `from`. Errors: Exception: kIo, kNoSpace, naming `to_name`.
void copy_contents(int from, int to, const std::string& to_name);

}  // namespace perdure::run::files
