// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "apps/run/files/system_calls.h"

namespace perdure::run::files {
namespace {

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kNotify = SECCOMP_RET_USER_NOTIF;
constexpr std::uint32_t kNone = SECCOMP_RET_ERRNO | ENOSYS;

constexpr std::uint32_t kNumber = offsetof(seccomp_data, nr);
constexpr std::uint32_t kArch = offsetof(seccomp_data, arch);
// The lower half: none of those that are looked at has a meaning in the upper one.
constexpr std::uint32_t argument(int index) {
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args)) + 8U * index;
}

constexpr int kWaiting[] = {
    SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev, SYS_pwritev2, SYS_sendfile, SYS_splice,
    SYS_copy_file_range, SYS_ftruncate, SYS_truncate, SYS_fallocate,
    // Names.
    SYS_creat, SYS_openat2, SYS_unlink, SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2,
    SYS_link, SYS_linkat, SYS_symlink, SYS_symlinkat, SYS_mkdir, SYS_mkdirat, SYS_rmdir, SYS_mknod,
    SYS_mknodat, SYS_bind,
    // What is known of a file.
    SYS_chmod, SYS_fchmod, SYS_fchmodat, kSysFchmodat2, SYS_chown, SYS_fchown, SYS_lchown,
    SYS_fchownat, SYS_utime, SYS_utimes, SYS_futimesat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr,
    SYS_fsetxattr, kSysSetxattrat, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    kSysRemovexattrat,
    // What the supervisor wants to know of.
    SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_sync, SYS_syncfs, SYS_msync, SYS_execve,
    SYS_execveat};
constexpr int kAbsent[] = {SYS_io_uring_setup, SYS_io_setup};

constexpr sock_filter load(std::uint32_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}
constexpr sock_filter answer(std::uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }
constexpr sock_filter if_equal(std::uint32_t value, std::uint8_t then, std::uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise);
}
constexpr sock_filter if_any(std::uint32_t bits, std::uint8_t then, std::uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, then, otherwise);
}

// Calls that are neither looked at nor waited for cost nothing: the kernel knows from a run of the filter beforehand
// that they are allowed.
constexpr auto kProgram = [] {
  std::array<sock_filter, 32 + 2 * (std::size(kWaiting) + std::size(kAbsent))> program{};
  std::size_t size = 0;
  const auto add = [&](std::initializer_list<sock_filter> more) {
    for (const sock_filter& each : more) program[size++] = each;
  };
  add({load(kArch), if_equal(AUDIT_ARCH_X86_64, 1, 0), answer(kNone)});
  add({load(kNumber), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
       answer(kNone)});  // x32
  add({if_equal(SYS_open, 0, 4), load(argument(1)), if_any(O_CREAT | O_TRUNC, 0, 1),
       answer(kNotify), answer(kAllow)});
  add({if_equal(SYS_openat, 0, 4), load(argument(2)), if_any(O_CREAT | O_TRUNC, 0, 1),
       answer(kNotify), answer(kAllow)});
  // MAP_SHARED is a bit of MAP_SHARED_VALIDATE and none of MAP_PRIVATE.
  add({if_equal(SYS_mmap, 0, 7), load(argument(3)), if_any(MAP_SHARED, 0, 4),
       if_any(MAP_ANONYMOUS, 3, 0), load(argument(2)), if_any(PROT_WRITE, 0, 1), answer(kNotify),
       answer(kAllow)});
  add({if_equal(SYS_ioctl, 0, 5), load(argument(1)), if_equal(FICLONE, 1, 0),
       if_equal(FICLONERANGE, 0, 1), answer(kNotify), answer(kAllow)});
  for (const int number : kAbsent)
    add({if_equal(static_cast<std::uint32_t>(number), 0, 1), answer(kNone)});
  for (const int number : kWaiting)
    add({if_equal(static_cast<std::uint32_t>(number), 0, 1), answer(kNotify)});
  add({answer(kAllow)});
  return std::pair(program, size);
}();

}  // namespace

int install_filter() {
  sock_fprog program{static_cast<unsigned short>(kProgram.second),
                     const_cast<sock_filter*>(kProgram.first.data())};
  const auto install = [&] {
    return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                      SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
  };
  const int listener = install();
  if (listener >= 0 || errno != EACCES) return listener;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return install();
}

bool send_descriptor(int socket, int descriptor) {
  char byte = 0;
  iovec content{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec content{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t bytes = 0;
  do bytes = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (bytes == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    errno = ENODATA;
    return -1;
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

}  // namespace perdure::run::files
