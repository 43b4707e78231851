// SPDX-License-Identifier: BSD-3-Clause
// An ordinary x86-64 Linux program as a source of records: it runs under qemu-x86_64 (Debian's
// package qemu-user) in a process of its own, whose plugin (papers/thynvm/emulator) sends what it accesses.
// Nothing of the program is changed, and no trace is written.
//
// Two runs give the same records if the program takes nothing from outside but its input: addresses
// are not randomised, the environment is fixed, and the emulator's random numbers are seeded. Time,
// process ids and /dev/urandom stay the host's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perdure/error.h"
#include "papers/thynvm/memory/access.h"

struct perdure_ring;  // NOLINT(readability-identifier-naming): C, papers/thynvm/memory/ring.h

namespace perdure::memory {

struct Launch {
  std::string program;  // a path, or a name to look for in PATH
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value, besides a fixed PATH, HOME and LANG
  std::string directory;                 // where it runs; empty: here
  std::string input = "/dev/null";
  std::string output = "/dev/null";  // created or emptied
  std::uint64_t skip = 0;            // instructions that are not recorded
  bool skip_to_mark = false;         // instead: all before the begin mark (papers/thynvm/memory/marks.h)
  std::uint64_t instructions = UINT64_MAX;  // the program is ended after so many more
  std::string plugin;                       // empty: the one that was built with this library
  std::string emulator = "qemu-x86_64";
};

class EmulatedProgram final : public AccessSource {
 public:
  /// Starts it.
  /// Errors: Exception: kNotFound when the emulator, its plugin or the program is not there;
  ///         kInvalid when the program is none for x86-64 Linux; kIo when it cannot be started.
  /// Threads: one, which must not end before the object does.
  explicit EmulatedProgram(const Launch& launch);
  EmulatedProgram(const EmulatedProgram&) = delete;
  EmulatedProgram& operator=(const EmulatedProgram&) = delete;
  /// Kills the program if it still runs.
  ~EmulatedProgram() override;

  /// Errors: Exception: kIo when the program fails: it was killed, or ended with another status
  ///         than 0 (the message quotes the end of what it said on stderr); kInvalid when it ended
  ///         before there was anything to record.
  std::span<const Access> next() override;

  /// Known after the end: next() returned nothing.
  bool reached_limit() const { return reached_limit_; }
  std::uint64_t instructions() const { return instructions_; }
  std::uint64_t skipped() const { return skipped_; }

 private:
  void map_ring();
  void spawn(const Launch& launch, const std::string& emulator, const std::string& program,
             const std::string& plugin);
  void release();
  void give_back_batch();
  bool wait_for_batch();
  void reap(int options);
  void judge_end();
  [[noreturn]] void fail(const std::string& what) const;

  std::string name_;
  int ring_file_ = -1;
  int errors_ = -1;  // what the program says on stderr
  perdure_ring* ring_ = nullptr;
  pid_t child_ = -1;
  std::optional<int> status_;  // once it has ended
  bool reading_ = false;
  bool read_last_ = false;
  bool reached_limit_ = false;
  std::uint64_t instructions_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace perdure::memory
