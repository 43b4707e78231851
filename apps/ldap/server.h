// SPDX-License-Identifier: BSD-3-Clause
// The server that slapd's socket back end talks to: threads that take one connection after the
// other from a Unix socket, one request each.
//
// Many more threads than processors: a thread with an update waits for the device, and those that
// wait at the same moment share one write (perdure/domain/sync.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/ldap/protocol.h"
#include "apps/unix_listener.h"

namespace perdure::ldap {

class Server {
 public:
  /// Listens at `path` (mode 0600: whoever can connect can do everything) and answers with
  /// `threads` threads. A socket file that nobody listens on any more is replaced.
  /// Requires: the service's directory outlives the server.
  /// Errors: throws Exception kBusy when another process listens there, kExists when the path is
  /// something other than a socket, kInvalid for a path that is too long, kIo.
  Server(Service service, const std::string& path, unsigned threads);
  /// As stop().
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Takes no more connections, lets each request that has come be answered, and removes the socket
  /// file. Threads: one.
  void stop();

  std::uint64_t answered() const { return answered_.load(std::memory_order_relaxed); }

 private:
  struct Worker;
  void serve(Worker& worker);
  /// Reads one request and answers it.
  void converse(int connection);

  Service service_;
  UnixListener listener_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> answered_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace perdure::ldap
