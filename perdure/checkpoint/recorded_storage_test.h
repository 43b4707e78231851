// SPDX-License-Identifier: BSD-3-Clause
// RecordedStorage: a file in memory that tells what was written and synced when, for building every
// file that a power cut may leave (docs/CRASH_MODEL.md, "What a device may do").
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "perdure/checkpoint/storage.h"

namespace perdure::checkpoint {

using Bytes = std::vector<std::byte>;

struct Write {
  Offset offset;
  Bytes bytes;
};

class RecordedStorage final : public Storage {
 public:
  /// `visible` is what is read; `durable` what the device has, `pending` on its way.
  explicit RecordedStorage(Bytes file) : durable(std::move(file)), visible(durable) {}

  bool read(void* data, std::size_t count, Offset offset) override {
    errno = 0;
    if (!inside(offset, count, 0, visible.size())) return false;
    std::memcpy(data, visible.data() + offset, count);
    return true;
  }
  bool write(const void* data, std::size_t count, Offset offset) override {
    if (fails) return refuse();
    if (!inside(offset, count, 0, visible.size())) return refuse();
    const auto* from = static_cast<const std::byte*>(data);
    if (before_change) before_change(offset);
    std::memcpy(visible.data() + offset, from, count);
    pending.push_back({offset, {from, from + count}});
    return true;
  }
  bool sync(Barrier why) override {
    if (before_change) before_change(~Offset{0});
    ++syncs[static_cast<std::size_t>(why)];
    // A failed sync: what was on its way is lost, and still read.
    if (fails || (fail_sync && *fail_sync == why)) {
      pending.clear();
      return refuse();
    }
    if (dropped && *dropped == why) return true;
    for (const Write& write : pending)
      std::copy(write.bytes.begin(), write.bytes.end(),
                durable.begin() + static_cast<std::ptrdiff_t>(write.offset));
    pending.clear();
    return true;
  }
  std::uint64_t bytes() const override { return visible.size(); }

  /// What may be there after a crash now: of each sector any number of its pending writes, the
  /// first ones.
  template <class Random>
  Bytes torn(Random& random) const {
    Bytes image = durable;
    const double density = std::uniform_real_distribution<>(0, 1)(random);
    std::map<Offset, bool> stopped;
    for (const Write& write : pending) {
      const Offset end = write.offset + write.bytes.size();
      for (Offset at = write.offset; at < end;) {
        const Offset sector = round_down(at, kSectorBytes);
        const Offset stop = std::min(end, sector + kSectorBytes);
        bool& gone = stopped[sector];
        gone = gone || std::uniform_real_distribution<>(0, 1)(random) > density;
        if (!gone)
          std::copy_n(write.bytes.begin() + static_cast<std::ptrdiff_t>(at - write.offset),
                      stop - at, image.begin() + static_cast<std::ptrdiff_t>(at));
        at = stop;
      }
    }
    return image;
  }

  Bytes durable;
  Bytes visible;
  std::vector<Write> pending;
  std::uint64_t syncs[kBarriers] = {};
  bool fails = false;
  const Barrier* fail_sync = nullptr;
  const Barrier* dropped = nullptr;           // vouches for nothing, and says it does: a mutant
  std::function<void(Offset)> before_change;  // a write there, or a sync (~0)

 private:
  static bool refuse() {
    errno = EIO;
    return false;
  }
};

}  // namespace perdure::checkpoint
