// SPDX-License-Identifier: BSD-3-Clause
// What becomes of a program when a page of an open pool cannot be read or written: somebody cut the file short, a page that was
// never allocated meets a full device, or the medium fails. The kernel answers such an access with SIGBUS, which by default ends
// the process without a word.
#pragma once

#include <atomic>

namespace perdure {

/// From now on an open pool that loses a page is poisoned instead: the access finds zeros, and the transaction that made it
/// ends with Exception kPoisoned, which names the file and the offset; so does every later one. Nothing of the zeros reaches
/// the file, and nothing that was acknowledged before is taken back.
/// What a program reads outside transactions may be such zeros. Of more than 256 pools at once (one with private pages on
/// memory counts twice) the rest still ends the process.
/// Effect:   installs a handler of SIGBUS for the process. Accesses elsewhere go to the handler that was there before.
/// Threads:  any, any number of times. Kept over fork(), as handlers are.
void survive_lost_pages();

namespace detail {
/// How many pages all pools of the process have lost.
inline constinit std::atomic<unsigned> lost_pages{0};
inline bool any_lost_page() { return lost_pages.load(std::memory_order_relaxed) != 0; }
}  // namespace detail

}  // namespace perdure
