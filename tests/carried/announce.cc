// SPDX-License-Identifier: BSD-3-Clause
// What run_promises_tool_test carries through crashes: it makes a number durable, and tells whoever listens.
// usage: announce FILE SOCKET LAST
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int file = ::open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0) return 1;
  sockaddr_un listener{};
  listener.sun_family = AF_UNIX;
  std::strncpy(listener.sun_path, argv[2], sizeof listener.sun_path - 1);
  for (int number = 1; number <= std::atoi(argv[3]); ++number) {
    char line[32];
    const int bytes = std::snprintf(line, sizeof line, "%d\n", number);
    if (::write(file, line, static_cast<std::size_t>(bytes)) != bytes) return 1;
    if ((number % 2 == 0 ? ::fsync(file) : ::fdatasync(file)) != 0) return 1;
    // A socket that an epoch meets is lost by a resume: so every number has its own, until it was sent.
    for (bool sent = false; !sent;) {
      const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      sent =
          ::sendto(socket, &number, sizeof number, MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&listener), sizeof listener) == sizeof number;
      ::close(socket);
    }
  }
  return 0;
}
