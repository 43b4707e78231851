// The address space of a test program's own: programs with pstatic variables open one before main(), in the working
// directory unless they are told otherwise. Included once by a test that links such code.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace perdure::test {

inline char private_space[] = "/tmp/perdure-space-XXXXXX";

/// Before every constructor. The clean-up is registered first, so it runs when the address space is closed.
inline void choose_private_space(int, char**, char**) {
  if (::mkdtemp(private_space) == nullptr) std::abort();
  ::setenv("PERDURE_REGION_PATH", private_space, 1);
  static const pid_t owner = ::getpid();
  std::atexit([] {
    std::error_code ignored;
    if (::getpid() == owner) std::filesystem::remove_all(private_space, ignored);
  });
}

__attribute__((section(".preinit_array"), used)) static const auto choose_before_constructors =
    &choose_private_space;

}  // namespace perdure::test
