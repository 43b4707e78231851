// SPDX-License-Identifier: BSD-3-Clause
// What of a socket outlives its process: that it listens, to which address it is bound, its options;
// and all of it, with what is unread, when the program holds both ends.
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "apps/run/runtime/objects.h"

namespace perdure::run {
namespace {

struct TcpState {  // as far as the kernel tells it, and libc's header does not
  tcp_info known;
  std::uint64_t pacing[2], bytes_acked, bytes_received;
  std::uint32_t segments_out, segments_in;
};
static_assert(sizeof(TcpState) == 144);

struct UnixState {
  bool known;
  std::uint8_t state;  // TCP_*
  std::uint8_t closed;
  std::uint64_t peer_inode;
  std::uint32_t most_waiting;  // of a listening one: its backlog
};

/// What the kernel tells only by netlink.
UnixState look_at_unix_socket(std::uint64_t inode) {
  UnixState seen{};
  const long link = syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (failed(link)) return seen;
  struct {
    nlmsghdr head;
    unix_diag_req request;
  } question{};
  question.head = {sizeof question, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0};
  question.request.sdiag_family = AF_UNIX;
  question.request.udiag_states = ~0U;
  question.request.udiag_ino = static_cast<__u32>(inode);
  question.request.udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN;
  question.request.udiag_cookie[0] = question.request.udiag_cookie[1] = ~0U;
  alignas(8) char answer[2048];
  long bytes = syscall(SYS_sendto, link, &question, sizeof question, 0);
  if (!failed(bytes)) bytes = syscall(SYS_recvfrom, link, answer, sizeof answer, MSG_DONTWAIT);
  syscall(SYS_close, link);
  const nlmsghdr* const head = reinterpret_cast<const nlmsghdr*>(answer);
  constexpr long kFixed = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(unix_diag_msg));
  if (bytes < kFixed || head->nlmsg_type != SOCK_DIAG_BY_FAMILY) return seen;
  seen.known = true;
  seen.state = reinterpret_cast<const unix_diag_msg*>(answer + NLMSG_HDRLEN)->udiag_state;
  for (long at = kFixed; at + static_cast<long>(sizeof(nlattr)) <= bytes;) {
    const nlattr* const attribute = reinterpret_cast<const nlattr*>(answer + at);
    const char* const value = answer + at + NLA_HDRLEN;
    if (attribute->nla_len < NLA_HDRLEN) break;
    if (attribute->nla_type == UNIX_DIAG_PEER) {
      std::uint32_t peer;
      __builtin_memcpy(&peer, value, sizeof peer);
      seen.peer_inode = peer;
    } else if (attribute->nla_type == UNIX_DIAG_SHUTDOWN) {
      seen.closed = static_cast<std::uint8_t>(*value);
    } else if (attribute->nla_type == UNIX_DIAG_RQLEN) {
      unix_diag_rqlen lengths;
      __builtin_memcpy(&lengths, value, sizeof lengths);
      seen.most_waiting = lengths.udiag_wqueue;
    }
    at += NLA_ALIGN(attribute->nla_len);
  }
  return seen;
}

long option(long socket, int level, int name, void* value, std::uint32_t bytes) {
  return syscall(SYS_getsockopt, socket, level, name, value, &bytes);
}

void describe(long socket, SocketState& state) {
  for (std::uint32_t i = 0; i < kSocketOptionCount; ++i) {
    if (!failed(option(socket, kSocketOptions[i].level, kSocketOptions[i].name, &state.options[i],
                       sizeof state.options[i])))
      state.option_mask |= 1U << i;
  }
  option(socket, SOL_SOCKET, SO_LINGER, state.linger, sizeof state.linger);
  option(socket, SOL_SOCKET, SO_RCVTIMEO, state.receive_timeout, sizeof state.receive_timeout);
  option(socket, SOL_SOCKET, SO_SNDTIMEO, state.send_timeout, sizeof state.send_timeout);
  std::uint32_t room = sizeof state.address;
  if (!failed(syscall(SYS_getsockname, socket, state.address, &room))) state.address_bytes = room;
  room = sizeof state.peer;
  if (!failed(syscall(SYS_getpeername, socket, state.peer, &room))) state.peer_bytes = room;
}

/// False: it is connected to what a resume cannot bring back.
bool judge(long socket, std::uint64_t inode, SocketState& state) {
  int listens = 0;
  option(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, sizeof listens);
  state.phase = listens != 0 ? SocketPhase::kListening : SocketPhase::kApart;
  if (state.domain == AF_UNIX) {
    const UnixState seen = look_at_unix_socket(inode);
    if (!seen.known) return false;
    state.backlog = static_cast<std::int32_t>(seen.most_waiting);
    if (listens != 0) return true;
    state.closed = seen.closed;
    if (seen.peer_inode != 0 && has_socket(seen.peer_inode) &&
        (state.type != SOCK_DGRAM || look_at_unix_socket(seen.peer_inode).peer_inode == inode)) {
      state.phase = SocketPhase::kPaired;
      state.peer_inode = seen.peer_inode;
      return true;
    }
    return state.type == SOCK_DGRAM ? state.address_bytes > 2 || state.peer_bytes == 0
                                    : seen.state == TCP_CLOSE;
  }
  if (state.domain != AF_INET && state.domain != AF_INET6) return false;
  if (state.type == SOCK_DGRAM) return true;
  TcpState tcp{};
  if (state.type != SOCK_STREAM || failed(option(socket, IPPROTO_TCP, TCP_INFO, &tcp, sizeof tcp)))
    return false;
  state.backlog =
      static_cast<std::int32_t>(tcp.known.tcpi_sacked);  // of a listening one: its backlog
  // One that was connected once is not as new.
  return tcp.known.tcpi_state == TCP_LISTEN ||
         (tcp.known.tcpi_state == TCP_CLOSE && tcp.segments_in == 0);
}

/// What is unread, message by message; it stays there.
bool append_unread(std::int32_t descriptor, long socket) {
  int from = 0, before = -1;
  option(socket, SOL_SOCKET, SO_PEEK_OFF, &before, sizeof before);
  if (failed(syscall(SYS_setsockopt, socket, SOL_SOCKET, SO_PEEK_OFF, &from, sizeof from)))
    return false;
  bool good = true;
  for (std::uint64_t offset = 0; good;) {
    const long got = syscall(SYS_recvfrom, socket, workspace().bounce, kBounceBytes,
                             MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
    if (got <= 0) break;
    good = got <= static_cast<long>(kBounceBytes) &&
           append_bytes(descriptor, offset, static_cast<std::uint64_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  syscall(SYS_setsockopt, socket, SOL_SOCKET, SO_PEEK_OFF, &before, sizeof before);
  return good;
}

}  // namespace

Carry capture_socket(const FileRecord& file, const char* information, long information_bytes) {
  const Borrowed socket(file.descriptor);
  if (!socket.is_good()) return Carry::kNo;
  SocketState state{};
  option(socket.get(), SOL_SOCKET, SO_DOMAIN, &state.domain, sizeof state.domain);
  option(socket.get(), SOL_SOCKET, SO_TYPE, &state.type, sizeof state.type);
  option(socket.get(), SOL_SOCKET, SO_PROTOCOL, &state.protocol, sizeof state.protocol);
  describe(socket.get(), state);
  const bool lost = !judge(socket.get(), file.inode, state);
  const bool tcp =
      state.type == SOCK_STREAM && (state.domain == AF_INET || state.domain == AF_INET6);
  if (lost && !tcp) return Carry::kNo;
  if (lost) state.phase = SocketPhase::kGone;
  // Descriptors that are under way in it are the kernel's alone.
  if (field_of(information, information_bytes, "scm_fds:", 10) != 0) return Carry::kNo;
  const ObjectRecord object{file.descriptor, ObjectKind::kSocket, 0, sizeof state, 0};
  if (!append(RecordKind::kObject, &object, sizeof object, &state, sizeof state))
    return Carry::kFailed;
  if (lost) return Carry::kNo;
  if (state.phase != SocketPhase::kPaired || append_unread(file.descriptor, socket.get()))
    return Carry::kYes;
  because("what is unread in a socket of its own cannot be looked at");
  return Carry::kFailed;
}

}  // namespace perdure::run
