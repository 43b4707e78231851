// SPDX-License-Identifier: BSD-3-Clause
// A directory for a test, and what can be seen of what is below it.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "apps/run/files/history.h"
#include "apps/run/files/paths.h"
#include "apps/run/files/undo_log.h"

namespace perdure::run::files {

class Scratch {
 public:
  explicit Scratch(const std::string& below = std::filesystem::temp_directory_path()) {
    path_ = below + "/perdure-files-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
    path_ = std::filesystem::canonical(path_);
    std::filesystem::create_directory(state());
    std::filesystem::create_directory(root());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string state() const { return path_ + "/state"; }
  std::string root() const { return path_ + "/root"; }

 private:
  std::string path_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// One line for each name: what it is, and what can be told of it. Inodes of directories do not count: a directory that
/// was removed comes back as another one.
inline std::map<std::string, std::string> tree(const std::string& root, bool inodes = true) {
  std::map<std::string, std::string> seen;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = entry.path();
    struct stat state{};
    ::lstat(path.c_str(), &state);
    std::ostringstream line;
    line << std::oct << state.st_mode << std::dec << " of " << state.st_uid << " at "
         << state.st_mtim.tv_sec << "." << state.st_mtim.tv_nsec;
    if (inodes && !S_ISDIR(state.st_mode)) line << " inode " << state.st_ino;
    if (S_ISLNK(state.st_mode)) line << " -> " << std::filesystem::read_symlink(path).string();
    if (S_ISREG(state.st_mode)) {
      const std::string text = text_of(path);
      line << " bytes " << text.size() << " hash " << std::hash<std::string>{}(text) << " "
           << text.substr(0, 16);
    }
    seen[path.substr(root.size())] = line.str();
  }
  struct stat state{};
  ::lstat(root.c_str(), &state);
  seen["/"] = std::to_string(state.st_mtim.tv_sec) + "." + std::to_string(state.st_mtim.tv_nsec);
  return seen;
}

/// What an epoch says of an open file.
inline FileFact fact_of(int file) {
  const struct stat state = state_of(file);
  FileFact fact;
  fact.path = path_of(file);
  fact.id = id_of(state);
  fact.id.generation = generation_of(file, "");
  fact.bytes = static_cast<std::uint64_t>(state.st_size);
  fact.modified_ns = body_of(UndoKind::kState, state, 0).modified_ns;
  return fact;
}

}  // namespace perdure::run::files
