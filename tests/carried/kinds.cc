// SPDX-License-Identifier: BSD-3-Clause
// What run_descriptors_tool_test carries through crashes: each kind of what the kernel keeps in
// memory alone, used all the time, and looked at as closely as a program can.
// usage: kinds KIND FILE ROUNDS
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "carried.h"

namespace {

/// For times that differ from run to run: takes no random numbers.
void pause_briefly() {
  volatile std::uint64_t sum = 0;
  for (int i = 0; i < 10'000; ++i) sum = sum + 1;
}

/// A stream that always has some bytes under way: what comes out must be what went in.
struct Stream {
  int in, out;
  std::uint64_t sent = 0, got = 0;

  static char byte(std::uint64_t at) { return static_cast<char>(at * 131 + (at >> 8)); }
  void send(std::size_t count) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) bytes += byte(sent++);
    MUST(write(in, bytes.data(), count) == static_cast<ssize_t>(count));
  }
  void receive(std::size_t count) {
    std::string bytes(count, '\0');
    for (std::size_t done = 0; done < count;) {
      const ssize_t more = read(out, bytes.data() + done, count - done);
      MUST(more > 0);
      done += static_cast<std::size_t>(more);
    }
    for (const char c : bytes) MUST(c == byte(got++));
  }
};

Round pipes() {
  static int ends[2], narrow[2], packets[2];
  MUST(pipe2(ends, O_CLOEXEC) == 0 && pipe(narrow) == 0 && pipe2(packets, O_DIRECT) == 0);
  MUST(fcntl(ends[1], F_SETPIPE_SZ, 1 << 18) == 1 << 18);
  MUST(fcntl(narrow[0], F_SETFL, O_NONBLOCK) == 0);
  static const int copy = dup(ends[1]);
  static Stream wide{copy, ends[0]}, thin{narrow[1], narrow[0]};
  wide.send(100'000);
  thin.send(777);
  MUST(write(packets[1], "ab", 2) == 2 && write(packets[1], "cde", 3) == 3);
  return [](int) {
    const std::size_t count = next() % 5000 + 1;
    wide.send(count);
    wide.receive(count);
    thin.send(count % 100);
    thin.receive(count % 100);
    char packet[16];
    MUST(read(packets[0], packet, sizeof packet) == 2 && packet[0] == 'a');
    MUST(write(packets[1], "ab", 2) == 2);
    MUST(read(packets[0], packet, sizeof packet) == 3 && packet[0] == 'c');
    MUST(write(packets[1], "cde", 3) == 3);
    MUST(fcntl(ends[0], F_GETPIPE_SZ) == 1 << 18);
    MUST((fcntl(ends[0], F_GETFD) & FD_CLOEXEC) != 0 && fcntl(copy, F_GETFD) == 0);
    MUST((fcntl(narrow[0], F_GETFL) & O_NONBLOCK) != 0);
    MUST((fcntl(narrow[1], F_GETFL) & O_NONBLOCK) == 0);
    MUST(syscall(SYS_kcmp, getpid(), getpid(), 0 /* KCMP_FILE */, ends[1], copy) == 0);
  };
}

Round socket_pairs() {
  static int stream[2], packets[2], half[2];
  MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) == 0);
  MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets) == 0);
  MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, half) == 0 && shutdown(half[0], SHUT_WR) == 0);
  static Stream there{stream[0], stream[1]}, back{stream[1], stream[0]};
  there.send(20'000);
  back.send(7);
  MUST(send(packets[0], "one", 3, 0) == 3 && send(packets[0], "four", 4, 0) == 4);
  return [](int) {
    const std::size_t count = next() % 2000 + 1;
    there.send(count);
    there.receive(count);
    back.send(count);
    back.receive(count);
    char packet[16];
    MUST(recv(packets[1], packet, sizeof packet, 0) == 3);
    MUST(send(packets[0], "one", 3, 0) == 3);
    MUST(recv(packets[1], packet, sizeof packet, 0) == 4);
    MUST(send(packets[0], "four", 4, 0) == 4);
    MUST(recv(half[1], packet, sizeof packet, 0) == 0);
    MUST(send(half[1], "x", 1, 0) == 1 && recv(half[0], packet, 1, 0) == 1);
  };
}

