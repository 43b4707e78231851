// SPDX-License-Identifier: BSD-3-Clause
// What a process that has a pool on a file open, and processes that read it meanwhile, agree on.
//
// The writer notices them when it writes the file the next time, and from then on keeps for each of
// them what a page held before it is written over. So all pages together are, for this reader, as
// they stood at one moment. Nothing of it is in the file, and nothing outlives a process.
//
//   writer, as long as it is open   listens on a socket; holds the lock of one of the meeting bytes,
//                                   whose number is in the socket's name
//   reader                          finds the locked byte, connects, sends the file opened for
//                                   reading: so it may read it
//   reader                          waits until it is welcome, or holds the lock of the writing byte,
//                                   shared, for a moment: so no write is under way that the writer
//                                   began before it could know
//   writer, before each write       holds the lock of the writing byte; welcomes who is there; keeps
//                                   for each reader what the pages hold, once
//   reader, for each page           reads it from the file; then looks whether it was kept: that counts;
//                                   then looks whether the writer is still there
//
// The writer's locks go with its lock of the whole file: who sees one of them knows that nobody else
// has opened it.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "perdure/base/words.h"
#include "perdure/region/file.h"

namespace perdure::live {

/// Bytes far behind the end of any pool: only their locks are used.
inline constexpr Offset kWritingByte = Offset{1} << 61;
inline constexpr Offset kFirstMeeting = kWritingByte + 1;
inline constexpr Offset kMeetings = Offset{1} << 48;
/// Of a writer that waits until those who look at a closed file have ended: new ones let it through.
inline constexpr Offset kWaitingByte = kWritingByte - 1;

/// The name of the socket is known to the kernel only; it belongs to no directory.
struct Meeting {
  sockaddr_un address;
  socklen_t bytes;
};
inline Meeting meeting_of(std::uint64_t device, std::uint64_t inode, Offset byte) {
  Meeting meeting{};
  meeting.address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(meeting.address.sun_path + 1, sizeof(meeting.address.sun_path) - 1,
                    "perdure-1/%" PRIx64 "/%" PRIx64 "/%" PRIx64, device, inode, byte);
  meeting.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return meeting;
}

/// What is kept for one reader: a header page, then pages, in the order in which they were kept.
struct KeptPage {
  std::uint64_t number;
  std::array<std::byte, kPageBytes> bytes;
};
struct KeptHeader {
  std::atomic<std::uint64_t> count;  // of the pages
};
inline constexpr std::uint64_t kGivenUp = ~std::uint64_t{0};  // a count: there was no space
inline constexpr Offset kept_page_at(std::uint64_t place) {
  return kPageBytes + place * sizeof(KeptPage);
}

/// Takes, or gives up, the lock of one byte, without waiting. It belongs to the opened file, not to the
/// process. False: another has it, or errno says why.
bool set_lock(int fd, short type, Offset byte);
/// The first byte of [begin, begin + bytes) that somebody who opened the file anew has locked alone;
/// none: 0.
Offset find_lock(int fd, Offset begin, Offset bytes);

/// One file, opened, by a message of its own, without waiting.   False: errno says why.
bool send_file(int socket, int fd);
/// None: errno says why; 0: the other side has closed.
Descriptor receive_file(int socket);

}  // namespace perdure::live
