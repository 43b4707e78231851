// SPDX-License-Identifier: BSD-3-Clause
// VolatileFiles: rollback journals, super-journals and temporary files, in DRAM. Those with a name are shared by the
// connections of the process, because a connection may have to roll back what another one left half done.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/sqlite/open_file.h"

namespace perdure::sqlite {

/// Threads: any.
class VolatileFile {
 public:
  std::size_t read(void* to, std::size_t bytes, std::uint64_t at) const;
  /// Errors: throws std::bad_alloc; then the file is as it was, or longer by zeros.
  void write(const void* from, std::size_t bytes, std::uint64_t at);
  void truncate(std::uint64_t bytes);
  std::uint64_t bytes() const;

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{32} << 10;

  void resize(std::uint64_t bytes);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
  std::uint64_t bytes_ = 0;
};

/// Threads: any.
class VolatileFiles {
 public:
  /// The process's.
  static VolatileFiles& instance();

  /// The file of that name; null when it is not there and is not to be made, or is there and must not be.
  std::shared_ptr<VolatileFile> open(const std::string& name, bool create, bool exclusive);
  bool exists(const std::string& name) const;
  /// Takes the name away; who has the file open keeps it. False when there is none.
  bool remove(const std::string& name);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<VolatileFile>> files_;
};

/// A volatile file that SQLite has opened. With a `name` that is to go when it is closed.
std::unique_ptr<OpenFile> open_volatile(std::shared_ptr<VolatileFile> file, std::string name = {});

}  // namespace perdure::sqlite
