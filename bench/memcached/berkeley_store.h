// SPDX-License-Identifier: BSD-3-Clause
// Items in Berkeley DB's hash table, behind the same front end as ours: what MemcacheDB was in NV-heaps (ASPLOS 2011).
// Every command is a transaction; "safe" ones are synced, "fast" ones are not.
#pragma once

#include <atomic>

#include "apps/memcached/item_store.h"
#include "bench/berkeley_db.h"

namespace perdure::bench::memcached {

/// It has neither a limit nor flush_all(); both are ignored.   Threads: any.
class BerkeleyStore final : public perdure::memcached::ItemStore {
 public:
  BerkeleyStore(const std::string& directory, bool safe, unsigned threads,
                const perdure::memcached::Clock& clock);

  void look(std::span<const std::string_view> keys, Use use, See see) override;
  std::uint64_t alter(std::string_view key, std::uint64_t room, Use use, Decide decide) override;
  void flush_all(std::uint32_t) override {}
  perdure::memcached::StoreCounts counts() const override { return {}; }
  bool set_limit(std::uint64_t) override { return true; }
  void tidy() override {}

 private:
  const perdure::memcached::Clock* clock_;
  std::uint32_t commit_flags_;
  BerkeleyDb table_;
  std::atomic<std::uint64_t> next_cas_{1};
};

}  // namespace perdure::bench::memcached
