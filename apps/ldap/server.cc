// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

namespace perdure::ldap {
namespace {

constexpr std::size_t kMaxRequestBytes = 16 << 20;
constexpr std::size_t kReadBytes = 8 << 10;
constexpr int kBacklog = 1024;
constexpr timeval kPatience{10, 0};   // with a peer that says nothing, or does not listen
constexpr int kBindPatienceMs = 200;  // for the rest of a password that may have no rest

bool send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

struct Server::Worker {
  std::mutex mutex;  // stop() ends a conversation only while its descriptor is this one
  int connection = -1;
  std::thread thread;
};

Server::Server(Service service, const std::string& path, unsigned threads)
    : service_(std::move(service)), listener_(path, kBacklog, 0600) {
  for (unsigned i = 0; i < threads; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.thread = std::thread([this, &worker] { serve(worker); });
  }
}

Server::~Server() { stop(); }

void Server::stop() {
  if (stopping_.exchange(true)) return;
  ::shutdown(listener_.descriptor(), SHUT_RDWR);  // accept() returns in every thread
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    // Its request is either whole and will be answered, or will never be.
    if (worker->connection >= 0) ::shutdown(worker->connection, SHUT_RD);
  }
  for (const auto& worker : workers_) worker->thread.join();
  listener_.close();
}

void Server::serve(Worker& worker) {
  while (!stopping_.load(std::memory_order_relaxed)) {
    const int connection = ::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      // Out of descriptors or memory for the moment: the peer is still in the queue.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    {
      const std::lock_guard lock(worker.mutex);
      worker.connection = connection;
    }
    if (!stopping_.load()) converse(connection);
    const std::lock_guard lock(worker.mutex);
    worker.connection = -1;
    ::close(connection);
  }
}

void Server::converse(int connection) {
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  std::string request;
  while (!is_whole_request(request)) {
    if (request.size() > kMaxRequestBytes) {
      std::string refusal;
      append_result(refusal, {ResultCode::kAdminLimitExceeded, {}, "a request of over 16 MiB"});
      send_all(connection, refusal);
      return;
    }
    // A password with a zero in it is announced longer than it is sent.
    if (request.starts_with("BIND\n") && request.ends_with("\n\n")) {
      pollfd more{connection, POLLIN, 0};
      if (::poll(&more, 1, kBindPatienceMs) == 0) break;
    }
    const std::size_t before = request.size();
    request.resize(before + kReadBytes);
    const ssize_t got = ::recv(connection, request.data() + before, kReadBytes, 0);
    request.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 && before > 0) break;  // cut off: the parser says what is missing
    if (got <= 0) return;
  }
  answer(service_, std::move(request),
         [connection](std::string_view text) { return send_all(connection, text); });
  answered_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace perdure::ldap
