// SPDX-License-Identifier: BSD-3-Clause
// What a C++ file with a typed catch inside a transaction needs so that gcc 12 compiles it: it crashes (expand_call_tm) on
// the call of __builtin_eh_filter there, at -O0 always, else unless another function, which it compiles later, calls it
// too: this one. Nor may the functions of such a file have internal linkage. With library_exceptions.cc it still crashes at
// -O2.
#pragma once

extern "C" __attribute__((noinline, used)) long keep_eh_filter_known_to_gcc(void (*run)()) {
  try {
    run();
  } catch (long caught) {
    return caught;
  }
  return 0;
}
