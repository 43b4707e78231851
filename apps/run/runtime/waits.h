// SPDX-License-Identifier: BSD-3-Clause
// How a wait goes on that the epoch's signal has cut short. Used by the wrappers alone, which are
// called by the program and may use libc.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <time.h>

#include "apps/run/runtime/runtime.h"

namespace perdure::run {

/// The next definition behind ours.
template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;
inline constexpr std::int64_t kForEver = -1;

inline std::int64_t ns_of(const timespec& time) {
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}
inline std::int64_t ns_of(const timespec* time) {
  return time == nullptr ? kForEver : ns_of(*time);
}
inline timespec time_of(std::int64_t ns) { return {ns / kNsPerSecond, ns % kNsPerSecond}; }

/// A time.h argument for what is left.
class Left {
 public:
  explicit Left(std::int64_t ns) : time_(time_of(ns < 0 ? 0 : ns)), ever_(ns < 0) {}
  operator timespec*() { return ever_ ? nullptr : &time_; }

 private:
  timespec time_;
  bool ever_;
};

/// A clock that stands still between an epoch and its resume.
inline std::int64_t steady_ns() {
  for (;;) {
    const std::uint64_t before = __atomic_load_n(&away_ns, __ATOMIC_SEQ_CST);
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (__atomic_load_n(&away_ns, __ATOMIC_SEQ_CST) == before)
      return ns_of(now) - static_cast<std::int64_t>(before);
  }
}

/// Calls attempt(ns left, or kForEver) until it is not the epoch's signal that ends it.
template <class Attempt>
auto until_done(std::int64_t timeout_ns, Attempt attempt) {
  const std::int64_t begin = timeout_ns > 0 ? steady_ns() : 0;
  std::int64_t left = timeout_ns;
  for (;;) {
    cut_short = 0;
    const auto result = attempt(left);
    if (result >= 0 || errno != EINTR || cut_short != -EINTR) return result;
    if (timeout_ns <= 0) continue;
    left = timeout_ns - (steady_ns() - begin);
    if (left < 0) left = 0;
  }
}

/// Where the time is absolute, or there is none.
template <class Attempt>
auto until_done(Attempt attempt) {
  return until_done(kForEver, [&](std::int64_t) { return attempt(); });
}

}  // namespace perdure::run
