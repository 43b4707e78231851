// SPDX-License-Identifier: BSD-3-Clause
#include "bench/memcached/berkeley_store.h"

#include <cstring>
#include <optional>

namespace perdure::bench::memcached {
namespace {

using perdure::memcached::Head;
using perdure::memcached::ItemView;
using perdure::memcached::Plan;

/// A record: this, and the value.
struct Fixed {
  std::uint64_t cas;
  std::uint32_t flags;
  std::uint32_t expires;
  std::uint64_t state;
};

/// Calls `f` with the item that a record holds, null for one that has expired.
template <class F>
auto with_view(const std::string& record, std::uint32_t now, F&& f) {
  Fixed fixed;
  std::memcpy(&fixed, record.data(), sizeof(fixed));
  const ItemView* none = nullptr;
  if (fixed.expires != 0 && fixed.expires <= now) return f(none);
  const auto read = [&](void* to, std::size_t at, std::size_t bytes) {
    std::memcpy(to, record.data() + sizeof(Fixed) + at, bytes);
  };
  const ItemView view(
      {fixed.flags, fixed.expires, fixed.cas, static_cast<std::uint8_t>(fixed.state)},
      static_cast<std::uint32_t>(record.size() - sizeof(Fixed)), read);
  return f(&view);
}

BerkeleyDb::Options options_for(unsigned threads) {
  constexpr std::uint64_t kUsualValueBytes = 512;
  BerkeleyDb::Options options;
  options.page_bytes = berkeley_page_bytes(kUsualValueBytes, threads);
  options.most_locks = 20'000;
  return options;
}

}  // namespace

BerkeleyStore::BerkeleyStore(const std::string& directory, bool safe, unsigned threads,
                             const perdure::memcached::Clock& clock)
    : clock_(&clock),
      commit_flags_(safe ? DB_TXN_SYNC : DB_TXN_NOSYNC),
      table_(directory, options_for(threads)) {}

void BerkeleyStore::look(std::span<const std::string_view> keys, Use, See see) {
  thread_local std::string record;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (table_.get(keys[i], record)) {
      with_view(record, clock_->now(), [&](const ItemView* item) { see(i, item); });
    } else {
      see(i, nullptr);
    }
  }
}

std::uint64_t BerkeleyStore::alter(std::string_view key, std::uint64_t, Use, Decide decide) {
  thread_local std::string record;
  thread_local std::string fresh;
  std::uint64_t cas = 0;
  table_.in_transaction("alter", commit_flags_, [&](DB_TXN* transaction) {
    const int status = table_.read_to_write(transaction, key, record);
    if (status != 0 && status != DB_NOTFOUND) return status;
    const auto do_it = [&](const ItemView* item) {
      const Plan plan = decide(item);
      if (plan.kind == Plan::Kind::kNothing) return 0;
      if (plan.kind == Plan::Kind::kRemove) return table_.erase(transaction, key);
      cas = plan.head.cas != 0 ? plan.head.cas : next_cas_.fetch_add(1);
      const Fixed fixed{cas, plan.head.flags, plan.head.expires, plan.head.state};
      fresh.assign(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
      const std::string_view old =
          item == nullptr ? "" : std::string_view(record).substr(sizeof(Fixed));
      if (plan.kind == Plan::Kind::kHead || plan.old == Plan::Old::kBefore) fresh += old;
      fresh += plan.value;
      if (plan.kind == Plan::Kind::kStore && plan.old == Plan::Old::kBehind) fresh += old;
      return table_.put(transaction, key, fresh);
    };
    if (status == DB_NOTFOUND) return do_it(nullptr);
    return with_view(record, clock_->now(), do_it);
  });
  return cas;
}

}  // namespace perdure::bench::memcached
