// SPDX-License-Identifier: BSD-3-Clause
// StorageWithGaps: a damaged file to read from. What was cut off, or what the device does not give,
// reads as zeros, and where that was is remembered.
#pragma once

#include <vector>

#include "perdure/checkpoint/storage.h"

namespace perdure::checkpoint {

class StorageWithGaps final : public Storage {
 public:
  struct Gap {
    Offset begin;
    std::uint64_t bytes;
  };

  StorageWithGaps(Descriptor file, std::uint64_t file_bytes)
      : file_(std::move(file), file_bytes), bytes_(file_bytes) {}

  bool read(void* data, std::size_t bytes, Offset offset) override;
  /// False: nothing is ever written to a damaged file.
  bool write(const void*, std::size_t, Offset) override;
  bool sync(Barrier) override { return true; }
  std::uint64_t bytes() const override { return bytes_; }
  Offset next_data(Offset at) override;

  std::uint64_t file_bytes() const { return file_.bytes(); }
  /// What the file should have; what it lacks is a gap.
  void lengthen(std::uint64_t bytes);
  /// Sorted; of the device those that were met in reading.
  const std::vector<Gap>& gaps() const { return gaps_; }
  bool has_gap(Offset begin, std::uint64_t bytes) const;

 private:
  FileStorage file_;
  std::uint64_t bytes_;
  std::vector<Gap> gaps_;
};

}  // namespace perdure::checkpoint
