// SPDX-License-Identifier: BSD-3-Clause
// Server: listens on a Unix socket and on TCP, and shares the connections out to its workers. What is served is a
// Service's; nothing here knows of pools.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/memcached/worker.h"
#include "apps/unix_listener.h"

struct evconnlistener;
struct evhttp;

namespace perdure::memcached {

struct ServerOptions {
  std::string socket;  // a Unix socket's path; empty: none
  unsigned socket_mode = 0600;
  std::string listen = "127.0.0.1";
  std::uint16_t port = 0;  // 0: no TCP
  std::string metrics;     // ADDRESS:PORT of an HTTP server that tells metrics; empty: none
  unsigned threads = 2;
  std::uint64_t connections = 1024;
  std::uint32_t idle_seconds = 0;  // 0: for ever
};

/// Seconds of the system's clock.
std::uint32_t unix_seconds();

class Server {
 public:
  /// Fills in the service's functions, and listens.
  /// Requires: service, syncer and clock outlive the server.
  /// Errors: throws Exception kBusy, kExists, kInvalid, kIo.
  Server(Service& service, Syncer& syncer, Clock& clock, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Serves until SIGTERM, SIGINT, a client's `shutdown` or end(); then answers what was read. Threads: the one that made it.
  /// Errors: throws Exception kPoisoned when the storage failed.
  void run();
  /// Ends run(). Threads: any.
  void end();

  std::uint16_t port() const { return port_; }
  std::uint64_t requests() const;
  /// As Service::stats.
  bool stats(std::string_view group, Service::Say say) const;
  /// For Prometheus.
  std::string metrics() const;

 private:
  struct Listener;

  void listen_on_tcp();
  void listen_for_metrics();
  void add_listener(int descriptor);
  void accept_all(Listener& listener);
  void tick();
  CounterValues sums() const;
  void general_stats(Service::Say say) const;
  void settings(Service::Say say) const;

  Service* service_;
  Syncer* syncer_;
  Clock* clock_;
  ServerOptions options_;
  std::uint16_t port_ = 0;
  event_base* base_ = nullptr;
  evhttp* http_ = nullptr;
  int wake_ = -1;
  std::vector<event*> events_;
  std::unique_ptr<UnixListener> unix_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t next_worker_ = 0;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::atomic<bool> ending_{false};
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> rejected_{0};
  mutable std::mutex reset_mutex_;
  CounterValues reset_{};  // the sums at the last `stats reset`
};

}  // namespace perdure::memcached