Round events() {
  static const int counter = eventfd(7, EFD_NONBLOCK), semaphore = eventfd(5, EFD_SEMAPHORE);
  static std::uint64_t expected = 7;
  return [](int round) {
    std::uint64_t value = next();
    value >>= 8;
    if (round % 3 == 0) {
      std::uint64_t seen;
      MUST(read(counter, &seen, sizeof seen) == sizeof seen && seen == expected);
      MUST(read(counter, &seen, sizeof seen) == -1 && errno == EAGAIN);
      expected = 0;
    }
    value = value % 1000 + 1;
    MUST(write(counter, &value, sizeof value) == sizeof value);
    expected += value;
    MUST(read(semaphore, &value, sizeof value) == sizeof value && value == 1);
    MUST(write(semaphore, &value, sizeof value) == sizeof value);
  };
}

Round timer_files() {
  static const int often = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
                   never = timerfd_create(CLOCK_REALTIME, 0),
                   rung = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK);
  static const itimerspec every{{0, 1'234'567}, {0, 2'000'000}}, later{{0, 0}, {4'102'444'800, 0}},
      once{{0, 0}, {0, 1}};
  MUST(timerfd_settime(often, 0, &every, nullptr) == 0);
  MUST(timerfd_settime(never, TFD_TIMER_ABSTIME, &later, nullptr) == 0);
  MUST(timerfd_settime(rung, 0, &once, nullptr) == 0);
  return [](int) {
    std::uint64_t ticks = 0;
    MUST(read(often, &ticks, sizeof ticks) == sizeof ticks && ticks > 0);
    itimerspec now{};
    MUST(timerfd_gettime(often, &now) == 0 && now.it_interval.tv_nsec == 1'234'567);
    MUST(now.it_value.tv_sec == 0 && now.it_value.tv_nsec <= 2'000'000);
    timespec clock{};
    MUST(timerfd_gettime(never, &now) == 0 && clock_gettime(CLOCK_REALTIME, &clock) == 0);
    MUST(std::llabs(now.it_value.tv_sec + clock.tv_sec - 4'102'444'800) <= 1);
    // It has rung: what is not read yet is there, what was read is not.
    usleep(1);
    MUST(read(rung, &ticks, sizeof ticks) == sizeof ticks && ticks == 1);
    MUST(read(rung, &ticks, sizeof ticks) == -1 && errno == EAGAIN);
    MUST(timerfd_settime(rung, 0, &once, nullptr) == 0);
    usleep(100);
  };
}

Round epolls() {
  static int pipe_ends[2];
  static const int inner = epoll_create1(EPOLL_CLOEXEC), outer = epoll_create1(0),
                   event = eventfd(0, 0);
  MUST(pipe(pipe_ends) == 0);
  const auto add = [](int epoll, int file, std::uint32_t events, std::uint64_t data) {
    epoll_event each{};
    each.events = events;
    each.data.u64 = data;
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, file, &each) == 0);
  };
  add(inner, pipe_ends[0], EPOLLIN, 0xfedcba9876543210);
  add(inner, event, EPOLLIN | EPOLLET, 42);
  add(outer, inner, EPOLLIN, 7);
  add(outer, pipe_ends[1], EPOLLIN, 8);  // never
  return [](int round) {
    epoll_event found[4];
    const bool by_pipe = round % 2 == 0;
    const std::uint64_t one = 1;
    if (by_pipe) {
      MUST(write(pipe_ends[1], "x", 1) == 1);
    } else {
      MUST(write(event, &one, sizeof one) == sizeof one);
    }
    MUST(epoll_wait(outer, found, 4, -1) == 1 && found[0].data.u64 == 7);
    // An edge may be seen once more after a resume, never once less.
    int count = epoll_wait(inner, found, 4, -1);
    for (int i = 0; i < count; ++i) {
      if (found[i].data.u64 == 42) continue;
      MUST(by_pipe && found[i].data.u64 == 0xfedcba9876543210);
    }
    char byte;
    std::uint64_t value;
    if (by_pipe) {
      MUST(read(pipe_ends[0], &byte, 1) == 1);
    } else {
      MUST(count >= 1 && read(event, &value, sizeof value) == sizeof value && value == 1);
    }
  };
}

Round signal_files() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 3);
  MUST(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  static const int file = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  return [](int) {
    signalfd_siginfo info;
    MUST(read(file, &info, sizeof info) == -1 && errno == EAGAIN);
    MUST(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGRTMIN + 3) == 0);
    work();
    MUST(read(file, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    MUST(read(file, &info, sizeof info) == sizeof info);
    MUST(info.ssi_signo == static_cast<unsigned>(SIGRTMIN + 3));
  };
}

Round memory_files() {
  constexpr std::size_t kBytes = 300'000;
  static const int file = memfd_create("carried", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                   sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
  static std::string twin(kBytes, '\0');
  MUST(ftruncate(file, kBytes) == 0);
  MUST(write(sealed, "content", 7) == 7 && fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE) == 0);
  static const int again = open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY);
  MUST(again >= 0);
  return [](int) {
    const std::uint64_t at = next() % (kBytes - 8), value = next();
    std::memcpy(twin.data() + at, &value, sizeof value);
    MUST(pwrite(file, &value, sizeof value, static_cast<off_t>(at)) == sizeof value);
    std::string all(kBytes, '\0');
    MUST(pread(again, all.data(), kBytes, 0) == kBytes && all == twin);
    char small[16];
    MUST(pread(sealed, small, sizeof small, 0) == 7 && std::memcmp(small, "content", 7) == 0);
    MUST(fcntl(sealed, F_GET_SEALS) == F_SEAL_WRITE && fcntl(file, F_GET_SEALS) == 0);
    char name[64] = {};
    MUST(readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), name, 63) > 0);
    MUST(std::strcmp(name, "/memfd:carried (deleted)") == 0);
  };
}

