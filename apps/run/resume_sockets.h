// SPDX-License-Identifier: BSD-3-Clause
// Makes sockets as the program had them.
#pragma once

#include "apps/run/belongings.h"

namespace perdure::run {

/// A socket that is connected to nobody: bound, listening, or with the address that its datagrams go
/// to. A path in the file system that nobody listens at any more is bound anew.
/// Errors: Exception: the address is somebody else's now, or not there.
int socket_apart(const SocketState& state);

/// A socket of TCP whose other end is closed: what is read is the end, to write is EPIPE.
/// Errors: Exception: kIo.
int socket_gone(const SocketState& state);

void set_options(int socket, const SocketState& state);

/// Sends what was unread in `object` by the other end. Errors: Exception.
void send_unread(const Object& object, int other_end);

/// shutdown(2): bit 0 for reading, bit 1 for writing.
void close_ways(int socket, std::uint32_t ways);

}  // namespace perdure::run
