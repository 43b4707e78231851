#include "apps/ldap/server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
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

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Exception(Code::kIo, path + ": " + what + ": " + std::strerror(errno));
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    throw Exception(Code::kInvalid, path + ": a socket's path has 1 to " +
                                        std::to_string(sizeof(address.sun_path) - 1) +
                                        " bytes; choose a shorter one");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Whether the path is free, or holds a socket that nobody listens on.
void refuse_if_taken(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    fail(path, "cannot be looked at");
  }
  if (!S_ISSOCK(status.st_mode))
    throw Exception(Code::kExists,
                    path + ": is there and no socket; it is never overwritten, name another path");
  const sockaddr_un address = address_of(path);
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) fail(path, "no socket");
  const bool listened =
      ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(probe);
  if (listened)
    throw Exception(Code::kBusy,
                    path + ": another process listens there; stop it, or name another path");
}

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

// A new socket comes into being under another name and takes the place of an old one by rename, so
// that at no moment a socket is there that refuses.
Server::Server(Service service, const std::string& path, unsigned threads)
    : service_(std::move(service)), path_(path) {
  (void)address_of(path);
  refuse_if_taken(path);
  const std::string fresh = path + "." + std::to_string(::getpid());
  const sockaddr_un address = address_of(fresh);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0) fail(path, "no socket");
  struct stat status{};
  ::unlink(fresh.c_str());
  const bool listening =
      ::fchmod(listener_, 0600) == 0 &&  // the mode that bind() gives the file
      ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::chmod(fresh.c_str(), 0600) == 0 && ::listen(listener_, kBacklog) == 0 &&
      ::stat(fresh.c_str(), &status) == 0 && std::rename(fresh.c_str(), path.c_str()) == 0;
  if (!listening) {
    const int why = errno;
    ::unlink(fresh.c_str());
    ::close(listener_);
    errno = why;
    fail(path, "cannot be listened on");
  }
  file_ = status.st_ino;
  for (unsigned i = 0; i < threads; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.thread = std::thread([this, &worker] { serve(worker); });
  }
}

Server::~Server() { stop(); }

void Server::stop() {
  if (stopping_.exchange(true)) return;
  ::shutdown(listener_, SHUT_RDWR);  // accept() returns in every thread
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    // Its request is either whole and will be answered, or will never be.
    if (worker->connection >= 0) ::shutdown(worker->connection, SHUT_RD);
  }
  for (const auto& worker : workers_) worker->thread.join();
  ::close(listener_);
  struct stat status{};
  if (::stat(path_.c_str(), &status) == 0 && status.st_ino == file_) ::unlink(path_.c_str());
}

void Server::serve(Worker& worker) {
  while (!stopping_.load(std::memory_order_relaxed)) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
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
