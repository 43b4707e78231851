// SPDX-License-Identifier: BSD-3-Clause
// A directory that is there whole or not at all.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "perdure/region/file.h"
#include "perdure/region/mapped_file.h"

namespace perdure::tools {

/// A directory that appears under its name once everything in it is durable.
class NewDirectory {
 public:
  /// `suffix`: of the name that it has until then.
  NewDirectory(const std::string& path, const char* suffix)
      : path_(path), building_(path + suffix) {
    if (::mkdir(building_.c_str(), 0700) != 0)
      throw Exception(
          errno == EEXIST
              ? Error{Code::kExists, building_ + ": is left from a run that was stopped; remove it"}
              : io_error(building_));
  }
  ~NewDirectory() {
    std::error_code ignored;
    if (!building_.empty()) std::filesystem::remove_all(building_, ignored);
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const std::string& building() const { return building_; }
  void name_it() {
    if (const auto lost = MappedFile::first_loss()) throw Exception(*lost);
    if (::rename(building_.c_str(), path_.c_str()) != 0) throw Exception(io_error(path_));
    building_.clear();
    const Descriptor parent(
        ::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (parent.get() < 0 || ::fsync(parent.get()) != 0)
      throw Exception(io_error(path_ + ": sync of the new name"));
  }

 private:
  std::string path_;
  std::string building_;
};

}  // namespace perdure::tools
