// SPDX-License-Identifier: BSD-3-Clause
// Adr: persistent memory whose write-pending queue is power-fail safe (ADR), the caches are not.
// Source: Mnemosyne §3.2.3 (write-through stores, flushes, fences), on today's instructions.
#pragma once

#include "perdure/domain/domain.h"
#include "perdure/domain/x86.h"

namespace perdure {

template <class WriteBack>
struct Adr : CachedStores {
  /// From this many whole lines on, non-temporal stores beat store + write-back (measured
  /// crossover: 4 lines).
  static constexpr std::size_t kStreamLines = 4;

  static void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    std::size_t done = 0;
    if (count >= kStreamLines * 8) {
      const std::size_t head = (8 - (reinterpret_cast<std::uintptr_t>(home) / kWordBytes) % 8) % 8;
      for (; done < head; ++done) store(home + done, words[done]);
      if (head != 0) WriteBack::write_back(home);
      for (; done + 8 <= count; done += 8) x86::stream_line(home + done, words + done);
    }
    if (done == count) return;
    const std::size_t rest = done;
    for (; done < count; ++done) store(home + done, words[done]);
    flush(home + rest, (count - rest) * kWordBytes, site);
  }

  static void flush(const void* address, std::size_t bytes, Site) {
    auto line = reinterpret_cast<std::uintptr_t>(address) & ~(kLineBytes - 1);
    const auto end = reinterpret_cast<std::uintptr_t>(address) + bytes;
    do {
      WriteBack::write_back(reinterpret_cast<const void*>(line));
      line += kLineBytes;
    } while (line < end);
  }

  // sfence orders and completes this thread's write-backs and non-temporal stores; nothing weaker
  // does.
  static bool fence(Site) {
    x86::sfence();
    return true;
  }
};

}  // namespace perdure
