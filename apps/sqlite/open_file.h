// SPDX-License-Identifier: BSD-3-Clause
// OpenFile: what SQLite has opened, as the C callbacks of vfs.cc see it. Each function returns an SQLite result code, or
// throws: the callbacks turn exceptions into codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure::sqlite {

class OpenFile {
 public:
  virtual ~OpenFile() = default;
  /// Reads up to `bytes` and returns how many were there.
  virtual std::size_t read(void* to, std::size_t bytes, std::uint64_t at) = 0;
  virtual int write(const void* from, std::size_t bytes, std::uint64_t at) = 0;
  virtual int truncate(std::uint64_t bytes) = 0;
  virtual int sync() = 0;
  virtual std::uint64_t size() = 0;
  virtual int lock(int level) = 0;
  virtual int unlock(int level) = 0;
  virtual bool reserved() = 0;
  virtual int control(int operation, void* argument) = 0;
};

}  // namespace perdure::sqlite
