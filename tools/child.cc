// SPDX-License-Identifier: BSD-3-Clause
#include "tools/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "perdure/error.h"

namespace perdure::tools {
namespace {

constexpr int kPipeInChild = 3;
constexpr std::size_t kBufferWords = 4096;

}  // namespace

Child::Child(const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Exception(Code::kIo, std::string("pipe: ") + std::strerror(errno));
  pipe_ = ends[0];
  // Out of the way of the number that the child knows; dup2 onto itself would keep O_CLOEXEC.
  const int writing = ::fcntl(ends[1], F_DUPFD_CLOEXEC, kPipeInChild + 1);
  ::close(ends[1]);
  std::vector<char*> argv{const_cast<char*>("perdure")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writing, kPipeInChild);
  const int failed =
      ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(writing);
  if (failed != 0) {
    ::close(pipe_);
    throw Exception(Code::kIo, std::string("starting a worker: ") + std::strerror(failed));
  }
}

Child::~Child() {
  kill();
  wait();
  ::close(pipe_);
}

std::optional<Message> Child::receive() {
  if (next_ == buffer_.size()) {
    buffer_.resize(kBufferWords);
    next_ = 0;
    ssize_t got;
    do {
      got = ::read(pipe_, buffer_.data(), buffer_.size() * sizeof(buffer_[0]));
    } while (got < 0 && errno == EINTR);
    // Whole words: each was one atomic write.
    buffer_.resize(got > 0 ? static_cast<std::size_t>(got) / sizeof(buffer_[0]) : 0);
    if (buffer_.empty()) return std::nullopt;
  }
  const std::uint64_t word = buffer_[next_++];
  return Message{static_cast<std::uint8_t>(word >> 56), word & ((std::uint64_t{1} << 56) - 1)};
}

void Child::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

int Child::wait() {
  if (pid_ <= 0) return 0;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void send_to_parent(Message message) {
  const std::uint64_t word = std::uint64_t{message.tag} << 56 | message.value;
  while (::write(kPipeInChild, &word, sizeof(word)) < 0) {
    // Without its parent a worker has nobody to be killed by.
    if (errno != EINTR) ::_exit(3);
  }
}

}  // namespace perdure::tools
