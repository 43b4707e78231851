// SPDX-License-Identifier: BSD-3-Clause
// The persistence domain: where durability begins. Every store to persistent memory below the
// engine goes through one of these types, so that each of its calls can be recorded, counted,
// slowed down or left out without a change to callers.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>

#include "perdure/base/shared.h"
#include "perdure/base/words.h"
#include "perdure/domain/site.h"
#include "perdure/options.h"

namespace perdure {

/// store          a cached store of one word: visible at once, durable at some unknown time.
/// merge          the same for some bits of a word; atomic against other merges of other bits.
/// write_through  stores `count` consecutive words and starts their write-back.
/// flush          starts the write-back of the lines (pages on files) that the bytes touch.
/// fence          returns when all that this thread wrote through or flushed is durable; false when
///                the storage failed: then nothing may be acknowledged, now or later.
/// Threads: any; a fence speaks for its own thread only.
template <class D>
concept Domain =
    requires(D d, Word* home, const Word* words, const void* address, std::size_t n, Site site) {
      { d.store(home, Word{}) } -> std::same_as<void>;
      { d.merge(home, Word{}, Word{}) } -> std::same_as<void>;
      { d.write_through(home, words, n, site) } -> std::same_as<void>;
      { d.flush(address, n, site) } -> std::same_as<void>;
      { d.fence(site) } -> std::same_as<bool>;
    };

/// post           hands over what this thread flushed: durable with the next fence of any thread,
///                and before whatever any thread stores from now on and makes durable. It waits for
///                nothing. Memory cannot promise that: a line may be evicted at any time. A file in
///                a private mapping can. It gives what it hands over a mark, larger than all before
///                it; 0: none.
/// wait_for       returns when what any thread handed over up to a mark is durable; false as fence.
/// durable_mark   up to which mark that is so.
template <class D>
concept PostingDomain = Domain<D> && requires(D d, Site site, std::uint64_t mark) {
  { d.post(site, mark) } -> std::same_as<bool>;
  { d.wait_for(mark, site) } -> std::same_as<bool>;
  { d.durable_mark() } -> std::same_as<const Shared<std::uint64_t>&>;
};

/// How the domains that have ordinary cached memory under them store.
struct CachedStores {
  static void store(Word* home, Word value) { store_word(home, value); }
  static void merge(Word* home, Word value, Word mask) {
    SharedRef<Word> word(*home);
    Word old = word.load(std::memory_order_relaxed);
    // A loop, because threads that own different bits of one bitmap word merge at the same time.
    while (!word.compare_exchange_weak(old, (old & ~mask) | (value & mask),
                                       std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
};

}  // namespace perdure
