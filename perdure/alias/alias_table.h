// SPDX-License-Identifier: BSD-3-Clause
// AliasTable: the words and extents that were written to persistent memory and are not home yet, by
// address, in DRAM (SoftWrAP §IV-A).
//
// Words that were stored one by one are kept one by one; extents in *shadow pages*. Both say which
// of their bytes are valid, so that neither has to be filled from home, nor do threads that write
// neighbouring bytes under different locks disturb each other. (The paper merges the missing bytes
// of a page when it is made; here nothing is missing that has to be merged.) Where a byte is valid
// in a page, the page has the newer one: a store of a word goes into the page if its bytes are
// there.
//
// Open addressing, linear probes, nothing is ever deleted: the table is cleared as a whole. An
// entry is taken by one compare-and-swap of its key, and is empty until its first valid bytes are
// announced; so no thread ever waits for another.
// Source: SoftWrAP (MSST 2015) §IV-A, Figure 2; non-blocking tables without deletion.
// Threads: any, but for clear(). Two that write the same byte need the caller's isolation, as the
//          paper has it.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "perdure/alias/machine.h"
#include "perdure/base/offset_set.h"
#include "perdure/base/words.h"

namespace perdure::alias {

/// Sizes are powers of two.
struct AliasLimits {
  std::uint64_t words = std::uint64_t{1} << 16;  // entries for single words
  std::uint64_t pages = std::uint64_t{1} << 12;  // and for pages
  std::uint64_t page_bytes = 1024;               // 64 at least
};

template <class Machine = Hardware>
class AliasTable {
  template <class T>
  using Atomic = typename Machine::template Atomic<T>;

 public:
  /// Throws: std::bad_alloc.
  explicit AliasTable(const AliasLimits& limits)
      : limits_(limits),
        entries_(std::make_unique<Entry[]>(limits.words)),
        pages_(std::make_unique<Page[]>(limits.pages)),
        valid_(std::make_unique<Atomic<std::uint64_t>[]>(limits.pages * valid_words())),
        // Address space: a page costs memory from its first byte on.
        shadow_(limits.pages * limits.page_bytes) {}

  /// Stores the bits of `mask` in the word at `at`. False: no entry is free; then nothing has
  /// happened.
  bool store(Offset at, Word value, Word mask) {
    if (has_pages_.load(std::memory_order_acquire) != 0) {
      if (const Page* page = find_page(page_of(at))) {
        const Word in_page = mask_of_bytes(valid_bytes(*page, at));
        if ((in_page & mask) != 0) write_page_word(*page, at, value, in_page & mask);
        mask &= ~in_page;
        if (mask == 0) return true;
      }
    }
    Entry* const entry = entry_for(at);
    if (entry == nullptr) return false;
    merge(entry->value, value, mask);
    announce(entry->mask, mask);
    return true;
  }

  /// Finds what the table holds of the word at `at`. Returns the mask of its bits; 0: nothing.
  Word load(Offset at, Word& value) const {
    Word mask = 0;
    value = 0;
    if (has_pages_.load(std::memory_order_acquire) != 0) {
      if (const Page* page = find_page(page_of(at))) {
        mask = mask_of_bytes(valid_bytes(*page, at));
        if (mask != 0) value = page_word(*page, at).load(std::memory_order_relaxed) & mask;
      }
    }
    if (mask == kWholeWord) return mask;
    const Entry* const entry = find_entry(at);
    if (entry == nullptr) return mask;
    // Acquire: pairs with announce(); the bytes that it names are there.
    const Word more = entry->mask.load(std::memory_order_acquire) & ~mask;
    value |= entry->value.load(std::memory_order_relaxed) & more;
    return mask | more;
  }

  /// Writes `bytes` from `from` as an extent. False: no page is free; then some of it may have
  /// happened.
  bool write(Offset to, const void* from, std::uint64_t bytes) {
    const auto* in = static_cast<const std::byte*>(from);
    // By each thread, before its page is there: another one may have taken the page, and not yet
    // counted it.
    if (has_pages_.load(std::memory_order_relaxed) == 0)
      has_pages_.store(1, std::memory_order_release);
    while (bytes > 0) {
      Page* const page = page_for(page_of(to));
      if (page == nullptr) return false;
      const std::uint64_t here = std::min(bytes, limits_.page_bytes - to % limits_.page_bytes);
      write_page(*page, to, in, here);
      to += here;
      in += here;
      bytes -= here;
    }
    return true;
  }

