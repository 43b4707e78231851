// SPDX-License-Identifier: BSD-3-Clause
// A program of a test under SyscallWatch: a function in a child process, or what that executes.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "apps/run/files/filter.h"
#include "apps/run/files/history.h"
#include "apps/run/files/watch.h"

namespace perdure::run::files {

class Watched {
 public:
  Watched(FileHistory& history, const std::function<void()>& program, Hooks hooks = {},
          SyscallWatch::Options options = {}) {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const int listener = install_filter();
      if (listener < 0 || !send_descriptor(sockets[1], listener)) ::_exit(97);
      ::close(listener);
      ::close(sockets[0]);
      ::close(sockets[1]);
      program();
      ::_exit(0);
    }
    ::close(sockets[1]);
    watch_.emplace(Descriptor(receive_descriptor(sockets[0])), history, std::move(hooks), options);
    ::close(sockets[0]);
    server_ = std::thread([this] { watch_->run(); });
  }
  ~Watched() {
    if (child_ > 0) kill();
  }

  /// As waitpid(2) tells it. The watch has ended, too.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    server_.join();
    return status;
  }
  int kill() {
    ::kill(child_, SIGKILL);
    return wait();
  }
  pid_t child() const { return child_; }
  SyscallWatch& watch() { return *watch_; }

 private:
  pid_t child_ = -1;
  std::optional<SyscallWatch> watch_;
  std::thread server_;
};

/// In the child: becomes another program.
inline void execute(std::initializer_list<std::string> command) {
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(98);
}

}  // namespace perdure::run::files
