// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/live_protocol.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace perdure::live {
namespace {

struct flock lock_of(short type, Offset begin, Offset bytes) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(begin);
  lock.l_len = static_cast<off_t>(bytes);
  return lock;
}

/// A message of one byte and one file.
struct Message {
  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = space.data();
    header.msg_controllen = space.size();
  }
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr header{};
};

}  // namespace

bool set_lock(int fd, short type, Offset byte) {
  struct flock lock = lock_of(type, byte, 1);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

Offset find_lock(int fd, Offset begin, Offset bytes) {
  struct flock lock = lock_of(F_RDLCK, begin, bytes);
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  return static_cast<Offset>(lock.l_start);
}

bool send_file(int socket, int fd) {
  Message message;
  cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return ::sendmsg(socket, &message.header, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

Descriptor receive_file(int socket) {
  Message message;
  const ssize_t got = ::recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got == 0) errno = 0;
  if (got <= 0) return Descriptor();
  errno = EPROTO;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return Descriptor();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return Descriptor(fd);
}

}  // namespace perdure::live
