// SPDX-License-Identifier: BSD-3-Clause
// System calls, and what belongs to them, that headers of older kernels do not name.
#pragma once

namespace perdure::run::files {

inline constexpr int kSysFchmodat2 = 452;
inline constexpr int kSysSetxattrat = 463;
inline constexpr int kSysRemovexattrat = 466;

inline constexpr unsigned kPidfdThread = 0200;  // PIDFD_THREAD, Linux 6.9
inline constexpr unsigned long kSetNotifyFlags =
    0x40082104;                                  // SECCOMP_IOCTL_NOTIF_SET_FLAGS, Linux 6.6
inline constexpr unsigned long kSyncWakeUp = 1;  // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP

}  // namespace perdure::run::files
