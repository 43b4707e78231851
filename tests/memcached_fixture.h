// SPDX-License-Identifier: BSD-3-Clause
// A `perdure serve` process, and connections to it, for tests.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "tests/tool_runner.h"

namespace perdure {

/// A client's end of a Unix socket.
class Talk {
 public:
  explicit Talk(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Talk() {
    if (socket_ >= 0) ::close(socket_);
  }
  Talk(Talk&& from) noexcept
      : socket_(std::exchange(from.socket_, -1)), connected_(from.connected_) {}
  Talk& operator=(Talk&&) = delete;

  bool connected() const { return connected_; }
  /// False: the server does not take it.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// What comes until it ends with `end`, the server closes, or nothing comes for some time.
  std::string until(std::string_view end, int patience_ms = 20'000) {
    std::string text;
    std::string piece(1 << 16, '\0');
    while (!text.ends_with(end) || end.empty()) {
      pollfd ready{socket_, POLLIN, 0};
      if (::poll(&ready, 1, patience_ms) <= 0) break;
      const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
      if (got <= 0) break;
      text.append(piece, 0, static_cast<std::size_t>(got));
    }
    return text;
  }
  std::string ask(std::string_view text, std::string_view end = "\r\n") {
    return send(text) ? until(end) : "";
  }
  void end_sending() { ::shutdown(socket_, SHUT_WR); }

 private:
  int socket_ = -1;
  bool connected_ = false;
};

class ServeTest : public ToolTest {
 protected:
  void TearDown() override {
    kill();
    ToolTest::TearDown();
  }
  /// On the pool `pool_`, at the socket "sock".
  void start(std::vector<std::string> options = {}) {
    options.insert(options.begin(), {tool_, "serve", pool(), "--socket", path("sock")});
    std::vector<char*> argv;
    for (std::string& option : options) argv.push_back(option.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, path("log").c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    EXPECT_EQ(::posix_spawn(&server_, tool_.c_str(), &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 6000; ++i) {
      if (Talk(path("sock")).connected()) return;
      if (::waitpid(server_, nullptr, WNOHANG) == server_) {
        server_ = -1;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << "nobody listens: " << read(path("log"));
  }
  void kill() {
    if (server_ <= 0) return;
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
    server_ = -1;
  }
  /// SIGTERM; what waitpid() says.
  int stop() {
    ::kill(server_, SIGTERM);
    return wait();
  }
  int wait() {
    int status = -1;
    ::waitpid(server_, &status, 0);
    server_ = -1;
    return status;
  }
  Talk talk() const { return Talk(path("sock")); }
  std::string pool() const { return pool_.empty() ? path("cache.pool") : pool_; }
  ToolRun shell(const std::string& command) const {
    const int status = std::system(("{ " + command + "; } >" + quoted(path(".out")) + " 2>" +
                                    quoted(path(".err")) + " </dev/null")
                                       .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(path(".out")), read(path(".err"))};
  }

  std::string pool_;  // empty: in the test's directory
  pid_t server_ = -1;
};

}  // namespace perdure
