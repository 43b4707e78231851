// SPDX-License-Identifier: BSD-3-Clause
// What the programs that are carried through crashes share: they do one round after the other, look
// at all they have, and write a line for each to a file that only grows.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#define MUST(condition)                                                                      \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, std::strerror(errno)); \
      std::_Exit(9);                                                                         \
    }                                                                                        \
  } while (false)

inline std::string file_name;
inline std::uint64_t state = 88172645463325252ULL;

inline std::uint64_t next() {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

/// Some work in memory, so that rounds are not all system calls.
inline std::uint64_t work() {
  std::uint64_t sum = 0;
  for (int i = 0; i < 30'000; ++i) sum += next() >> 40;
  return sum;
}

using Round = std::function<void(int)>;

inline int do_rounds(const Round& round, int rounds) {
  std::FILE* file = std::fopen(file_name.c_str(), "w");
  MUST(file != nullptr);
  for (int i = 0; i < rounds; ++i) {
    round(i);
    std::fprintf(file, "%d %llu\n", i, static_cast<unsigned long long>(work()));
    std::fflush(file);
    usleep(500);
  }
  return std::fclose(file);
}