Round queues() {
  mq_attr attributes{};
  attributes.mq_maxmsg = 8;
  attributes.mq_msgsize = 64;
  static std::string name = "/perdure-test-" + std::to_string(getpid());
  static const mqd_t queue =
      mq_open(name.c_str(), O_RDWR | O_CREAT | O_NONBLOCK, 0600, &attributes);
  MUST(queue >= 0);
  return [](int round) {
    // What is in it is the system's: a message may be there from before the resume.
    char message[64];
    while (mq_receive(queue, message, sizeof message, nullptr) > 0) continue;
    MUST(errno == EAGAIN);
    MUST(mq_send(queue, reinterpret_cast<const char*>(&round), sizeof round, 0) == 0);
    MUST(mq_receive(queue, message, sizeof message, nullptr) == sizeof round);
    MUST(std::memcmp(message, &round, sizeof round) == 0);
  };
}

std::atomic<int> rung{0}, called{0};

Round timers() {
  static timer_t by_signal, gap, by_thread, waiting;
  struct sigaction action{};
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    MUST(info->si_code == SI_TIMER && info->si_value.sival_int == 4711);
    ++rung;
  };
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  MUST(sigaction(SIGRTMIN + 1, &action, nullptr) == 0);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGRTMIN + 1;
  event.sigev_value.sival_int = 4711;
  MUST(timer_create(CLOCK_MONOTONIC, &event, &by_signal) == 0);
  MUST(timer_create(CLOCK_MONOTONIC, &event, &gap) == 0);
  event = {};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_value.sival_int = 11;
  event.sigev_notify_function = [](sigval value) {
    MUST(value.sival_int == 11);
    ++called;
  };
  MUST(timer_create(CLOCK_REALTIME, &event, &by_thread) == 0);
  event = {};
  event.sigev_notify = SIGEV_NONE;
  MUST(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &waiting) == 0);
  MUST(timer_delete(gap) == 0);
  const itimerspec often{{0, 1'500'000}, {0, 1'500'000}}, seldom{{0, 2'500'000}, {0, 2'500'000}},
      late{{0, 0}, {90'000, 0}};
  MUST(timer_settime(by_signal, 0, &often, nullptr) == 0);
  MUST(timer_settime(by_thread, 0, &seldom, nullptr) == 0);
  MUST(timer_settime(waiting, 0, &late, nullptr) == 0);
  return [](int) {
    const int signals = rung, calls = called;
    while (rung == signals || called == calls) pause_briefly();
    itimerspec now{};
    MUST(timer_gettime(by_signal, &now) == 0 && now.it_interval.tv_nsec == 1'500'000);
    MUST(timer_gettime(waiting, &now) == 0 && now.it_value.tv_sec > 80'000);
    // The id goes on where it was: nobody else has it.
    timer_t another;
    sigevent none{};
    none.sigev_notify = SIGEV_NONE;
    MUST(timer_create(CLOCK_MONOTONIC, &none, &another) == 0);
    MUST(another != by_signal && another != waiting && timer_delete(another) == 0);
  };
}

Round pending_signals() {
  static sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGRTMIN + 5}) sigaddset(&set, signal);
  MUST(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  return [](int) {
    MUST(kill(getpid(), SIGUSR1) == 0 && pthread_kill(pthread_self(), SIGUSR2) == 0);
    MUST(kill(getpid(), SIGRTMIN + 5) == 0);
    for (int i = 0; i < 10; ++i) work();
    const timespec at_once{};
    siginfo_t info;
    for (const int signal : {SIGUSR2, SIGUSR1, SIGRTMIN + 5}) {
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, signal);
      MUST(sigtimedwait(&one, &info, &at_once) == signal && info.si_pid == getpid());
      MUST(sigtimedwait(&one, &info, &at_once) == -1 && errno == EAGAIN);
    }
  };
}

