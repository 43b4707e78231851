// SPDX-License-Identifier: BSD-3-Clause
// DeviceReader: a file read past the system's cache, where its file system allows that.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure {

class Region;

/// Threads: one.
class DeviceReader {
 public:
  /// Errors: those of open_followed().
  static Result<DeviceReader> open(const std::string& path);
  /// The file that a region has open, whatever is under its name now.   Errors: kIo.
  static Result<DeviceReader> open_again(const Region& region);

  /// Whole pages.   Errors: kIo.
  Result<void> read(Offset offset, std::byte* to, std::uint64_t bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  DeviceReader(const std::string& path, Descriptor direct, Descriptor cached);
  bool read_some(Offset offset, std::uint64_t bytes);

  std::string path_;
  Descriptor direct_;
  Descriptor cached_;
  std::unique_ptr<std::byte, Free> buffer_;
};

}  // namespace perdure
