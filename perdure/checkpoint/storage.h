// SPDX-License-Identifier: BSD-3-Clause
// Storage: what the epoch store needs of a file. It is so small that a test can replace it, record
// every write, and crash between any two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "perdure/base/words.h"
#include "perdure/region/file.h"

namespace perdure::checkpoint {

/// The reason for a sync; epoch_store.h tells what a crash would leave without it.
enum class Barrier : std::uint8_t {
  kCommit,   // the epoch's records, before the program is told
  kSegment,  // the segment before, before a new one begins
  kHome,     // home, before the state says so
  kState,    // the state, before the segment is used again
  kAccept,   // what recovery found, before it builds on it
};
inline constexpr int kBarriers = 5;

/// Every call answers false on failure, with errno set.
class Storage {
 public:
  virtual ~Storage() = default;
  /// All of the bytes. errno is 0 when the file ends before them.
  virtual bool read(void* data, std::size_t bytes, Offset offset) = 0;
  virtual bool write(const void* data, std::size_t bytes, Offset offset) = 0;
  /// Waits until what was written before is on the device.
  virtual bool sync(Barrier why) = 0;
  virtual std::uint64_t bytes() const = 0;
  /// From `at` on, the first byte that need not be zero, as far as is known.
  virtual Offset next_data(Offset at) { return at; }
};

/// One opening of a file. Each thread that syncs has its own: the kernel reports a failed
/// write-back once to each opening, and a thread that missed the report would vouch for lost data.
class FileStorage final : public Storage {
 public:
  FileStorage(Descriptor file, std::uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}
  bool read(void* data, std::size_t bytes, Offset offset) override {
    return read_at(file_.get(), data, bytes, offset);
  }
  bool write(const void* data, std::size_t bytes, Offset offset) override {
    return write_at(file_.get(), data, bytes, offset);
  }
  bool sync(Barrier why) override;
  std::uint64_t bytes() const override { return bytes_; }
  Offset next_data(Offset at) override;
  int fd() const { return file_.get(); }

 private:
  Descriptor file_;
  std::uint64_t bytes_;
};

}  // namespace perdure::checkpoint
