// SPDX-License-Identifier: BSD-3-Clause
// Small questions about files.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/run/generation.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run::files {

/// The path by which this process reaches what a descriptor refers to.
inline std::string link_to(int file) { return "/proc/self/fd/" + std::to_string(file); }

/// What a symbolic link says; empty when it is none, or too long.
inline std::string text_of_link(const std::string& path) {
  char text[4097];
  const ssize_t bytes = ::readlink(path.c_str(), text, sizeof text - 1);
  return {text, bytes < 0 ? 0 : static_cast<std::size_t>(bytes)};
}

inline std::string path_of(int file) { return text_of_link(link_to(file)); }

inline std::string parent_of(const std::string& path) {
  const std::size_t end = path.rfind('/');
  return end == 0 || end == std::string::npos ? "/" : path.substr(0, end);
}

/// Errors: Exception: kIo.
inline struct stat state_of(int file) {
  struct stat state{};
  if (::fstat(file, &state) != 0) throw Exception(io_error(link_to(file)));
  return state;
}

/// What a path names, without following it. Nothing when there is nothing. Errors: Exception: kIo.
inline std::optional<struct stat> state_at(const std::string& path) {
  struct stat state{};
  if (::lstat(path.c_str(), &state) == 0) return state;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  throw Exception(io_error(path));
}

/// Of what a path names, without following it; or, with an empty path, a descriptor. 0: the file system has none.
inline std::uint64_t generation_of(int directory, const std::string& path) {
  for (const int more : {0, kHandleOnlyTells}) {
    FileHandle handle;
    int mount = 0;
    const long result = ::syscall(SYS_name_to_handle_at, directory, path.c_str(), &handle, &mount,
                                  (path.empty() ? AT_EMPTY_PATH : 0) | more);
    if (result == 0) return handle.generation();
  }
  return 0;
}

}  // namespace perdure::run::files
