// SPDX-License-Identifier: BSD-3-Clause
// StoreFaults: who hears of stores to addresses whose pages are read-only, before they happen.
//
//   1. A store to a page without PROT_WRITE raises SIGSEGV on the thread that stores.
//   2. The handler looks whose range has the address; if nobody's, it is not our matter.
//   3. The owner of the range does what it has to, and makes the page writable.
//   4. The store is repeated.
//
// A thread that blocks SIGSEGV dies at 1, and so does a process that has put another handler in the
// place of ours: see are_heard().
#pragma once

#include <cstddef>
#include <cstdint>

#include "perdure/error.h"

namespace perdure {

class StoreFaults {
 public:
  StoreFaults(std::byte* base, std::uint64_t bytes);
  virtual ~StoreFaults() = default;
  StoreFaults(const StoreFaults&) = delete;
  StoreFaults& operator=(const StoreFaults&) = delete;

  /// From now on stores are heard of. Errors: kNoSpace: more than 64 ranges at once.
  Result<void> hear();
  /// Returns when no thread is in before_store(). Requires: all pages are writable. To be called by the
  /// destructor of whatever overrides before_store().
  void hear_no_more();

  /// Whether a store to a read-only page would be heard of, whichever thread stores.
  static bool are_heard();

 protected:
  /// Makes the page writable, having done what is to be done before. Called by any thread, by several at
  /// a time, with all signals blocked: async-signal-safe.
  virtual void before_store(std::uint64_t offset) noexcept = 0;
  std::byte* base() const { return base_; }

 private:
  friend struct StoreFaultHandler;
  std::byte* const base_;
  const std::uint64_t bytes_;
  const int owner_pid_;
};

}  // namespace perdure
