// SPDX-License-Identifier: BSD-3-Clause
// libpmemobj: a hash map for each thread, because its transactions do not isolate them.
#include "bench/comparison/kinds.h"
#include "bench/pmemobj_map.h"

namespace perdure::bench::comparison {
namespace {

constexpr unsigned kMostThreads = 64;

struct Root {
  PmemobjMap maps[kMostThreads];
};

/// Room for the entries, with their headers and size classes, and for the buckets.
std::uint64_t pool_bytes(const StoreOptions& options) {
  if (options.threads > kMostThreads)
    throw Exception(Code::kInvalid, "libpmemobj: at most 64 threads here");
  return (std::uint64_t{16} << 20) + 2 * options.records * (options.value_bytes + 256);
}

template <std::size_t kValueBytes>
class PmemobjStore final : public Store {
 public:
  explicit PmemobjStore(const StoreOptions& options)
      : pool_(options.dir + "/pool", pool_bytes(options)), root_(pool_.root<Root>()) {
    for (unsigned thread = 0; thread < options.threads; ++thread) {
      PmemobjMap& map = root_->maps[thread];
      if (!map.made()) map.make(pool_, options.records / options.threads);
    }
  }

  void put(unsigned thread, std::span<const Record> records) override {
    pool_.atomically([&](PmemobjTx&) {
      for (const Record& record : records)
        root_->maps[thread].put(record.key, fixed_value<kValueBytes>(record.value));
    });
  }
  void erase(unsigned thread, std::uint64_t key) override {
    pool_.atomically([&](PmemobjTx&) { root_->maps[thread].template erase<Value>(key); });
  }
  bool get(unsigned thread, std::uint64_t key, std::string& value) override {
    const Value* const found = root_->maps[thread].template get<Value>(key);
    if (found != nullptr) value.assign(found->data(), found->size());
    return found != nullptr;
  }

 private:
  using Value = std::array<char, kValueBytes>;
  PmemobjPool pool_;
  Root* root_;
};

std::unique_ptr<Store> make(const StoreOptions& options) {
  choose_pmemobj_mode(options.place == Place::kMemory ? DomainKind::kAdr : DomainKind::kSync);
  return make_for_size<PmemobjStore>(options);
}

const RegisterStore kRegistered("pmemobj-hash", make);

}  // namespace
}  // namespace perdure::bench::comparison
