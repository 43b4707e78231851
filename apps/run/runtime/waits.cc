// SPDX-License-Identifier: BSD-3-Clause
// Waits that the kernel does not restart after a signal return EINTR at every epoch. Here they go on
// for the time that is left when it was the epoch's signal, and no handler of the program's, that
// interrupted them: in this file sleeps, and waits for descriptors, signals, semaphores and messages;
// those on sockets in socket_waits.cc. Waits of other kinds are restarted by SA_RESTART.
#include "apps/run/runtime/waits.h"

#include <aio.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <threads.h>
#include <unistd.h>

namespace perdure::run {

constinit thread_local long cut_short = 0;

namespace {

constexpr std::int64_t kNsPerMillisecond = 1'000'000;

int milliseconds(std::int64_t ns) {
  return ns < 0 ? -1 : static_cast<int>((ns + kNsPerMillisecond - 1) / kNsPerMillisecond);
}
std::int64_t ns_of_milliseconds(int timeout) {
  return timeout < 0 ? kForEver : timeout * kNsPerMillisecond;
}

bool runs_always(clockid_t clock) { return clock >= 0 && clock != CLOCK_PROCESS_CPUTIME_ID; }

}  // namespace
}  // namespace perdure::run

using namespace perdure::run;  // NOLINT: what follows has C's names

