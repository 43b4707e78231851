// SPDX-License-Identifier: BSD-3-Clause
// Eadr: the caches themselves are power-fail safe, so a store is durable once it is globally
//       visible.
#pragma once

#include "perdure/domain/domain.h"
#include "perdure/domain/x86.h"

namespace perdure {

struct Eadr : CachedStores {
  static void write_through(Word* home, const Word* words, std::size_t count, Site) {
    for (std::size_t i = 0; i < count; ++i) store(home + i, words[i]);
  }
  static void flush(const void*, std::size_t, Site) {}
  // The fence drains the store buffer, which stored energy does not cover.
  static bool fence(Site) {
    x86::sfence();
    return true;
  }
};

}  // namespace perdure
