// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/server.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace perdure::memcached {
namespace {

constexpr int kBacklog = 1024;
constexpr rlim_t kOtherDescriptors = 128;

[[noreturn]] void fail(const std::string& what) {
  throw Exception(Code::kIo, what + ": " + std::strerror(errno));
}

/// As many descriptors as there may be connections, as far as that is allowed.
void allow_descriptors(std::uint64_t connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = connections + kOtherDescriptors;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  limit.rlim_max = std::max(limit.rlim_max, wanted);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

struct AddressesFree {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
};

}  // namespace

struct Server::Listener {
  Server* server;
  int descriptor;
  event* readable = nullptr;
};

std::uint32_t unix_seconds() { return static_cast<std::uint32_t>(std::time(nullptr)); }

Server::Server(Service& service, Syncer& syncer, Clock& clock, const ServerOptions& options)
    : service_(&service), syncer_(&syncer), clock_(&clock), options_(options) {
  clock_->set(unix_seconds());
  allow_descriptors(options.connections);
  service_->shutdown = [this] { end(); };
  service_->stats = [this](std::string_view group, Service::Say say) { return stats(group, say); };
  service_->reset_stats = [this] {
    const std::lock_guard lock(reset_mutex_);
    reset_ = sums();
  };
  base_ = ::event_base_new();
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (base_ == nullptr || wake_ < 0) fail("memcached: no event loop");
  if (!options.socket.empty()) {
    unix_ = std::make_unique<UnixListener>(options.socket, kBacklog, options.socket_mode);
    add_listener(unix_->descriptor());
  }
  if (options.port != 0) listen_on_tcp();
  if (!options.metrics.empty()) listen_for_metrics();
  for (unsigned i = 0; i < options.threads; ++i)
    workers_.push_back(std::make_unique<Worker>(service, syncer, options.idle_seconds));
  syncer_->tell([this] {
    const bool failed = !syncer_->failure().empty();
    for (const auto& worker : workers_) {
      if (worker->holds() || failed) worker->wake();
    }
    if (failed) end();
  });

  const auto stop = [](int, short, void* self) { static_cast<Server*>(self)->end(); };
  const auto ticks = [](int, short, void* self) { static_cast<Server*>(self)->tick(); };
  const auto woken = [](int, short, void*) {};
  for (const int signal : {SIGTERM, SIGINT})
    events_.push_back(::event_new(base_, signal, EV_SIGNAL | EV_PERSIST, stop, this));
  events_.push_back(::event_new(base_, wake_, EV_READ, woken, this));
  for (event* each : events_) ::event_add(each, nullptr);
  constexpr timeval kTick{0, 250'000};
  events_.push_back(::event_new(base_, -1, EV_PERSIST, ticks, this));
  ::event_add(events_.back(), &kTick);
}

Server::~Server() {
  for (const auto& worker : workers_) worker->stop();
  for (event* each : events_) ::event_free(each);
  for (const auto& listener : listeners_) {
    if (listener->readable != nullptr) ::event_free(listener->readable);
    if (unix_ == nullptr || listener->descriptor != unix_->descriptor())
      ::close(listener->descriptor);
  }
  if (http_ != nullptr) ::evhttp_free(http_);
  if (base_ != nullptr) ::event_base_free(base_);
  if (wake_ >= 0) ::close(wake_);
}

// ---- listening ----------------------------------------------------------------------------------

void Server::add_listener(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  listeners_.push_back(std::make_unique<Listener>(Listener{this, descriptor}));
  Listener& listener = *listeners_.back();
  const auto on_connection = [](int, short, void* which) {
    auto& its = *static_cast<Listener*>(which);
    its.server->accept_all(its);
  };
  listener.readable =
      ::event_new(base_, descriptor, EV_READ | EV_PERSIST, on_connection, &listener);
  ::event_add(listener.readable, nullptr);
}

void Server::listen_on_tcp() {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(options_.port);
  const std::string where = options_.listen + ":" + port;
  const char* const host = options_.listen.empty() ? nullptr : options_.listen.c_str();
  if (const int status = ::getaddrinfo(host, port.c_str(), &hints, &found); status != 0)
    throw Exception(Code::kInvalid, where + ": " + ::gai_strerror(status));
  const std::unique_ptr<addrinfo, AddressesFree> addresses(found);
  bool any = false;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int descriptor = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (descriptor < 0) continue;  // no IPv6 here
    const int one = 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (at->ai_family == AF_INET6)
      ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (::bind(descriptor, at->ai_addr, at->ai_addrlen) != 0 ||
        ::listen(descriptor, kBacklog) != 0) {
      const int why = errno;
      ::close(descriptor);
      if (why == EADDRINUSE)
        throw Exception(Code::kBusy, where +
                                         ": another process listens there; stop it, or name "
                                         "another port");
      errno = why;
      fail(where + ": cannot be listened on");
    }
    add_listener(descriptor);
    any = true;
  }
  if (!any) fail(where + ": no socket");
  port_ = options_.port;
}

void Server::listen_for_metrics() {
  const std::size_t colon = options_.metrics.rfind(':');
  const std::string address =
      colon == std::string::npos ? "127.0.0.1" : options_.metrics.substr(0, colon);
  const auto port = parse_unsigned(
      colon == std::string::npos ? options_.metrics : options_.metrics.substr(colon + 1), 65535);
  if (!port) throw Exception(Code::kInvalid, options_.metrics + ": is no ADDRESS:PORT");
  http_ = ::evhttp_new(base_);
  if (http_ == nullptr ||
      ::evhttp_bind_socket(http_, address.c_str(), static_cast<std::uint16_t>(*port)) != 0)
    fail(options_.metrics + ": metrics cannot be told there");
  const auto on_request = [](evhttp_request* request, void* self) {
    const std::string text = static_cast<Server*>(self)->metrics();
    ::evhttp_add_header(::evhttp_request_get_output_headers(request), "Content-Type",
                        "text/plain; version=0.0.4");
    evbuffer* const reply = ::evbuffer_new();
    ::evbuffer_add(reply, text.data(), text.size());
    ::evhttp_send_reply(request, HTTP_OK, "OK", reply);
    ::evbuffer_free(reply);
  };
  ::evhttp_set_cb(http_, "/metrics", on_request, this);
}

void Server::accept_all(Listener& listener) {
  for (;;) {
    const int connection =
        ::accept4(listener.descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
      // Out of descriptors for the moment: whoever wants to connect is still in the queue, at the next tick.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        ::event_del(listener.readable);
      return;
    }
    std::uint64_t open = 0;
    for (const auto& worker : workers_) open += worker->connections();
    if (open >= options_.connections) {
      rejected_.fetch_add(1, std::memory_order_relaxed);
      constexpr std::string_view kMany = "ERROR Too many open connections\r\n";
      ::send(connection, kMany.data(), kMany.size(), MSG_NOSIGNAL);
      ::close(connection);
      continue;
    }
    accepted_.fetch_add(1, std::memory_order_relaxed);
    const int one = 1;
    ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one,
                 sizeof(one));  // refused by a Unix socket
    ::setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    workers_[next_worker_++ % workers_.size()]->adopt(connection);
  }
}

// ---- running ------------------------------------------------------------------------------------

void Server::run() {
  for (const auto& worker : workers_) worker->start();
  while (!ending_.load()) ::event_base_loop(base_, EVLOOP_ONCE);
  for (const auto& listener : listeners_) ::event_del(listener->readable);
  for (const auto& worker : workers_) worker->stop();
  if (const std::string failure = syncer_->failure(); !failure.empty())
    throw Exception(Code::kPoisoned, failure);
}

void Server::end() {
  ending_.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));
}

void Server::tick() {
  const std::uint32_t before = clock_->now();
  clock_->set(unix_seconds());
  for (const auto& listener : listeners_) ::event_add(listener->readable, nullptr);
  if (clock_->now() == before) return;
  try {
    service_->store->tidy();
  } catch (const Exception& error) {
    if (error.code() != Code::kNoSpace) end();
  }
}

}  // namespace perdure::memcached
