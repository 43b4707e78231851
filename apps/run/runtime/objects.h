// SPDX-License-Identifier: BSD-3-Clause
// What capture of descriptors, sockets and attributes share.
#pragma once

#include <sys/syscall.h>
#include <time.h>

#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/runtime.h"

namespace perdure::run {

enum class Carry { kYes, kNo, kFailed };  // kFailed: the epoch cannot end, with a cause in `why`

/// A descriptor of the program in the controller's table, as long as this lives.
class Borrowed {
 public:
  explicit Borrowed(std::int32_t number);
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (!failed(file_)) syscall(SYS_close, file_);
  }
  bool is_good() const { return !failed(file_); }
  long get() const { return file_; }

 private:
  long file_;
};

/// Whether a socket with this inode is among the program's descriptors.
bool has_socket(std::uint64_t inode);

/// Appends bytes of workspace().bounce.
bool append_bytes(std::int32_t descriptor, std::uint64_t offset, std::uint64_t bytes);

inline std::uint64_t ns_of(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

bool begins_with(const char* text, const char* beginning);

// --- sockets.cc
/// Appends what a socket is. kNo: it is connected to somebody else, or of an unknown kind.
Carry capture_socket(const FileRecord& file, const char* information, long information_bytes);

}  // namespace perdure::run
