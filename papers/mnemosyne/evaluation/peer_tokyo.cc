// SPDX-License-Identifier: BSD-3-Clause
// Tokyo Cabinet as the peer of the B+ tree: a database file on the emulated PCM-disk, synced
// (tcbdbsync) after every update. It writes through a shared mapping, which no hook can see, so the
// blocks of one sync are counted instead, while it warms up: by the device, if there is one, with
// those of its file system; else a copy of the file is compared with the file after each update,
// 4 KiB by 4 KiB, so that a block that is written with what it held is not counted, which favours
// it. While it is measured, every sync is charged the mean of these counts.
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
      : disk_(options.memory),
        device_(options.device),
        file_(device_ != nullptr ? device_->path() : options.dir, "tokyo"),
        tree_(file_.path(), 0) {}

  void enter(Phase phase) override {
    phase_ = phase;
    if (phase == Phase::kWarmUp) {
      tree_.sync();
      if (device_ != nullptr)
        blocks_ = -device_->blocks_written();
      else
        copy_ = content();
    } else if (phase == Phase::kMeasure) {
      if (device_ != nullptr) blocks_ += device_->blocks_written();
      blocks_per_sync_ = syncs_ == 0 ? 0 : blocks_ / syncs_;
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
    ++syncs_;
    if (device_ != nullptr) return;
    std::string now = content();
    for (std::size_t at = 0; at < now.size(); at += PcmDisk::kBlockBytes) {
      const std::string_view block = std::string_view(now).substr(at, PcmDisk::kBlockBytes);
      if (at >= copy_.size() || std::string_view(copy_).substr(at, PcmDisk::kBlockBytes) != block)
        ++blocks_;
    }
    copy_ = std::move(now);
  }

  PcmDisk disk_;
  const RamDisk* device_;  // null: the file is on tmpfs
  ScratchFile file_;
  TokyoCabinet<TokyoTreeCalls> tree_;
  Phase phase_ = Phase::kFill;
  std::mutex counting_;
  std::string copy_;  // of the file, after the last counted sync
  double blocks_ = 0;
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
