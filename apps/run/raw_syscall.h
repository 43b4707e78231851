// SPDX-License-Identifier: BSD-3-Clause
// System calls without libc: no errno, no thread-local storage, no cancellation. For code that runs
// where libc must not: in signal handlers, on threads that libc does not know, in the restorer.
#pragma once

#include <cstdint>
#include <type_traits>

namespace perdure::run {

extern "C" long perdure_raw_syscall(long number, long a, long b, long c, long d, long e, long f);

template <class T>
long as_long(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(value);
  } else {
    return static_cast<long>(value);
  }
}
inline long as_long(decltype(nullptr)) { return 0; }

/// The result, or minus the error number.
template <class A = long, class B = long, class C = long, class D = long, class E = long,
          class F = long>
long syscall(long number, A a = {}, B b = {}, C c = {}, D d = {}, E e = {}, F f = {}) {
  return perdure_raw_syscall(number, as_long(a), as_long(b), as_long(c), as_long(d), as_long(e),
                             as_long(f));
}

inline bool failed(long result) { return result < 0 && result > -4096; }

/// A new thread of this process: shares all, uses `stack_end`, runs function(argument), which must
/// not return. `arguments` is the kernel's struct clone_args.
extern "C" long perdure_raw_clone(void* arguments, long bytes, void (*function)(void*),
                                  void* argument);

/// rt_sigreturn with the given struct ucontext: goes on where the frame says.
extern "C" [[noreturn]] void perdure_return_to_frame(std::uint64_t frame);

/// The kernel calls this when a handler returns.
extern "C" void perdure_signal_restorer();

}  // namespace perdure::run
