// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/place.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "perdure/error.h"

namespace perdure::run {
namespace {

bool locks_within(int file, int hundredths) {
  for (int i = 0; i < hundredths; ++i) {
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) return true;
    ::usleep(10'000);
  }
  return false;
}

/// The program of a supervisor that was killed is killed, too, but a moment later: it holds this.
bool program_is_gone(const std::string& directory) {
  const int file = ::open((directory + "/alive").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool gone = file >= 0 && locks_within(file, 1000);
  if (file >= 0) ::close(file);
  return gone;
}

void write_text(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory) {
  const std::string path = directory + "/lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) throw Exception(Code::kIo, path + ": " + std::strerror(errno));
  // So are the processes on the way to the program, which have this one from the supervisor.
  if (locks_within(file_, 200) && program_is_gone(directory)) return;
  ::close(file_);
  throw Exception(Code::kBusy,
                  directory + ": a program runs in it; end that one, or name another directory");
}

DirectoryLock::~DirectoryLock() { ::close(file_); }

void enter_namespaces() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  int flags = CLONE_NEWPID | CLONE_NEWNS;
  if (user != 0) flags |= CLONE_NEWUSER;
  if (::unshare(flags) != 0) {
    throw Exception(Code::kIo,
                    fmt::format("namespaces of processes and users: {}; a resume needs "
                                "them: allow them (user.max_user_namespaces), or be root",
                                std::strerror(errno)));
  }
  if (user == 0) return;
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", fmt::format("{} {} 1", user, user));
  write_text("/proc/self/gid_map", fmt::format("{} {} 1", group, group));
}

void keep_clock_going(std::uint64_t from_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t behind =
      static_cast<std::int64_t>(from_ns) - (now.tv_sec * kSecond + now.tv_nsec);
  if (behind <= 0) return;
  std::ofstream offsets;
  const bool own = ::unshare(CLONE_NEWTIME) == 0;
  if (own) offsets.open("/proc/self/timens_offsets");
  for (const char* clock : {"monotonic", "boottime"})
    offsets << fmt::format("{} {} {}\n", clock, behind / kSecond + 1, 0);
  if (!own || !offsets.flush())
    throw Exception(
        Code::kIo,
        fmt::format(
            "the system has been up for less time than when the epoch ended, and the program's "
            "clock cannot be kept from going back (a namespace of times: {}); be root, or resume "
            "in {} seconds",
            std::strerror(errno), behind / kSecond + 1));
}

bool mount_proc() {
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
}

}  // namespace perdure::run
