// SPDX-License-Identifier: BSD-3-Clause
// The address space of a test program's own: programs with pstatic variables open one before main(), in the working
// directory unless they are told otherwise. Included once by a test that links such code. It changes the directory: the
// environment that functions of .preinit_array change is not the one that the program gets.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace perdure::test {

inline char private_space[] = "/tmp/perdure-space-XXXXXX";

/// Before every constructor.
inline void choose_private_space(int, char**, char**) {
  if (::mkdtemp(private_space) == nullptr || ::chdir(private_space) != 0) std::abort();
}

/// Its names go while the files are open still.
inline const struct RemovePrivateSpace {
  ~RemovePrivateSpace() {
    std::error_code ignored;
    if (::getpid() == owner) std::filesystem::remove_all(private_space, ignored);
  }
  pid_t owner = ::getpid();
} remove_private_space;

__attribute__((section(".preinit_array"), used)) static const auto choose_before_constructors =
    &choose_private_space;

}  // namespace perdure::test
