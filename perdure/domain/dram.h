// SPDX-License-Identifier: BSD-3-Clause
// Dram: a shared mapping in the page cache or on tmpfs. It survives the death of the process, not
// of the machine: the kernel keeps every executed store, so nothing needs flushing, only the
// compiler must keep the order.
#pragma once

#include "perdure/domain/domain.h"

namespace perdure {

struct Dram : CachedStores {
  static void write_through(Word* home, const Word* words, std::size_t count, Site) {
    for (std::size_t i = 0; i < count; ++i) store(home + i, words[i]);
  }
  static void flush(const void*, std::size_t, Site) {}
  // A killed process leaves the stores it executed, in order (x86 TSO); the compiler must not
  // reorder them.
  static bool fence(Site) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return true;
  }
};

}  // namespace perdure
