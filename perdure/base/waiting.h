// SPDX-License-Identifier: BSD-3-Clause
// What the concurrent code of heap and engine needs of the system: how a thread waits for another
// one, and a barrier that costs only the thread that asks for it. See base/shared.h.
#pragma once

#if defined(PERDURE_MACHINE)
#include PERDURE_MACHINE
#else

#include <chrono>
#include <mutex>
#include <thread>

namespace perdure {

using Mutex = std::mutex;

/// Called while another thread has to do something first.
inline void give_way() { std::this_thread::yield(); }
/// The same, where that thread is running and about to be done. So often it is worth while.
inline void pause_briefly() { __builtin_ia32_pause(); }
inline constexpr int kBriefPauses = 100;
/// The same, where that thread may not be running.
inline void sleep_briefly() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

/// Whether the system has the next one.
bool has_barriers();
/// Whatever other threads of the process have executed before is seen, and what they execute after
/// sees what the caller stored before.
void barrier_everywhere();

}  // namespace perdure

#endif
