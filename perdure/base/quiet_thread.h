// SPDX-License-Identifier: BSD-3-Clause
// A thread that handles no signals that are sent to the process.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace perdure {

/// Starts it. A signal that its own access raises still reaches the handler: it cannot wait.
template <class Body>
std::thread quiet_thread(Body&& body) {
  struct Mask {
    Mask() {
      sigset_t sent;
      ::sigfillset(&sent);
      for (const int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
        ::sigdelset(&sent, raised);
      ::pthread_sigmask(SIG_SETMASK, &sent, &before);
    }
    ~Mask() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const Mask mask;
  return std::thread(std::forward<Body>(body));
}

}  // namespace perdure
