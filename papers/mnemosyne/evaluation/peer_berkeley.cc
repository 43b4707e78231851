// SPDX-License-Identifier: BSD-3-Clause
// Berkeley DB 5.3 as the peer of the hash table: DB_HASH in a transactional environment, one
// transaction per update, committed with DB_TXN_SYNC. Its files lie on the emulated PCM-disk. Pages
// of the database stay in its cache (no checkpoint is taken while it is measured), so that what it
// pays is its log alone.
#include <string>

#include "bench/berkeley_db.h"
#include "bench/berkeley_on_pcm_disk.h"
#include "bench/system.h"
#include "papers/mnemosyne/evaluation/stores.h"

namespace perdure::bench::reproduce {
namespace {

class BerkeleyHash final : public UpdateStore {
 public:
  explicit BerkeleyHash(const StoreOptions& options)
      : directory_(options.device != nullptr ? options.device->path() : options.dir, "berkeley"),
        disk_(options.memory, directory_.path(), options.device),
        table_(directory_.path(),
               {.page_bytes = berkeley_page_bytes(options.value_bytes, options.threads)}) {}
  // What is not durable at the end is scratch, too.
  ~BerkeleyHash() override { disk_->charge(false); }
  BerkeleyHash(const BerkeleyHash&) = delete;
  BerkeleyHash& operator=(const BerkeleyHash&) = delete;

  void enter(Phase phase) override {
    disk_->charge(phase != Phase::kFill);
    commit_flags_ = phase == Phase::kFill ? DB_TXN_NOSYNC : DB_TXN_SYNC;
    if (phase == Phase::kWarmUp) disk_.begin_counting();
    if (phase == Phase::kMeasure) disk_.end_counting();
  }

  void put(std::uint64_t key, std::string_view value) override {
    table_.in_transaction("put", commit_flags_, [&](DB_TXN* transaction) {
      return table_.put(transaction, name_of(key), value);
    });
  }
  void erase(std::uint64_t key) override {
    table_.in_transaction("del", commit_flags_, [&](DB_TXN* transaction) {
      return table_.erase(transaction, name_of(key));
    });
  }
  std::string get(std::uint64_t key) override {
    std::string found;
    return table_.get(name_of(key), found) ? found : std::string();
  }
  double device_ns() const override { return disk_.sync_ns(); }
  std::uint64_t retries() const override { return table_.deadlocks(); }

 private:
  static std::string_view name_of(const std::uint64_t& key) {
    return {reinterpret_cast<const char*>(&key), sizeof(key)};
  }

  ScratchDirectory directory_;
  BerkeleyOnPcmDisk disk_;
  BerkeleyDb table_;
  std::uint32_t commit_flags_ = DB_TXN_SYNC;
};

const bool kRegistered = [] {
  peers().berkeley_db = [](const StoreOptions& options) -> std::unique_ptr<UpdateStore> {
    return std::make_unique<BerkeleyHash>(options);
  };
  return true;
}();

}  // namespace
}  // namespace perdure::bench::reproduce
