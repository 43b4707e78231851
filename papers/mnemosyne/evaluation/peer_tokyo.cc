// SPDX-License-Identifier: BSD-3-Clause
// Tokyo Cabinet as the peer of the B+ tree: a database file on the emulated PCM-disk, synced
// (tcbdbsync) after every update. It writes through a shared mapping, which no hook can see, so the
// blocks of one sync are counted instead: while it warms up, a copy of the file is compared with
// the file after each update, 4 KiB by 4 KiB. While it is measured, every sync is charged the mean
// of these counts. A block that is written with what it held is not counted, which favours it.
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>

#include "bench/system.h"
#include "bench/tokyo_cabinet.h"
#include "papers/mnemosyne/evaluation/stores.h"

namespace perdure::bench::reproduce {
namespace {

class TokyoTree final : public UpdateStore {
 public:
  explicit TokyoTree(const StoreOptions& options)
      : disk_(options.memory), file_(options.dir, "tokyo"), tree_(file_.path(), 0) {}

  void enter(Phase phase) override {
    phase_ = phase;
    if (phase == Phase::kWarmUp) {
      tree_.sync();
      copy_ = content();
    } else if (phase == Phase::kMeasure) {
      blocks_per_sync_ = syncs_ == 0 ? 0 : static_cast<double>(blocks_) / syncs_;
      copy_.clear();
    }
  }
  void put(std::uint64_t key, std::string_view value) override {
    tree_.put(name_of(key), value);
    sync();
  }
  void erase(std::uint64_t key) override {
    tree_.erase(name_of(key));
    sync();
  }
  std::string get(std::uint64_t key) override {
    std::string record;
    tree_.get(name_of(key), record);
    return record;
  }
  double device_ns() const override { return disk_.busy_ns(); }

 private:
  static std::string_view name_of(const std::uint64_t& key) {
    return {reinterpret_cast<const char*>(&key), sizeof(key)};
  }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(file_.path(), std::ios::binary).rdbuf();
    return std::move(text).str();
  }

  void sync() {
    if (phase_ == Phase::kFill) return;
    tree_.sync();
    if (phase_ == Phase::kMeasure) return disk_.sync_blocks(blocks_per_sync_);
    // With several threads one sync may write what another one's update changed: together they are
    // counted as often as they are charged.
    const std::lock_guard lock(counting_);
    std::string now = content();
    for (std::size_t at = 0; at < now.size(); at += PcmDisk::kBlockBytes) {
      const std::string_view block = std::string_view(now).substr(at, PcmDisk::kBlockBytes);
      if (at >= copy_.size() || std::string_view(copy_).substr(at, PcmDisk::kBlockBytes) != block)
        ++blocks_;
    }
    ++syncs_;
    copy_ = std::move(now);
  }

  PcmDisk disk_;
  ScratchFile file_;
  TokyoCabinet<TokyoTreeCalls> tree_;
  Phase phase_ = Phase::kFill;
  std::mutex counting_;
  std::string copy_;  // of the file, after the last counted sync
  std::uint64_t blocks_ = 0;
  std::uint32_t syncs_ = 0;
  double blocks_per_sync_ = 0;
};

const bool kRegistered = [] {
  peers().tokyo_cabinet = [](const StoreOptions& options) -> std::unique_ptr<UpdateStore> {
    return std::make_unique<TokyoTree>(options);
  };
  return true;
}();

}  // namespace
}  // namespace perdure::bench::reproduce
