// SPDX-License-Identifier: BSD-3-Clause
// What run_descriptors_tool_test runs with an epoch every 10 ms: waits that no signal of the
// program's ends, so that none may return EINTR, early, or much too late.
// usage: waits MILLISECONDS WAIT | all | list
#include <aio.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "carried.h"

namespace {

long wait_ms = 300;

timespec in_timespec() { return {wait_ms / 1000, wait_ms % 1000 * 1'000'000}; }
timespec at(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  time.tv_sec += wait_ms / 1000;
  time.tv_nsec += wait_ms % 1000 * 1'000'000;
  if (time.tv_nsec >= 1'000'000'000) ++time.tv_sec, time.tv_nsec -= 1'000'000'000;
  return time;
}

/// Ends a wait that has no timeout of its own, from another thread.
void later(const std::function<void()>& act) {
  std::thread([act] {
    sigset_t all;  // What is sent to the process is for the thread that waits.
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    act();
  }).detach();
}

void on_signal(int) {}
void catch_signal(int signal) {
  struct sigaction action{};
  action.sa_handler = on_signal;
  MUST(sigaction(signal, &action, nullptr) == 0);
}

sigset_t set_of(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

int quiet_pipe() {
  int ends[2];
  MUST(pipe(ends) == 0);
  return ends[0];
}

int quiet_epoll() {
  const int epoll = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, quiet_pipe(), &event) == 0);
  return epoll;
}

std::pair<int, int> sockets(int timeout_option) {
  int ends[2];
  MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const timeval timeout{wait_ms / 1000, wait_ms % 1000 * 1000};
  MUST(setsockopt(ends[0], SOL_SOCKET, timeout_option, &timeout, sizeof timeout) == 0);
  return {ends[0], ends[1]};
}

int own_semaphores() {
  const int set = semget(IPC_PRIVATE, 1, 0600);
  MUST(set >= 0);
  return set;
}

int own_messages() {
  const int queue = msgget(IPC_PRIVATE, 0600);
  MUST(queue >= 0);
  return queue;
}

using Wait = std::function<void()>;
const std::map<std::string, Wait> waits{
    {"nanosleep",
     [] {
       const timespec time = in_timespec();
       MUST(nanosleep(&time, nullptr) == 0);
     }},
    {"clock_nanosleep",
     [] {
       const timespec until = at(CLOCK_MONOTONIC);
       MUST(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == 0);
     }},
    {"usleep", [] { MUST(usleep(static_cast<useconds_t>(wait_ms * 1000)) == 0); }},
    {"thrd_sleep",
     [] {
       const timespec time = in_timespec();
       MUST(thrd_sleep(&time, nullptr) == 0);
     }},
    {"poll",
     [] {
       pollfd file{quiet_pipe(), POLLIN, 0};
       MUST(poll(&file, 1, static_cast<int>(wait_ms)) == 0);
     }},
    {"ppoll",
     [] {
       pollfd file{quiet_pipe(), POLLIN, 0};
       const timespec time = in_timespec();
       const sigset_t mask = set_of(SIGUSR1);
       MUST(ppoll(&file, 1, &time, &mask) == 0);
     }},
    {"select",
     [] {
       fd_set set;
       FD_ZERO(&set);
       const int file = quiet_pipe();
       FD_SET(file, &set);
       timeval time{wait_ms / 1000, wait_ms % 1000 * 1000};
       MUST(select(file + 1, &set, nullptr, nullptr, &time) == 0);
       MUST(time.tv_sec == 0 && time.tv_usec == 0);
     }},
    {"pselect",
     [] {
       fd_set set;
       FD_ZERO(&set);
       const int file = quiet_pipe();
       FD_SET(file, &set);
       const timespec time = in_timespec();
       MUST(pselect(file + 1, &set, nullptr, nullptr, &time, nullptr) == 0);
     }},
    {"epoll_wait",
     [] {
       epoll_event event;
       MUST(epoll_wait(quiet_epoll(), &event, 1, static_cast<int>(wait_ms)) == 0);
     }},
    {"epoll_pwait",
     [] {
       epoll_event event;
       const sigset_t mask = set_of(SIGUSR1);
       MUST(epoll_pwait(quiet_epoll(), &event, 1, static_cast<int>(wait_ms), &mask) == 0);
     }},
    {"epoll_pwait2",
     [] {
       epoll_event event;
       const timespec time = in_timespec();
       MUST(epoll_pwait2(quiet_epoll(), &event, 1, &time, nullptr) == 0);
     }},
    // A signal of the program's own still ends these.
    {"pause",
     [] {
       catch_signal(SIGUSR1);
       const pthread_t self = pthread_self();
       later([self] { pthread_kill(self, SIGUSR1); });
       MUST(pause() == -1 && errno == EINTR);
     }},
    {"sigsuspend",
     [] {
       catch_signal(SIGUSR2);
       const sigset_t set = set_of(SIGUSR2);
       pthread_sigmask(SIG_BLOCK, &set, nullptr);
       const pthread_t self = pthread_self();
       later([self] { pthread_kill(self, SIGUSR2); });
       sigset_t mask;
       sigemptyset(&mask);
       MUST(sigsuspend(&mask) == -1 && errno == EINTR);
     }},
    {"poll_that_a_signal_ends",
     [] {
       catch_signal(SIGALRM);
       const pthread_t self = pthread_self();
       later([self] { pthread_kill(self, SIGALRM); });
       pollfd file{quiet_pipe(), POLLIN, 0};
       MUST(poll(&file, 1, -1) == -1 && errno == EINTR);
     }},
    // A signal that comes while the program stands still for an epoch ends its wait, too.
    {"poll_that_timers_end",
     [] {
       catch_signal(SIGVTALRM);
       sigevent event{};
       event.sigev_notify = SIGEV_THREAD_ID;
       event.sigev_signo = SIGVTALRM;
       event._sigev_un._tid = gettid();
       timer_t timer;
       MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
       int lost = 0;
       for (int i = 0; i < wait_ms / 3; ++i) {
         const itimerspec once{{0, 0}, {0, 3'000'000}};
         MUST(timer_settime(timer, 0, &once, nullptr) == 0);
         const int result = poll(nullptr, 0, 40);
         MUST(result == 0 || errno == EINTR);
         if (result == 0) ++lost;
       }
       MUST(lost <= wait_ms / 100);  // It may come before the wait begins, on a busy machine.
     }},
    {"sigtimedwait",
     [] {
       const sigset_t set = set_of(SIGRTMIN + 4);
       pthread_sigmask(SIG_BLOCK, &set, nullptr);
       const timespec time = in_timespec();
       MUST(sigtimedwait(&set, nullptr, &time) == -1 && errno == EAGAIN);
     }},
    {"sigwaitinfo",
     [] {
       const sigset_t set = set_of(SIGRTMIN + 5);
       pthread_sigmask(SIG_BLOCK, &set, nullptr);
       const pthread_t self = pthread_self();
       later([self] { pthread_kill(self, SIGRTMIN + 5); });
       siginfo_t info;
       MUST(sigwaitinfo(&set, &info) == SIGRTMIN + 5);
     }},
    {"sigwait",
     [] {
       const sigset_t set = set_of(SIGRTMIN + 6);
       pthread_sigmask(SIG_BLOCK, &set, nullptr);
       const pthread_t self = pthread_self();
       later([self] { pthread_kill(self, SIGRTMIN + 6); });
       int signal = 0;
       MUST(sigwait(&set, &signal) == 0 && signal == SIGRTMIN + 6);
     }},
    {"sem_wait",
     [] {
       static sem_t semaphore;
       MUST(sem_init(&semaphore, 0, 0) == 0);
       later([] { sem_post(&semaphore); });
       MUST(sem_wait(&semaphore) == 0);
     }},
    {"sem_timedwait",
     [] {
       sem_t semaphore;
       MUST(sem_init(&semaphore, 0, 0) == 0);
       const timespec until = at(CLOCK_REALTIME);
       MUST(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT);
     }},
    {"sem_clockwait",
     [] {
       sem_t semaphore;
       MUST(sem_init(&semaphore, 0, 0) == 0);
       const timespec until = at(CLOCK_MONOTONIC);
       MUST(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) == -1 && errno == ETIMEDOUT);
     }},
    {"semop",
     [] {
       static const int set = own_semaphores();
       later([] {
         sembuf up{0, 1, 0};
         semop(set, &up, 1);
       });
       sembuf down{0, -1, 0};
       MUST(semop(set, &down, 1) == 0);
       semctl(set, 0, IPC_RMID);
     }},
    {"semtimedop",
     [] {
       const int set = own_semaphores();
       sembuf down{0, -1, 0};
       const timespec time = in_timespec();
       MUST(semtimedop(set, &down, 1, &time) == -1 && errno == EAGAIN);
       semctl(set, 0, IPC_RMID);
     }},
    {"msgrcv",
     [] {
       static const int queue = own_messages();
       later([] {
         const long message[2] = {1, 2};
         msgsnd(queue, message, sizeof(long), 0);
       });
       long message[2];
       MUST(msgrcv(queue, message, sizeof(long), 0, 0) == sizeof(long));
       msgctl(queue, IPC_RMID, nullptr);
     }},
    {"msgsnd",
     [] {
       static const int queue = own_messages();
       static long message[1000] = {1};
       while (msgsnd(queue, message, 7900, IPC_NOWAIT) == 0) continue;
       later([] {
         long first[1000];
         msgrcv(queue, first, sizeof first, 0, 0);
       });
       MUST(msgsnd(queue, message, 7900, 0) == 0);
       msgctl(queue, IPC_RMID, nullptr);
     }},
    {"mq_timedreceive",
     [] {
       const std::string name = "/perdure-wait-" + std::to_string(getpid());
       const mqd_t queue = mq_open(name.c_str(), O_RDWR | O_CREAT, 0600, nullptr);
       MUST(queue >= 0);
       char message[8192];
       const timespec until = at(CLOCK_REALTIME);
       MUST(mq_timedreceive(queue, message, sizeof message, nullptr, &until) == -1);
       MUST(errno == ETIMEDOUT && mq_unlink(name.c_str()) == 0);
     }},
    {"cond_timedwait",
     [] {
       pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
       pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
       pthread_mutex_lock(&mutex);
       const timespec until = at(CLOCK_REALTIME);
       int error = 0;
       while (error == 0) error = pthread_cond_timedwait(&condition, &mutex, &until);
       MUST(error == ETIMEDOUT);
     }},
    {"mutex_timedlock",
     [] {
       pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
       pthread_mutex_lock(&mutex);
       const timespec until = at(CLOCK_REALTIME);
       MUST(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT);
     }},
    {"recv",
     [] {
       char byte;
       MUST(recv(sockets(SO_RCVTIMEO).first, &byte, 1, 0) == -1 && errno == EAGAIN);
     }},
    {"recvmsg",
     [] {
       msghdr message{};
       MUST(recvmsg(sockets(SO_RCVTIMEO).first, &message, 0) == -1 && errno == EAGAIN);
     }},
    {"read",
     [] {
       char byte;
       MUST(read(sockets(SO_RCVTIMEO).first, &byte, 1) == -1 && errno == EAGAIN);
     }},
    {"send",
     [] {
       const auto [from, to] = sockets(SO_SNDTIMEO);
       const std::string much(100'000, 'x');
       while (send(from, much.data(), much.size(), MSG_DONTWAIT) > 0) continue;
       MUST(send(from, much.data(), much.size(), 0) == -1 && errno == EAGAIN);
     }},
    {"accept",
     [] {
       const int listening = socket(AF_INET, SOCK_STREAM, 0);
       const timeval timeout{wait_ms / 1000, wait_ms % 1000 * 1000};
       MUST(setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
       MUST(listen(listening, 1) == 0);
       MUST(accept(listening, nullptr, nullptr) == -1 && errno == EAGAIN);
     }},
    {"read_of_a_pipe",
     [] {
       static int ends[2];
       MUST(pipe(ends) == 0);
       later([] { MUST(write(ends[1], "x", 1) == 1); });
       char byte;
       MUST(read(ends[0], &byte, 1) == 1);
     }},
    // What does not fit waits, epoch after epoch, and is written whole.
    {"write_of_much",
     [] {
       static int ends[2];
       MUST(pipe(ends) == 0);
       static const std::string much(1 << 20, 'x');
       std::thread reader([] {
         std::vector<char> room(much.size() * 1000 / 30 / static_cast<std::size_t>(wait_ms));
         for (std::size_t got = 0; got < much.size();) {
           const ssize_t more = read(ends[0], room.data(), room.size());
           MUST(more > 0);
           got += static_cast<std::size_t>(more);
           std::this_thread::sleep_for(std::chrono::milliseconds(30));
         }
       });
       MUST(write(ends[1], much.data(), much.size()) == static_cast<ssize_t>(much.size()));
       reader.join();
     }},
    {"recv_of_all",
     [] {
       static int ends[2];
       MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
       std::thread writer([] {
         for (int i = 0; i < 10; ++i) {
           std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms / 10));
           MUST(write(ends[1], "0123456789", 10) == 10);
         }
       });
       char all[100];
       MUST(recv(ends[0], all, sizeof all, MSG_WAITALL) == sizeof all);
       writer.join();
     }},
    {"aio_suspend",
     [] {
       aiocb request{};
       char byte;
       request.aio_fildes = quiet_pipe();
       request.aio_buf = &byte;
       request.aio_nbytes = 1;
       MUST(aio_read(&request) == 0);
       const aiocb* const list[] = {&request};
       const timespec time = in_timespec();
       MUST(aio_suspend(list, 1, &time) == -1 && errno == EAGAIN);
     }},
};

void run(const std::string& name) {
  const auto begin = std::chrono::steady_clock::now();
  waits.at(name)();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  const double wanted = static_cast<double>(wait_ms);
  // One that begins anew at every epoch never ends; a busy machine takes its time.
  if (took.count() < wanted - 1 || took.count() > wanted * 5 + 3000) {
    std::fprintf(stderr, "%s took %.1f ms instead of %.1f\n", name.c_str(), took.count(), wanted);
    std::_Exit(8);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  wait_ms = std::atol(argv[1]);
  const std::string name = argv[2];
  if (name == "list") {
    for (const auto& each : waits) std::puts(each.first.c_str());
    return 0;
  }
  // All at once, each in a thread of its own.
  if (name == "all") {
    std::vector<std::thread> threads;
    for (const auto& each : waits) threads.emplace_back([&each] { run(each.first); });
    for (std::thread& thread : threads) thread.join();
    return 0;
  }
  if (!waits.contains(name)) return 2;
  run(name);
  return 0;
}
