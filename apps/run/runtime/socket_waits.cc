// SPDX-License-Identifier: BSD-3-Clause
// What the epoch's signal does to transfers: one with a timeout (SO_RCVTIMEO, SO_SNDTIMEO) is not
// restarted by the kernel, and one that has moved some of its bytes returns their number, as it never
// does in a program that no signal reaches. Here both go on.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/run/runtime/waits.h"

namespace perdure::run {
namespace {

std::int64_t timeout_of(int socket, int option) {
  timeval timeout{};
  socklen_t bytes = sizeof timeout;
  if (getsockopt(socket, SOL_SOCKET, option, &timeout, &bytes) != 0) return 0;
  return timeout.tv_sec * kNsPerSecond + timeout.tv_usec * 1000;
}

/// Calls attempt() until it is not the epoch's signal that ends it. `begin`: of the call; 0 for
/// reads and writes, most of which are of files: then the first interruption counts as the begin.
template <class Attempt>
auto while_cut_short(int socket, int option, short events, std::int64_t begin, Attempt attempt) {
  for (;;) {
    cut_short = 0;
    const auto result = attempt();
    if (result >= 0 || errno != EINTR || cut_short != -EINTR) return result;
    const std::int64_t timeout = timeout_of(socket, option);
    if (timeout == 0) continue;
    if (begin == 0) begin = steady_ns();
    const std::int64_t left = timeout - (steady_ns() - begin);
    pollfd file{socket, events, 0};
    const timespec time = time_of(left < 0 ? 0 : left);
    const int ready = ppoll(&file, 1, &time, nullptr);
    if (ready > 0) continue;
    if (ready == 0) errno = EAGAIN;
    return decltype(result){-1};
  }
}

template <class Attempt>
auto receiving(int socket, std::int64_t begin, Attempt attempt) {
  return while_cut_short(socket, SO_RCVTIMEO, POLLIN, begin, attempt);
}

template <class Attempt>
auto sending(int socket, std::int64_t begin, Attempt attempt) {
  return while_cut_short(socket, SO_SNDTIMEO, POLLOUT, begin, attempt);
}

/// move(bytes already moved) until all `bytes` are, or it is not the epoch's signal that ends it.
template <class Move>
ssize_t move_all(std::size_t bytes, Move move) {
  std::size_t done = 0;
  for (;;) {
    const ssize_t more = move(done);
    if (more <= 0) return done == 0 ? more : static_cast<ssize_t>(done);
    done += static_cast<std::size_t>(more);
    if (done >= bytes || cut_short != more) return static_cast<ssize_t>(done);
  }
}

}  // namespace
}  // namespace perdure::run

using namespace perdure::run;  // NOLINT: what follows has C's names

extern "C" {

#pragma GCC visibility push(default)

int accept(int socket, sockaddr* address, socklen_t* bytes) {
  static const auto real = next<decltype(&accept)>("accept");
  return receiving(socket, steady_ns(), [&] { return real(socket, address, bytes); });
}

int accept4(int socket, sockaddr* address, socklen_t* bytes, int flags) {
  static const auto real = next<decltype(&accept4)>("accept4");
  return receiving(socket, steady_ns(), [&] { return real(socket, address, bytes, flags); });
}

int connect(int socket, const sockaddr* address, socklen_t bytes) {
  static const auto real = next<decltype(&connect)>("connect");
  return sending(socket, steady_ns(), [&] { return real(socket, address, bytes); });
}

ssize_t read(int file, void* to, std::size_t room) {
  static const auto real = next<decltype(&read)>("read");
  return receiving(file, 0, [&] { return real(file, to, room); });
}

ssize_t recv(int socket, void* to, std::size_t room, int flags) {
  return recvfrom(socket, to, room, flags, nullptr, nullptr);
}

ssize_t recvfrom(int socket, void* to, std::size_t room, int flags, sockaddr* from,
                 socklen_t* bytes) {
  static const auto real = next<decltype(&recvfrom)>("recvfrom");
  const std::int64_t begin = steady_ns();
  return move_all((flags & MSG_WAITALL) != 0 ? room : 0, [&](std::size_t done) {
    return receiving(socket, begin, [&] {
      return real(socket, static_cast<char*>(to) + done, room - done, flags, from, bytes);
    });
  });
}

ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static const auto real = next<decltype(&recvmsg)>("recvmsg");
  return receiving(socket, steady_ns(), [&] { return real(socket, message, flags); });
}

ssize_t write(int file, const void* from, std::size_t bytes) {
  static const auto real = next<decltype(&write)>("write");
  return move_all(bytes, [&](std::size_t done) {
    return sending(file, 0,
                   [&] { return real(file, static_cast<const char*>(from) + done, bytes - done); });
  });
}

ssize_t send(int socket, const void* from, std::size_t bytes, int flags) {
  return sendto(socket, from, bytes, flags, nullptr, 0);
}

ssize_t sendto(int socket, const void* from, std::size_t bytes, int flags, const sockaddr* to,
               socklen_t to_bytes) {
  static const auto real = next<decltype(&sendto)>("sendto");
  const std::int64_t begin = steady_ns();
  return move_all(bytes, [&](std::size_t done) {
    return sending(socket, begin, [&] {
      return real(socket, static_cast<const char*>(from) + done, bytes - done, flags, to, to_bytes);
    });
  });
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto real = next<decltype(&sendmsg)>("sendmsg");
  return sending(socket, steady_ns(), [&] { return real(socket, message, flags); });
}

#pragma GCC visibility pop
}
