// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/watch.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

#include "apps/run/files/system_calls.h"
#include "perdure/error.h"

namespace perdure::run::files {

SyscallWatch::SyscallWatch(Descriptor listener, FileHistory& history, Hooks hooks, Options options)
    : listener_(std::move(listener)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      history_(history),
      hooks_(std::move(hooks)),
      handles_(options.thread_handles) {
  if (stop_.get() < 0) throw Exception(io_error("eventfd"));
  // The program waits while this process works, and the other way round: they take turns on one CPU, where it is known.
  ::ioctl(listener_.get(), kSetNotifyFlags, kSyncWakeUp);
}

void SyscallWatch::stop() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = ::write(stop_.get(), &one, sizeof one);
}

bool SyscallWatch::answer(std::uint64_t id) {
  seccomp_notif_resp response{};
  response.id = id;
  response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ++answered_;
  return ::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &response) == 0;
}

bool SyscallWatch::still_waits(std::uint64_t id) const {
  return ::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

void SyscallWatch::run() {
  seccomp_notif_sizes sizes{};
  if (::syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0)
    throw Exception(io_error("seccomp notifications"));
  std::vector<std::uint64_t> buffer(
      std::max<std::size_t>(sizes.seccomp_notif, sizeof(seccomp_notif)) / 8 + 1);
  for (;;) {
    pollfd events[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(events, 2, -1) < 0 && errno != EINTR) throw Exception(io_error("poll"));
    if (events[1].revents != 0) return;
    if ((events[0].revents & POLLIN) == 0) {
      if ((events[0].revents & (POLLHUP | POLLERR)) != 0) return;
      continue;
    }
    std::fill(buffer.begin(), buffer.end(), 0);
    if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, buffer.data()) != 0) {
      if (errno == ENOENT || errno == EINTR) continue;  // Its thread has died, or got a signal.
      throw Exception(io_error("seccomp notifications"));
    }
    seccomp_notif notification{};
    std::memcpy(&notification, buffer.data(), sizeof notification);
    Call call{};
    call.id = notification.id;
    call.thread = static_cast<pid_t>(notification.pid);
    call.number = notification.data.nr;
    std::copy(std::begin(notification.data.args), std::end(notification.data.args), call.arguments);
    ++received_;
    serve(call);
  }
}

void SyscallWatch::serve(const Call& call) {
  if (hooks_.before_call) hooks_.before_call();
  switch (call.number) {
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_sync_file_range:
    case SYS_sync:
    case SYS_syncfs:
    case SYS_msync:
      if (hooks_.on_sync && hooks_.on_sync(call)) return;
      answer(call.id);
      return;
    case SYS_execve:
    case SYS_execveat:
      if (hooks_.on_exec) hooks_.on_exec(call, listener_.get());
      answer(call.id);
      return;
    default: break;
  }
  // A refusal is told of while the call waits.
  {
    std::unique_lock hold(history_.gate());
    refused_.clear();
    const bool broken_before = history_.is_broken();
    try {
      record(call);
    } catch (const Exception& failure) {
      if (still_waits(call.id)) {
        history_.cannot_take_back(failure.what());
        refused_ = failure.what();
      }
    }
    if (broken_before) refused_.clear();  // It has been told.
    if (refused_.empty()) {
      answer(call.id);
      return;
    }
  }
  if (hooks_.on_refused) hooks_.on_refused(call, refused_);
  const std::lock_guard hold(history_.gate());
  answer(call.id);
}

}  // namespace perdure::run::files
