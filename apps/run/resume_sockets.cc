// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/resume_sockets.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "perdure/error.h"

namespace perdure::run {
namespace {

constexpr int kPatienceTenths = 20;  // The killed process may still be giving its address back.

std::string text_of(const char* address, std::uint32_t bytes) {
  const auto family = reinterpret_cast<const sockaddr*>(address)->sa_family;
  char host[INET6_ADDRSTRLEN] = "";
  if (family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(family, &in->sin_addr, host, sizeof host);
    return fmt::format("{}:{}", host, ntohs(in->sin_port));
  }
  if (family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(address);
    ::inet_ntop(family, &in->sin6_addr, host, sizeof host);
    return fmt::format("[{}]:{}", host, ntohs(in->sin6_port));
  }
  const auto* name = reinterpret_cast<const sockaddr_un*>(address);
  if (bytes <= offsetof(sockaddr_un, sun_path)) return "a socket without a name";
  const std::size_t length = bytes - offsetof(sockaddr_un, sun_path);
  if (name->sun_path[0] != 0) return std::string(name->sun_path, ::strnlen(name->sun_path, length));
  return "@" + std::string(name->sun_path + 1, length - 1);
}

[[noreturn]] void refuse(const SocketState& state, const char* what) {
  throw Exception(Code::kIo, fmt::format("{}: {}: {}; the program had a socket there",
                                         text_of(state.address, state.address_bytes), what,
                                         std::strerror(errno)));
}

bool is_bound(const SocketState& state) {
  const auto* address = reinterpret_cast<const sockaddr*>(state.address);
  switch (address->sa_family) {
    case AF_INET: return reinterpret_cast<const sockaddr_in*>(address)->sin_port != 0;
    case AF_INET6: return reinterpret_cast<const sockaddr_in6*>(address)->sin6_port != 0;
    default: return state.address_bytes > offsetof(sockaddr_un, sun_path);
  }
}

/// The socket that the killed program has left in the file system. Its mode, or 0: there is none.
mode_t remove_stale(const SocketState& state) {
  const auto* name = reinterpret_cast<const sockaddr_un*>(state.address);
  struct stat there{};
  if (state.domain != AF_UNIX || name->sun_path[0] == 0 || ::stat(name->sun_path, &there) != 0 ||
      !S_ISSOCK(there.st_mode))
    return 0;
  const int probe = ::socket(AF_UNIX, state.type, 0);
  const bool answers =
      ::connect(probe, reinterpret_cast<const sockaddr*>(name), state.address_bytes) == 0;
  ::close(probe);
  if (answers) {
    errno = EADDRINUSE;
    refuse(state, "somebody else listens at it");
  }
  ::unlink(name->sun_path);
  return there.st_mode & 07777;
}

void bind_again(int socket, const SocketState& state) {
  const mode_t mode = remove_stale(state);
  // Connections of the killed program that linger must not keep it from its own port.
  const int yes = 1;
  if (state.domain != AF_UNIX) ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  int tenths = 0;
  while (::bind(socket, reinterpret_cast<const sockaddr*>(state.address), state.address_bytes) !=
         0) {
    if (errno != EADDRINUSE || ++tenths > kPatienceTenths) refuse(state, "bind");
    ::usleep(100'000);
  }
  if (mode != 0) ::chmod(reinterpret_cast<const sockaddr_un*>(state.address)->sun_path, mode);
}

}  // namespace

void set_options(int socket, const SocketState& state) {
  for (std::uint32_t i = 0; i < kSocketOptionCount; ++i) {
    const SocketOption& option = kSocketOptions[i];
    int now = 0, wanted = state.options[i];
    socklen_t bytes = sizeof now;
    if ((state.option_mask >> i & 1) == 0 ||
        ::getsockopt(socket, option.level, option.name, &now, &bytes) != 0 || now == wanted)
      continue;
    // The kernel doubles what it is given as the size of a buffer.
    const bool buffer =
        option.level == SOL_SOCKET && (option.name == SO_SNDBUF || option.name == SO_RCVBUF);
    if (buffer) wanted /= 2;
    if (::setsockopt(socket, option.level, option.name, &wanted, sizeof wanted) != 0 && buffer)
      continue;
  }
  if (state.linger[0] != 0)
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, state.linger, sizeof state.linger);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, state.receive_timeout,
               sizeof state.receive_timeout);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, state.send_timeout, sizeof state.send_timeout);
}

int socket_apart(const SocketState& state) {
  const int socket = ::socket(state.domain, state.type, state.protocol);
  if (socket < 0) return -1;
  // Before it is bound: some options count only then.
  set_options(socket, state);
  if (is_bound(state)) bind_again(socket, state);
  set_options(socket, state);
  if (state.phase == SocketPhase::kListening) {
    if (::listen(socket, state.backlog) != 0) refuse(state, "listen");
  } else if (state.peer_bytes != 0) {
    ::connect(socket, reinterpret_cast<const sockaddr*>(state.peer), state.peer_bytes);
  }
  return socket;
}

int socket_gone(const SocketState& state) {
  const int socket = ::socket(state.domain, SOCK_STREAM, 0);
  const int other = ::socket(state.domain, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = static_cast<sa_family_t>(state.domain);
  socklen_t bytes = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  // It listens at any address and port, and is asked at that one.
  const bool met = ::listen(other, 1) == 0 && ::getsockname(other, name, &bytes) == 0 &&
                   ::connect(socket, name, bytes) == 0;
  if (met) ::close(::accept(other, nullptr, nullptr));
  ::close(other);
  if (!met) refuse(state, "a connection that ends at once");
  ::shutdown(socket, SHUT_WR);
  set_options(socket, state);
  return socket;
}

void send_unread(const Object& object, int other_end) {
  const int plenty = 64 << 20;
  // Beyond the system's limit only root may go; what is unread did fit before.
  if (::setsockopt(other_end, SOL_SOCKET, SO_SNDBUFFORCE, &plenty, sizeof plenty) != 0)
    ::setsockopt(other_end, SOL_SOCKET, SO_SNDBUF, &plenty, sizeof plenty);
  for (const ObjectPiece& piece : object.pieces) {
    if (::send(other_end, piece.bytes.data(), piece.bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
        static_cast<ssize_t>(piece.bytes.size()))
      throw Exception(Code::kIo, fmt::format("descriptor {}: {} unread bytes do not fit a socket",
                                             object.record.descriptor, piece.bytes.size()));
  }
}

void close_ways(int socket, std::uint32_t ways) {
  if (ways != 0) ::shutdown(socket, static_cast<int>(ways) - 1);
}

}  // namespace perdure::run
