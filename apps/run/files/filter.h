// SPDX-License-Identifier: BSD-3-Clause
// The seccomp filter of a watched program (watch.h), and how its listener gets to the supervisor.
#pragma once

namespace perdure::run::files {

/// Makes the calling thread, and all that it starts, wait at every system call that may change a file, until the holder
/// of the listener lets it go on. Called after fork, before exec; allocates nothing. io_uring and asynchronous I/O are
/// answered with ENOSYS, as are other architectures' system calls: programs do without. Takes away the right to gain
/// privileges, unless the process is privileged.
/// Returns the listener, close-on-exec, or -1 with errno: EBUSY: somebody listens already; EINVAL: no such kernel.
int install_filter();

/// Hands a descriptor through a socket of the UNIX domain. False with errno.
bool send_descriptor(int socket, int descriptor);
/// Waits for one; close-on-exec. -1 with errno; ENODATA: the other end closed instead.
int receive_descriptor(int socket);

}  // namespace perdure::run::files
