// SPDX-License-Identifier: BSD-3-Clause
// What the concurrent code of heap and engine needs of memory: values that several threads change.
// They are the standard library's. A build may put a header of its own in place of them
// (PERDURE_MACHINE): one has values between whose accesses another thread can come, so that the
// same code is tested in every order of a few threads. This header and base/waiting.h are all that
// knows of it.
#pragma once

#if defined(PERDURE_MACHINE)
#include PERDURE_MACHINE
#else

#include <atomic>
#include <cstdlib>

namespace perdure {

template <class T>
using Shared = std::atomic<T>;
/// The same of a value that stands somewhere already, as the words of persistent memory do.
template <class T>
using SharedRef = std::atomic_ref<T>;

/// Whether each word that is copied while others may write it has to be an access of its own.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kCopiesWords = true;
#else
inline constexpr bool kCopiesWords = false;
#endif

/// A value that each thread has of its own. `For` tells it from others of its type.
template <class T, class For>
[[gnu::always_inline]] inline T& of_this_thread() {
  thread_local T mine;
  return mine;
}

/// The end of a process that must not go on.
[[noreturn, gnu::always_inline]] inline void stop_process() { std::abort(); }

}  // namespace perdure

#endif
