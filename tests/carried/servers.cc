// SPDX-License-Identifier: BSD-3-Clause
// What run_descriptors_tool_test carries through crashes: servers on TCP and Unix sockets and a socket
// of UDP. Clients, in the same program, connect again when a resume has cut their connections.
// usage: servers FILE ROUNDS
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "carried.h"

namespace {

/// A server and its client, which connects again when the other end is gone.
class Echo {
 public:
  Echo(const sockaddr* address, socklen_t bytes) : address_(address), bytes_(bytes) {
    listening_ = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    MUST(setsockopt(listening_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    MUST(bind(listening_, address, bytes) == 0 && listen(listening_, 17) == 0);
    std::thread([this] { serve(); }).detach();
  }

  void ask(int round) {
    for (;;) {
      int answer = -1;
      if (client_ < 0) {
        client_ = socket(address_->sa_family, SOCK_STREAM, 0);
        MUST(connect(client_, address_, bytes_) == 0);
      }
      const bool good = send(client_, &round, sizeof round, MSG_NOSIGNAL) == sizeof round &&
                        recv(client_, &answer, sizeof answer, MSG_WAITALL) == sizeof answer;
      if (good) {
        MUST(answer == round);
        return;
      }
      close(client_);
      client_ = -1;
    }
  }

 private:
  void serve() {
    const int epoll = epoll_create1(0);
    epoll_event each{};
    each.events = EPOLLIN;
    each.data.fd = listening_;
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, listening_, &each) == 0);
    for (;;) {
      MUST(epoll_wait(epoll, &each, 1, -1) == 1);
      if (each.data.fd == listening_) {
        each.data.fd = accept4(listening_, nullptr, nullptr, SOCK_NONBLOCK);
        if (each.data.fd >= 0) MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, each.data.fd, &each) == 0);
        continue;
      }
      int value;
      const ssize_t got = recv(each.data.fd, &value, sizeof value, 0);
      if (got != sizeof value || send(each.data.fd, &value, sizeof value, MSG_NOSIGNAL) < 0)
        close(each.data.fd);
    }
  }

  const sockaddr* address_;
  socklen_t bytes_;
  int listening_, client_ = -1;
};

/// A port that is free now.
template <class Address>
void choose_port(Address& address, in_port_t& port) {
  const int probe = socket(reinterpret_cast<sockaddr*>(&address)->sa_family, SOCK_STREAM, 0);
  socklen_t bytes = sizeof address;
  MUST(bind(probe, reinterpret_cast<sockaddr*>(&address), bytes) == 0);
  MUST(getsockname(probe, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 && port != 0);
  close(probe);
}

Round servers() {
  static sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  choose_port(four, four.sin_port);
  static sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  choose_port(six, six.sin6_port);
  static sockaddr_un path{}, name{};
  path.sun_family = name.sun_family = AF_UNIX;
  std::strncpy(path.sun_path, (file_name + ".s").c_str(), sizeof path.sun_path - 1);
  unlink(path.sun_path);  // of a run that was killed before its first epoch
  std::memcpy(name.sun_path + 1, &four.sin_port, sizeof four.sin_port);
  static Echo echoes[] = {{reinterpret_cast<sockaddr*>(&four), sizeof four},
                          {reinterpret_cast<sockaddr*>(&six), sizeof six},
                          {reinterpret_cast<sockaddr*>(&path), sizeof path},
                          {reinterpret_cast<sockaddr*>(&name), sizeof(sa_family_t) + 3}};
  MUST(chmod(path.sun_path, 0640) == 0);
  static const int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  static sockaddr_in mine = four;
  mine.sin_port = 0;
  socklen_t bytes = sizeof mine;
  MUST(bind(datagrams, reinterpret_cast<sockaddr*>(&mine), bytes) == 0);
  MUST(getsockname(datagrams, reinterpret_cast<sockaddr*>(&mine), &bytes) == 0);
  MUST(connect(datagrams, reinterpret_cast<sockaddr*>(&mine), bytes) == 0);
  return [](int round) {
    for (Echo& each : echoes) each.ask(round);
    struct stat attributes{};
    MUST(stat(path.sun_path, &attributes) == 0 && (attributes.st_mode & 0777) == 0640);
    int got = -1;
    do {  // A resume loses what is under way.
      MUST(send(datagrams, &round, sizeof round, 0) == sizeof round);
    } while (recv(datagrams, &got, sizeof got, 0) != sizeof got);
    int rest;
    while (recv(datagrams, &rest, sizeof rest, 0) > 0) continue;
    MUST(got == round);
  };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  file_name = argv[1];
  return do_rounds(servers(), std::atoi(argv[2]));
}
