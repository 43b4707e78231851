// SPDX-License-Identifier: BSD-3-Clause
#include "bench/comparison/apart.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "perdure/error.h"

namespace perdure::bench::comparison {
namespace {

/// The last words of the process apart.
struct Failure {
  Code code;
  char message[2048];  // ends with a zero
};

constexpr int kFailed = 1;

void note(Failure& failure, Code code, const char* message) {
  failure.code = code;
  const std::size_t bytes = std::min(std::strlen(message), sizeof(failure.message) - 1);
  std::memcpy(failure.message, message, bytes);
}

[[noreturn]] void run_and_exit(const std::function<void()>& work, Failure& failure) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // who would be told?
  int status = 0;
  try {
    work();
  } catch (const Exception& error) {
    note(failure, error.code(), error.what());
    status = kFailed;
  } catch (const std::exception& error) {
    note(failure, Code::kIo, error.what());
    status = kFailed;
  }
  std::fflush(stderr);
  ::_exit(status);
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : bytes_(bytes) {
  data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED)
    throw Exception(Code::kIo, "peers: " + std::to_string(bytes) +
                                   " bytes of shared memory: " + std::strerror(errno));
}
SharedMemory::~SharedMemory() { ::munmap(data_, bytes_); }

void run_apart(const std::function<void()>& work) {
  const SharedMemory memory(sizeof(Failure));
  auto& failure = *static_cast<Failure*>(memory.data());
  std::fflush(nullptr);  // or both processes would print what waits
  const pid_t child = ::fork();
  if (child < 0)
    throw Exception(Code::kIo,
                    std::string("peers: a process to measure in: ") + std::strerror(errno));
  if (child == 0) run_and_exit(work, failure);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    throw Exception(Code::kIo, "peers: the process that measured was ended by signal " +
                                   std::to_string(WTERMSIG(status)) +
                                   "; run it with --only to find the store that it fell over");
  if (WEXITSTATUS(status) != 0) throw Exception(failure.code, failure.message);
}

}  // namespace perdure::bench::comparison