  /// Removes the bytes of `mask` in the word at `at`. The word's entry stays taken.
  /// Threads: nobody stores to those bytes.
  void forget(Offset at, Word mask = kWholeWord) {
    if (has_pages_.load(std::memory_order_acquire) != 0) {
      if (const Page* page = find_page(page_of(at)))
        withdraw(valid_of(*page, at), bytes_of_mask(mask) << (at % 64));
    }
    if (Entry* entry = find_entry(at)) withdraw(entry->mask, mask);
  }

  /// Calls visit(MaskedWrite) for everything in the table, each bit once. What is stored meanwhile
  /// may be among it.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint64_t i = 0; i < limits_.words; ++i) {
      const Entry& entry = entries_[i];
      const Offset at = entry.key.load(std::memory_order_acquire);
      if (at == 0) continue;
      Word mask = entry.mask.load(std::memory_order_acquire);
      if (has_pages_.load(std::memory_order_acquire) != 0) {
        // A byte that is valid in a page is newer there.
        if (const Page* page = find_page(page_of(at)))
          mask &= ~mask_of_bytes(valid_bytes(*page, at));
      }
      if (mask != 0) visit(MaskedWrite{at, entry.value.load(std::memory_order_relaxed), mask});
    }
    for (std::uint64_t i = 0; i < limits_.pages; ++i) {
      const Page& page = pages_[i];
      const Offset begin = page.key.load(std::memory_order_acquire) * limits_.page_bytes;
      if (begin == 0) continue;
      for (Offset at = begin; at < begin + limits_.page_bytes; at += kWordBytes) {
        const Word mask = mask_of_bytes(valid_bytes(page, at));
        if (mask != 0)
          visit(MaskedWrite{at, page_word(page, at).load(std::memory_order_relaxed), mask});
      }
    }
  }

  /// How many entries are taken, of the words and pages that limits() has.
  std::uint64_t words() const { return taken_words_.load(std::memory_order_relaxed); }
  std::uint64_t pages() const { return taken_pages_.load(std::memory_order_relaxed); }
  const AliasLimits& limits() const { return limits_; }

  /// Threads: nobody uses the table.
  void clear() {
    for (std::uint64_t i = 0; words() != 0 && i < limits_.words; ++i) {
      entries_[i].key.store(0, std::memory_order_relaxed);
      entries_[i].mask.store(0, std::memory_order_relaxed);
    }
    for (std::uint64_t i = 0; pages() != 0 && i < limits_.pages; ++i) {
      if (pages_[i].key.load(std::memory_order_relaxed) == 0) continue;
      pages_[i].key.store(0, std::memory_order_relaxed);
      for (std::uint64_t word = 0; word < valid_words(); ++word)
        valid_[i * valid_words() + word].store(0, std::memory_order_relaxed);
    }
    taken_words_.store(0, std::memory_order_relaxed);
    taken_pages_.store(0, std::memory_order_relaxed);
    has_pages_.store(0, std::memory_order_relaxed);
  }

 private:
  /// 24 bytes, as the paper's.
  struct Entry {
    Atomic<Offset> key{0};  // 0: free. (No data stands at offset 0.)
    Atomic<Word> value{0};
    Atomic<Word> mask{0};  // which bits of the value count
  };
  struct Page {
    Atomic<std::uint64_t> key{0};  // its number; 0: free
  };
  /// Words in DRAM that come zeroed, and only when they are used.
  class Shadow {
   public:
    explicit Shadow(std::uint64_t bytes) : bytes_(bytes) {
      void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      words_ = static_cast<Atomic<Word>*>(memory);
    }
    ~Shadow() { ::munmap(static_cast<void*>(words_), bytes_); }
    Shadow(const Shadow&) = delete;
    Shadow& operator=(const Shadow&) = delete;
    Atomic<Word>& operator[](std::uint64_t index) const { return words_[index]; }

   private:
    static_assert(sizeof(Atomic<Word>) == sizeof(Word));
    std::uint64_t bytes_;
    Atomic<Word>* words_;
  };

  std::uint64_t page_of(Offset at) const { return at / limits_.page_bytes; }
  std::uint64_t valid_words() const { return limits_.page_bytes / 64; }  // a bit for each byte
  std::uint64_t index_of(const Page& page) const {
    return static_cast<std::uint64_t>(&page - pages_.get());
  }

  /// The slot of `key`, or the free one where it would go; null: the table is full.
  template <class Slot>
  static Slot* probe(Slot* slots, std::uint64_t count, std::uint64_t key, bool& found) {
    for (std::uint64_t i = 0; i < count; ++i) {
      Slot& slot = slots[(OffsetIndex::hash(key * kWordBytes) + i) & (count - 1)];
      const std::uint64_t there = slot.key.load(std::memory_order_acquire);
      found = there == key;
      if (found || there == 0) return &slot;
    }
    found = false;
    return nullptr;
  }
  template <class Slot>
  static Slot* find(Slot* slots, std::uint64_t count, std::uint64_t key) {
    bool found = false;
    Slot* const slot = probe(slots, count, key, found);
    return found ? slot : nullptr;
  }
  template <class Slot>
  static Slot* find_or_take(Slot* slots, std::uint64_t count, std::uint64_t key,
                            Atomic<std::uint64_t>& taken) {
    for (;;) {
      bool found = false;
      Slot* const slot = probe(slots, count, key, found);
      if (slot == nullptr || found) return slot;
      std::uint64_t free = 0;
      if (slot->key.compare_exchange_strong(free, key, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
        taken.fetch_add(1, std::memory_order_relaxed);
        return slot;
      }  // else another thread has it, for this key or another: look again
    }
  }
  Entry* find_entry(Offset at) const { return find(entries_.get(), limits_.words, at); }
  Entry* entry_for(Offset at) {
    return find_or_take(entries_.get(), limits_.words, at, taken_words_);
  }
  Page* find_page(std::uint64_t number) const { return find(pages_.get(), limits_.pages, number); }
  Page* page_for(std::uint64_t number) {
    return find_or_take(pages_.get(), limits_.pages, number, taken_pages_);
  }

  /// A part of a word is merged by compare-and-swap: another thread may be writing the rest of it.
  static void merge(Atomic<Word>& word, Word value, Word mask) {
    if (mask == kWholeWord) return word.store(value, std::memory_order_relaxed);
    Word before = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_strong(before, (before & ~mask) | (value & mask),
                                         std::memory_order_relaxed, std::memory_order_relaxed)) {
    }
  }
  /// Release: a thread that sees the bits sees the bytes.
  static void announce(Atomic<Word>& valid, Word bits) {
    if ((valid.load(std::memory_order_relaxed) & bits) != bits)
      valid.fetch_or(bits, std::memory_order_release);
  }
  static void withdraw(Atomic<Word>& valid, Word bits) {
    if ((valid.load(std::memory_order_relaxed) & bits) != 0)
      valid.fetch_and(~bits, std::memory_order_release);
  }

  Atomic<Word>& page_word(const Page& page, Offset at) const {
    return shadow_[(index_of(page) * limits_.page_bytes + at % limits_.page_bytes) / kWordBytes];
  }
  Atomic<std::uint64_t>& valid_of(const Page& page, Offset at) const {
    return valid_[index_of(page) * valid_words() + at % limits_.page_bytes / 64];
  }
  /// A bit for each byte of the word at `at`.
  std::uint8_t valid_bytes(const Page& page, Offset at) const {
    return static_cast<std::uint8_t>(valid_of(page, at).load(std::memory_order_acquire) >>
                                     (at % 64));
  }
  static Word mask_of_bytes(std::uint8_t bytes) {
    // Each bit to a byte of its own, then to all bits of it.
    const Word spread = (bytes * 0x0101010101010101u) & 0x8040201008040201u;
    return (((spread + 0x7f7f7f7f7f7f7f7fu) | spread) >> 7 & 0x0101010101010101u) * 0xff;
  }
  /// The reverse: a bit for each byte.
  static Word bytes_of_mask(Word mask) {
    return (mask & 0x0101010101010101u) * 0x0102040810204080u >> 56;
  }
  void write_page_word(const Page& page, Offset at, Word value, Word mask) {
    merge(page_word(page, at), value, mask);
  }
  /// [to, to + bytes) of one page.
  void write_page(Page& page, Offset to, const std::byte* from, std::uint64_t bytes) {
    for (Offset at = to; at < to + bytes;) {
      const std::uint64_t skip = at % kWordBytes;
      const std::uint64_t here = std::min(to + bytes - at, kWordBytes - skip);
      Word value = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&value) + skip, from + (at - to), here);
      merge(page_word(page, at - skip), value, byte_mask(skip, here));
      at += here;
    }
    for (Offset at = to; at < to + bytes;) {
      const std::uint64_t here = std::min<std::uint64_t>(to + bytes - at, 64 - at % 64);
      const std::uint64_t bits = here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
      announce(valid_of(page, at), bits << (at % 64));
      at += here;
    }
  }

  AliasLimits limits_;
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<Page[]> pages_;
  std::unique_ptr<Atomic<std::uint64_t>[]> valid_;
  Shadow shadow_;
  // Written once for each entry that is taken, beside a locked instruction and a miss.
  Atomic<std::uint64_t> taken_words_{0};
  Atomic<std::uint64_t> taken_pages_{0};
  Atomic<std::uint64_t> has_pages_{0};  // else nobody has to look for one
};

}  // namespace perdure::alias
