// SPDX-License-Identifier: BSD-3-Clause
// References: when items were used, in DRAM only, so that a get writes nothing persistent. A table of fixed size that
// forgets: two items that share an entry are taken for one that was not used when the other was used later.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace perdure::memcached {

class References {
 public:
  /// For at most about `items` items.
  explicit References(std::uint64_t items)
      : most_(std::bit_ceil(std::clamp<std::uint64_t>(items, kLeast, kMost))),
        entries_(static_cast<std::uint64_t*>(std::calloc(most_, sizeof(std::uint64_t)))) {
    if (entries_ == nullptr) throw std::bad_alloc();
  }

  /// There are about `items` now. Only so much of the table is used, and thus memory taken; where it doubles, half of what
  /// was known is forgotten.
  void expect(std::uint64_t items) {
    const std::uint64_t entries = std::min(most_, std::bit_ceil(std::max(items, kLeast)));
    mask_.store(static_cast<std::uint32_t>(entries - 1), std::memory_order_relaxed);
  }

  struct Known {
    std::uint32_t accessed = 0;  // 0: not known
    bool fetched = false;
    bool used = false;  // since forget()
  };
  Known of(std::uint32_t hash) const {
    const std::uint64_t entry = at(hash).load(std::memory_order_relaxed);
    if ((entry & kTag) != tag(hash)) return {};
    return {static_cast<std::uint32_t>(entry), (entry & kFetched) != 0, (entry & kUsed) != 0};
  }
  /// It will be asked for soon.
  void prefetch(std::uint32_t hash) const {
    __builtin_prefetch(&entries_.get()[hash & mask_.load(std::memory_order_relaxed)]);
  }
  void got(std::uint32_t hash, std::uint32_t now) { set(hash, now, kFetched | kUsed); }
  void stored(std::uint32_t hash, std::uint32_t now) { set(hash, now, kUsed); }
  void touched(std::uint32_t hash, std::uint32_t now) {
    set(hash, now, kUsed | (of(hash).fetched ? kFetched : 0));
  }
  /// From here on it counts as unused. The clock's hand.
  void forget(std::uint32_t hash) {
    const std::atomic_ref<std::uint64_t> entry = at(hash);
    const std::uint64_t known = entry.load(std::memory_order_relaxed);
    if ((known & kTag) == tag(hash)) entry.store(known & ~kUsed, std::memory_order_relaxed);
  }

 private:
  // A time of 32 bits; two bits; 30 bits of the hash's.
  static constexpr std::uint64_t kFetched = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kUsed = std::uint64_t{1} << 33;
  static constexpr std::uint64_t kTag = ~std::uint64_t{0} << 34;
  static constexpr std::uint64_t kLeast = 1 << 10;
  static constexpr std::uint64_t kMost = 1 << 22;

  static std::uint64_t tag(std::uint32_t hash) { return std::uint64_t{hash} >> 2 << 34; }
  std::atomic_ref<std::uint64_t> at(std::uint32_t hash) const {
    return std::atomic_ref(entries_.get()[hash & mask_.load(std::memory_order_relaxed)]);
  }
  void set(std::uint32_t hash, std::uint32_t now, std::uint64_t bits) {
    const std::atomic_ref<std::uint64_t> entry = at(hash);
    const std::uint64_t fresh = tag(hash) | bits | now;
    // Most gets of a second find it as it is: a line that is only read is shared.
    if (entry.load(std::memory_order_relaxed) != fresh)
      entry.store(fresh, std::memory_order_relaxed);
  }

  struct Free {
    void operator()(std::uint64_t* entries) const { std::free(entries); }
  };
  std::uint64_t most_;
  std::atomic<std::uint32_t> mask_{kLeast - 1};
  std::unique_ptr<std::uint64_t, Free> entries_;
};

}  // namespace perdure::memcached
