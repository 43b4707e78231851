// SPDX-License-Identifier: BSD-3-Clause
// The thread that waits in a system call, as its supervisor sees it: its memory, descriptors and paths.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "perdure/region/file.h"

namespace perdure::run::files {

/// Descriptors that refer to threads. A number may be that of another thread by now; a descriptor then answers ESRCH.
class ThreadHandles {
 public:
  /// `use`: false to do as kernels before 6.9 need it.
  explicit ThreadHandles(bool use) : use_(use) {}
  /// -1: there are none.
  int of(pid_t thread, bool anew = false);

 private:
  bool use_;
  std::unordered_map<pid_t, Descriptor> known_;
};

/// Nothing here is certain before the notification has been found to be valid afterwards: the thread may have died, and
/// its number been given to another.
/// Errors: Exception: kIo: not permitted. Everything else that fails would fail the system call, too: nothing, or
/// a descriptor of -1.
class Caller {
 public:
  Caller(pid_t thread, ThreadHandles& handles) : thread_(thread), handles_(handles) {}

  bool read(std::uint64_t address, void* data, std::size_t bytes) const;
  /// A string that ends with 0, of 4,095 bytes at most.
  std::optional<std::string> text(std::uint64_t address) const;

  struct File {
    Descriptor handle;
    bool duplicate = false;  // of the thread's own; else O_PATH
    int number = -1;         // the thread's
  };
  /// What a descriptor of the thread refers to. To be closed soon: it holds locks and ends of pipes.
  File file(int number) const;
  struct Position {
    std::uint64_t offset;
    int flags;
  };
  std::optional<Position> position(const File& file) const;

  /// What a path names, opened with O_PATH. `directory`: as the first argument of openat(2); an empty text is it.
  Descriptor find(int directory, const std::string& text, bool follow) const;
  /// The name that a path has, whether there is something or not: absolute, its directory without symbolic links.
  /// `follow`: when it is a symbolic link to nothing, the name of that.
  std::optional<std::string> name(int directory, const std::string& text,
                                  bool follow = false) const;

 private:
  std::string full(int directory, const std::string& text) const;
  pid_t thread_;
  ThreadHandles& handles_;
};

}  // namespace perdure::run::files
