// SPDX-License-Identifier: BSD-3-Clause
// Where the runtime begins: before the program's main(), by the only code of the runtime that may
// use all of libc.
#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/runtime.h"

namespace perdure::run {
namespace {

/// The memory file of that name, which the supervisor gave this process, or -1.
int find_memory_file(const char* name) {
  DIR* const folder = ::opendir("/proc/self/fd");
  int found = -1;
  while (folder != nullptr && found < 0) {
    const dirent* const entry = ::readdir(folder);
    if (entry == nullptr) break;
    char target[64] = {};
    if (::readlinkat(::dirfd(folder), entry->d_name, target, sizeof target - 1) > 0 &&
        std::strncmp(target, name, std::strlen(name)) == 0)
      found = std::atoi(entry->d_name);
  }
  if (folder != nullptr) ::closedir(folder);
  return found;
}

void tell(const char* text) {
  if (::write(2, text, std::strlen(text)) < 0) return;  // There is no other place to say it.
}

// The variables stay: should the program replace itself by exec, the next one is protected, too.
__attribute__((constructor)) void start() {
  const char* pid = std::getenv("PERDURE_RUN_PID");
  if (pid == nullptr || std::atoi(pid) != ::getpid()) return;
  process_id = ::getpid();
  const int with = find_memory_file("/memfd:perdure-shared");
  const int shadow = find_memory_file("/memfd:perdure-shadow");
  if (with < 0 || shadow < 0) return;
  install_park_handler();
  if (failed(start_controller(with, shadow, false))) {
    tell("perdure: the thread that ends epochs cannot be started\n");
    ::_exit(3);
  }
  if (wait_for_controller() == 2) {
    tell("perdure: nothing of the program has run\n");
    ::_exit(3);
  }
}

}  // namespace
}  // namespace perdure::run
