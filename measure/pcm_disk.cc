// SPDX-License-Identifier: BSD-3-Clause
#include "measure/pcm_disk.h"

namespace perdure::bench::reproduce {

PcmDisk::File& PcmDisk::file(int number) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<File>& place = files_[number];
  if (place == nullptr) place = std::make_unique<File>();
  return *place;
}

void PcmDisk::written(int number, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  File& here = file(number);
  const std::lock_guard lock(here.mutex);
  for (std::uint64_t block = offset / kBlockBytes; block <= (offset + bytes - 1) / kBlockBytes;
       ++block)
    here.dirty_blocks.insert(block);
}

void PcmDisk::sync(int number) {
  File& here = file(number);
  // Held while the device works, so that a second sync returns only when the blocks of the first
  // are durable, too.
  const std::lock_guard lock(here.mutex);
  const auto blocks = static_cast<double>(here.dirty_blocks.size());
  here.dirty_blocks.clear();
  sync_blocks(blocks);
}

void PcmDisk::close(int number) {
  const std::lock_guard lock(mutex_);
  files_.erase(number);
}

void PcmDisk::sync_blocks(double blocks) {
  if (!charged_.load(std::memory_order_relaxed)) return;
  const double ns =
      memory_.latency_ns + blocks * (memory_.latency_ns + kBlockBytes / memory_.gb_per_s);
  TscClock::spin_until(TscClock::now() + static_cast<std::uint64_t>(ns * TscClock::ticks_per_ns()));
  busy_ns_.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
}

}  // namespace perdure::bench::reproduce
