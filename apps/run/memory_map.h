// SPDX-License-Identifier: BSD-3-Clause
// /proc/self/maps, read and taken apart without libc.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

#include "apps/run/raw_syscall.h"

namespace perdure::run {

struct MapLine {
  std::uint64_t begin, end, offset, major, minor, inode;
  std::uint32_t protection;
  bool shared;
  const char* path;  // not terminated
  std::uint32_t path_bytes;
  bool is(const char* name) const {
    std::uint32_t i = 0;
    for (; i < path_bytes && name[i] != 0; ++i) {
      if (path[i] != name[i]) return false;
    }
    return i == path_bytes && name[i] == 0;
  }
  bool starts_with(const char* name) const {
    for (std::uint32_t i = 0; name[i] != 0; ++i) {
      if (i >= path_bytes || path[i] != name[i]) return false;
    }
    return true;
  }
};

/// A whole file of /proc. Returns its bytes, or minus an error number; -E2BIG when it does not fit.
inline long read_whole(const char* path, char* buffer, std::size_t room) {
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (failed(file)) return file;
  std::size_t bytes = 0;
  long got = 0;
  while (bytes < room) {
    got = syscall(SYS_read, file, buffer + bytes, room - bytes);
    if (got <= 0) break;
    bytes += static_cast<std::size_t>(got);
  }
  syscall(SYS_close, file);
  if (failed(got)) return got;
  return bytes == room ? -7 : static_cast<long>(bytes);
}

inline std::uint64_t parse_number(const char*& at, const char* end, std::uint32_t base) {
  std::uint64_t value = 0;
  for (; at < end; ++at) {
    const char c = *at;
    std::uint32_t digit;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if (base == 16 && c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint32_t>(c - 'a') + 10;
    } else {
      break;
    }
    value = value * base + digit;
  }
  return value;
}

/// Takes one line from `at`, which it moves on. False at the end.
inline bool next_line(const char*& at, const char* end, MapLine& line) {
  if (at >= end) return false;
  const auto skip = [&](char c) {
    while (at < end && *at == c) ++at;
  };
  line.begin = parse_number(at, end, 16);
  skip('-');
  line.end = parse_number(at, end, 16);
  skip(' ');
  line.protection = 0;
  if (at + 4 <= end) {
    if (at[0] == 'r') line.protection |= PROT_READ;
    if (at[1] == 'w') line.protection |= PROT_WRITE;
    if (at[2] == 'x') line.protection |= PROT_EXEC;
    line.shared = at[3] == 's';
    at += 4;
  }
  skip(' ');
  line.offset = parse_number(at, end, 16);
  skip(' ');
  line.major = parse_number(at, end, 16);
  skip(':');
  line.minor = parse_number(at, end, 16);
  skip(' ');
  line.inode = parse_number(at, end, 10);
  skip(' ');
  line.path = at;
  while (at < end && *at != '\n') ++at;
  line.path_bytes = static_cast<std::uint32_t>(at - line.path);
  if (at < end) ++at;
  return true;
}

}  // namespace perdure::run