Round locks() {
  static const int ranges = open((file_name + ".ranges").c_str(), O_RDWR | O_CREAT, 0600),
                   whole = open((file_name + ".whole").c_str(), O_RDWR | O_CREAT, 0600),
                   owned = open((file_name + ".owned").c_str(), O_RDWR | O_CREAT, 0600);
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_start = 100;
  range.l_len = 50;
  MUST(fcntl(ranges, F_SETLK, &range) == 0);
  range.l_len = 0;
  MUST(fcntl(owned, F_OFD_SETLK, &range) == 0);
  MUST(flock(whole, LOCK_EX | LOCK_NB) == 0);
  // A POSIX lock goes when any descriptor of its file is closed, so these stay open.
  static const int other_ranges = open((file_name + ".ranges").c_str(), O_RDWR),
                   other_whole = open((file_name + ".whole").c_str(), O_RDWR),
                   other_owned = open((file_name + ".owned").c_str(), O_RDWR);
  return [](int) {
    struct flock asked{};
    asked.l_type = F_WRLCK;
    MUST(fcntl(other_ranges, F_OFD_GETLK, &asked) == 0 && asked.l_type == F_WRLCK);
    MUST(asked.l_start == 100 && asked.l_len == 50 && asked.l_pid == getpid());
    asked = {};
    asked.l_type = F_RDLCK;
    MUST(fcntl(other_owned, F_OFD_GETLK, &asked) == 0 && asked.l_type == F_WRLCK);
    MUST(asked.l_start == 100 && asked.l_len == 0 && asked.l_pid == -1);
    MUST(flock(other_whole, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
  };
}

Round attributes() {
  static const rlimit files{777, 888}, core{0, 4096};
  MUST(setrlimit(RLIMIT_NOFILE, &files) == 0 && setrlimit(RLIMIT_CORE, &core) == 0);
  MUST(setpriority(PRIO_PROCESS, 0, 5) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  MUST(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  const sched_param none{};
  MUST(sched_setscheduler(0, SCHED_BATCH, &none) == 0);
  std::ofstream("/proc/self/oom_score_adj") << 321;
  static char program[4096] = {};
  MUST(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  return [](int) {
    rlimit now{};
    MUST(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 777 && now.rlim_max == 888);
    MUST(getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_cur == 0 && now.rlim_max == 4096);
    MUST(getpriority(PRIO_PROCESS, 0) == 5 && sched_getscheduler(0) == SCHED_BATCH);
    int subreaper = 0, score = 0;
    MUST(prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper == 1);
    MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    MUST(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
    std::ifstream("/proc/self/oom_score_adj") >> score;
    MUST(score == 321);
    char path[4096] = {};
    MUST(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    MUST(std::strcmp(path, program) == 0);
  };
}

/// What the kernel tells of this process and of the machine, in files that it makes up.
Round views() {
  static const int status = open("/proc/self/status", O_RDONLY),
                   machine = open("/proc/meminfo", O_RDONLY),
                   tasks = open("/proc/self/task", O_RDONLY);
  MUST(status >= 0 && machine >= 0 && tasks >= 0);
  return [](int) {
    char text[4096] = {}, self[32];
    MUST(pread(status, text, sizeof text - 1, 0) > 0);
    std::snprintf(self, sizeof self, "\nPid:\t%d\n", getpid());
    MUST(std::strstr(text, self) != nullptr);
    MUST(pread(machine, text, sizeof text - 1, 0) > 0 && std::strstr(text, "MemTotal:") == text);
    std::snprintf(self, sizeof self, "%d/comm", getpid());
    MUST(faccessat(tasks, self, F_OK, 0) == 0);
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Round (*)()> kinds{
      {"pipes", pipes},   {"socket_pairs", socket_pairs},
      {"events", events}, {"timer_files", timer_files},
      {"epolls", epolls}, {"signal_files", signal_files},
      {"queues", queues}, {"memory_files", memory_files},
      {"timers", timers}, {"pending_signals", pending_signals},
      {"locks", locks},   {"attributes", attributes},
      {"views", views}};
  if (argc < 4 || !kinds.contains(argv[1])) return 2;
  file_name = argv[2];
  return do_rounds(kinds.at(argv[1])(), std::atoi(argv[3]));
}
