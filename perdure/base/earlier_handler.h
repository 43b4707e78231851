// SPDX-License-Identifier: BSD-3-Clause
// What a handler of a signal does with one that is not its own.
#pragma once

#include <csignal>

namespace perdure {

/// Calls the handler that was there `before`. If there was none, the process ends: by the access, which is repeated, or, if
/// somebody sent the signal and it was not ignored, by that signal again. Async-signal-safe.
inline void hand_to_earlier(const struct sigaction& before, int signal, siginfo_t* info,
                            void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else if (const bool sent = info->si_code <= 0; !sent || before.sa_handler == SIG_DFL) {
    std::signal(signal, SIG_DFL);
    if (sent) std::raise(signal);
  }
}

}  // namespace perdure