extern "C" {

#pragma GCC visibility push(default)

// --- for descriptors

int poll(pollfd* files, nfds_t count, int timeout) {
  static const auto real = next<decltype(&poll)>("poll");
  return until_done(ns_of_milliseconds(timeout),
                    [&](std::int64_t left) { return real(files, count, milliseconds(left)); });
}

int ppoll(pollfd* files, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  static const auto real = next<decltype(&ppoll)>("ppoll");
  return until_done(ns_of(timeout),
                    [&](std::int64_t left) { return real(files, count, Left(left), mask); });
}

// What programs call that were compiled with _FORTIFY_SOURCE.
int __poll_chk(pollfd* files, nfds_t count, int timeout, std::size_t room) {
  static const auto real = next<decltype(&__poll_chk)>("__poll_chk");
  return until_done(ns_of_milliseconds(timeout), [&](std::int64_t left) {
    return real(files, count, milliseconds(left), room);
  });
}

int __ppoll_chk(pollfd* files, nfds_t count, const timespec* timeout, const sigset_t* mask,
                std::size_t room) {
  static const auto real = next<decltype(&__ppoll_chk)>("__ppoll_chk");
  return until_done(ns_of(timeout),
                    [&](std::int64_t left) { return real(files, count, Left(left), mask, room); });
}

int epoll_wait(int epoll, epoll_event* events, int room, int timeout) {
  static const auto real = next<decltype(&epoll_wait)>("epoll_wait");
  return until_done(ns_of_milliseconds(timeout), [&](std::int64_t left) {
    return real(epoll, events, room, milliseconds(left));
  });
}

int epoll_pwait(int epoll, epoll_event* events, int room, int timeout, const sigset_t* mask) {
  static const auto real = next<decltype(&epoll_pwait)>("epoll_pwait");
  return until_done(ns_of_milliseconds(timeout), [&](std::int64_t left) {
    return real(epoll, events, room, milliseconds(left), mask);
  });
}

int epoll_pwait2(int epoll, epoll_event* events, int room, const timespec* timeout,
                 const sigset_t* mask) {
  static const auto real = next<decltype(&epoll_pwait2)>("epoll_pwait2");
  return until_done(ns_of(timeout),
                    [&](std::int64_t left) { return real(epoll, events, room, Left(left), mask); });
}

int select(int count, fd_set* reads, fd_set* writes, fd_set* errors, timeval* timeout) {
  static const auto real = next<decltype(&select)>("select");
  const std::int64_t timeout_ns =
      timeout == nullptr ? kForEver : timeout->tv_sec * kNsPerSecond + timeout->tv_usec * 1000;
  // Linux leaves the sets alone when it is interrupted, and in *timeout the time that is left.
  return until_done(timeout_ns, [&](std::int64_t left) {
    if (timeout != nullptr) *timeout = {left / kNsPerSecond, (left % kNsPerSecond + 999) / 1000};
    if (timeout != nullptr && timeout->tv_usec == 1'000'000) *timeout = {timeout->tv_sec + 1, 0};
    return real(count, reads, writes, errors, timeout);
  });
}

int pselect(int count, fd_set* reads, fd_set* writes, fd_set* errors, const timespec* timeout,
            const sigset_t* mask) {
  static const auto real = next<decltype(&pselect)>("pselect");
  return until_done(ns_of(timeout), [&](std::int64_t left) {
    return real(count, reads, writes, errors, Left(left), mask);
  });
}

// --- for time

int clock_nanosleep(clockid_t clock, int flags, const timespec* request, timespec* rest) {
  static const auto real = next<decltype(&clock_nanosleep)>("clock_nanosleep");
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  const std::int64_t begin = steady_ns(), whole = ns_of(*request);
  timespec want = *request, left{};
  for (;;) {
    cut_short = 0;
    const int error = real(clock, flags, &want, absolute ? nullptr : &left);
    const bool goes_on = error == EINTR && cut_short == -EINTR;
    if (!goes_on) {
      if (error == EINTR && rest != nullptr && !absolute) *rest = left;
      return error;
    }
    if (absolute) continue;
    const std::int64_t now_left = whole - (steady_ns() - begin);
    want = runs_always(clock) ? time_of(now_left < 0 ? 0 : now_left) : left;
  }
}

int nanosleep(const timespec* request, timespec* rest) {
  const int error = clock_nanosleep(CLOCK_REALTIME, 0, request, rest);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

int usleep(useconds_t microseconds) {
  const timespec time = time_of(microseconds * std::int64_t{1000});
  return nanosleep(&time, nullptr);
}

unsigned sleep(unsigned seconds) {
  const timespec time = time_of(seconds * kNsPerSecond);
  timespec rest{};
  return nanosleep(&time, &rest) == 0
             ? 0
             : static_cast<unsigned>((ns_of(rest) + kNsPerSecond / 2) / kNsPerSecond);
}

int thrd_sleep(const timespec* request, timespec* rest) {
  const int error = clock_nanosleep(CLOCK_REALTIME, 0, request, rest);
  return error == 0 ? 0 : error == EINTR ? -1 : -2;
}

// --- for signals

int pause() {
  static const auto real = next<decltype(&pause)>("pause");
  return until_done([] { return real(); });
}

int sigsuspend(const sigset_t* mask) {
  static const auto real = next<decltype(&sigsuspend)>("sigsuspend");
  return until_done([&] { return real(mask); });
}

int sigtimedwait(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
  static const auto real = next<decltype(&sigtimedwait)>("sigtimedwait");
  return until_done(ns_of(timeout), [&](std::int64_t left) { return real(set, info, Left(left)); });
}

int sigwaitinfo(const sigset_t* set, siginfo_t* info) { return sigtimedwait(set, info, nullptr); }

// --- for semaphores and messages

int sem_wait(sem_t* semaphore) {
  static const auto real = next<decltype(&sem_wait)>("sem_wait");
  return until_done([&] { return real(semaphore); });
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static const auto real = next<decltype(&sem_timedwait)>("sem_timedwait");
  return until_done([&] { return real(semaphore, until); });
}

int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) {
  static const auto real = next<decltype(&sem_clockwait)>("sem_clockwait");
  return until_done([&] { return real(semaphore, clock, until); });
}

int semop(int set, sembuf* operations, std::size_t count) {
  static const auto real = next<decltype(&semop)>("semop");
  return until_done([&] { return real(set, operations, count); });
}

int semtimedop(int set, sembuf* operations, std::size_t count, const timespec* timeout) {
  static const auto real = next<decltype(&semtimedop)>("semtimedop");
  return until_done(ns_of(timeout),
                    [&](std::int64_t left) { return real(set, operations, count, Left(left)); });
}

int msgsnd(int queue, const void* message, std::size_t bytes, int flags) {
  static const auto real = next<decltype(&msgsnd)>("msgsnd");
  return until_done([&] { return real(queue, message, bytes, flags); });
}

ssize_t msgrcv(int queue, void* message, std::size_t room, long type, int flags) {
  static const auto real = next<decltype(&msgrcv)>("msgrcv");
  return until_done([&] { return real(queue, message, room, type, flags); });
}

int aio_suspend(const aiocb* const list[], int count, const timespec* timeout) {
  static const auto real = next<decltype(&aio_suspend)>("aio_suspend");
  return until_done(ns_of(timeout),
                    [&](std::int64_t left) { return real(list, count, Left(left)); });
}

#pragma GCC visibility pop
}
