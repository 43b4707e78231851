// SPDX-License-Identifier: BSD-3-Clause
// Other programs, run as a benchmark or a demonstration needs them: never as services of the machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace perdure::tools {

/// A process of another program, killed when its owner goes.
class Process {
 public:
  /// Starts `arguments[0]`, looked up in PATH, with what it says going to the file `log`, but for what goes to the file
  /// `output`, if there is one. It has no other descriptors. `environment` are further NAME=value. Errors: throws
  /// Exception kIo.
  Process(const std::vector<std::string>& arguments, const std::string& log,
          const std::vector<std::string>& environment = {}, const std::string& directory = ".",
          const std::string& output = "");
  ~Process();
  Process(Process&& from) noexcept;
  Process& operator=(Process&&) = delete;

  pid_t id() const { return pid_; }
  bool running();
  /// SIGKILL, and waits until it is gone.
  void kill();
  /// SIGTERM, and waits. The exit code, or minus the signal that ended it.
  int stop();
  /// The exit code, or minus the signal that ended it.
  int wait();

 private:
  pid_t pid_ = -1;
};

/// The end of a log, for messages.
std::string end_of(const std::string& file);

/// This process goes on as another program. `environment` are further NAME=value. Errors: throws Exception kIo.
[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment = {});

/// Returns when somebody listens on a Unix socket, or on a port of 127.0.0.1.
/// Errors: throws Exception kIo with the end of the process's log.
void wait_until_listening(Process& process, const std::string& socket, const std::string& log);
void wait_until_listening(Process& process, std::uint16_t port, const std::string& log);

/// Sees that the Debian package `name` is unpacked below `tree` (apt-get download and dpkg -x: nothing is installed and
/// nothing started), as is known by `program`, a file in it.
/// Errors: throws Exception kNotFound when it is not there and cannot be had.
void unpack_package(const std::string& name, const std::string& tree, const std::string& program);

}  // namespace perdure::tools
