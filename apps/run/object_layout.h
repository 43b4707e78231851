// SPDX-License-Identifier: BSD-3-Clause
// What an epoch says of the program besides memory, threads and files: records of an image, as those
// of layout.h.
//
//   objects := Object ObjectBytes*       of a descriptor whose file the kernel keeps in memory alone
//   others  := Attributes Task* Timer* Lock*
//
// An Object overrules the kind of its descriptor's FileRecord: where one is, the descriptor is
// carried. Objects that share what is behind them (the ends of a pipe) share the FileRecord's inode,
// and the first of them has the bytes.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>

namespace perdure::run {

enum class ObjectKind : std::uint32_t {
  kPipe = 1,      // value: capacity; ObjectBytes: unread, packet by packet
  kEvent = 2,     // value: count; flags: EFD_SEMAPHORE
  kTimer = 3,     // TimerSetting
  kPoll = 4,      // PollMember*
  kSignals = 5,   // value: the mask
  kMemory = 6,    // value: bytes; flags: seals; the name; ObjectBytes: all that is not zero
  kSocket = 7,    // SocketState; ObjectBytes: unread, of a stream between two of the program's own
  kMessages = 8,  // a POSIX message queue: its name
};

struct ObjectRecord {
  std::int32_t descriptor;
  ObjectKind kind;
  std::uint32_t flags;
  std::uint32_t detail_bytes;  // that follow
  std::uint64_t value;
};
static_assert(sizeof(ObjectRecord) == 24);

struct ObjectBytesRecord {  // then the bytes
  std::int32_t descriptor;
  std::uint32_t reserved;
  std::uint64_t offset;
};
static_assert(sizeof(ObjectBytesRecord) == 16);

inline constexpr std::uint64_t kMostMemoryBytes = std::uint64_t{4} << 20;  // of a memfd

/// Of timerfd and of timer_create. Times in ns.
struct TimerSetting {
  std::int32_t clock;
  std::uint32_t flags;     // TFD_TIMER_ABSTIME: `due` is a time of the clock; else what is left
  std::uint64_t due;       // 0: not running
  std::uint64_t interval;  // 0: once
  std::uint64_t ticks;     // of a timerfd, not yet read
};
static_assert(sizeof(TimerSetting) == 32);

struct PollMember {
  std::int32_t descriptor;
  std::uint32_t events;
  std::uint64_t data;
};
static_assert(sizeof(PollMember) == 16);

/// The options of sockets that are ints and that a program may have set. Only ever added to.
struct SocketOption {
  std::int32_t level, name;
};
inline constexpr SocketOption kSocketOptions[] = {
    {SOL_SOCKET, SO_REUSEADDR},       {SOL_SOCKET, SO_REUSEPORT},  {SOL_SOCKET, SO_BROADCAST},
    {SOL_SOCKET, SO_KEEPALIVE},       {SOL_SOCKET, SO_OOBINLINE},  {SOL_SOCKET, SO_PASSCRED},
    {SOL_SOCKET, SO_TIMESTAMP},       {SOL_SOCKET, SO_RCVLOWAT},   {SOL_SOCKET, SO_SNDBUF},
    {SOL_SOCKET, SO_RCVBUF},          {IPPROTO_IPV6, IPV6_V6ONLY}, {IPPROTO_TCP, TCP_NODELAY},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT},  {IPPROTO_TCP, TCP_KEEPIDLE}, {IPPROTO_TCP, TCP_KEEPINTVL},
    {IPPROTO_TCP, TCP_KEEPCNT},       {IPPROTO_IP, IP_TOS},        {IPPROTO_IP, IP_PKTINFO},
    {IPPROTO_IPV6, IPV6_RECVPKTINFO},
};
inline constexpr std::uint32_t kSocketOptionCount =
    sizeof kSocketOptions / sizeof kSocketOptions[0];

enum class SocketPhase : std::uint32_t {
  kApart = 1,  // bound or not; connected only where that means no handshake (UDP)
  kListening = 2,
  kPaired = 3,  // with the socket whose FileRecord has the inode `peer_inode`
  kGone = 4,    // its connection is lost: after a resume the other end is closed
};

struct SocketState {
  std::int32_t domain, type, protocol;
  SocketPhase phase;
  std::int32_t backlog;
  std::uint32_t closed;  // bit 0: for reading, 1: for writing
  std::uint64_t peer_inode;
  std::uint32_t option_mask;  // those that the socket knows
  std::uint32_t address_bytes, peer_bytes;
  std::int32_t options[20];
  std::int32_t linger[2];
  std::uint32_t reserved;
  std::int64_t receive_timeout[2], send_timeout[2];  // struct timeval
  char address[128], peer[128];
};
static_assert(sizeof(SocketState) == 424);
static_assert(kSocketOptionCount <= 20);

/// Of the process. The path of its program follows.
struct AttributesRecord {
  std::uint64_t limits[16][2];  // by RLIMIT_*: soft, hard
  std::uint64_t pending;        // signals for the process: bit n-1
  std::uint64_t away_address;   // of the runtime's sum of the time between epochs and their resumes
  std::int32_t oom_score_adj;
  std::uint32_t dumpable, no_new_privileges, subreaper, no_huge_pages;
  std::uint32_t program_bytes;
};
static_assert(sizeof(AttributesRecord) == 296);

/// What of a thread its ThreadRecord does not say.
struct TaskRecord {
  std::int32_t tid, nice, policy, priority;
  std::uint64_t pending;  // signals for this thread
};
static_assert(sizeof(TaskRecord) == 24);

/// Of timer_create.
struct TimerRecord {
  std::int32_t id, signal, notify, tid;  // as struct sigevent
  std::uint64_t value;
  TimerSetting setting;
};
static_assert(sizeof(TimerRecord) == 56);

enum class LockKind : std::uint32_t {
  kProcess = 1,
  kDescription = 2,
  kWhole = 3
};  // POSIX, OFD, flock

struct LockRecord {
  std::int32_t descriptor;
  LockKind kind;
  std::uint32_t exclusive;
  std::uint32_t reserved;
  std::uint64_t begin, bytes;  // 0 bytes: to the end, wherever that will be
};
static_assert(sizeof(LockRecord) == 32);

}  // namespace perdure::run
