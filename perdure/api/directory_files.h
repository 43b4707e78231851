// SPDX-License-Identifier: BSD-3-Clause
// DirectoryFiles: the files of a persistent address space in a directory, mapped into its reserved
// range of addresses.
//
//   heap.pool       the heap: logs, roots, the region table; locked while the address space is open
//   statics.region  the static variables
//   N.region        a region made by pmap
#pragma once

#include <array>
#include <map>

#include "perdure/api/space_files.h"

namespace perdure {

class DirectoryFiles : public SpaceFiles {
 public:
  static constexpr char kHeap[] = "heap.pool";

  /// `base` is the reserved range, `region` the heap mapped at its start. `inspect`: map privately,
  /// change no file.
  DirectoryFiles(std::string directory, std::byte* base, const Region& region, bool inspect);
  ~DirectoryFiles() override;
  DirectoryFiles(const DirectoryFiles&) = delete;
  DirectoryFiles& operator=(const DirectoryFiles&) = delete;

  Result<void> create(std::uint64_t file, std::uint64_t bytes) override;
  Result<void> remove(std::uint64_t file) override;
  Result<std::optional<std::uint64_t>> size(std::uint64_t file) override;
  Result<Region::Part> map(std::uint64_t file, std::uint64_t file_offset, Offset begin,
                           std::uint64_t bytes, std::uint32_t protection) override;
  void protect(Offset begin, std::uint64_t bytes, std::uint32_t protection) override;
  Result<void> map_nowhere(Offset begin, std::uint64_t bytes) override;
  Result<void> alias(Offset begin, std::uint64_t bytes, void* address) override;
  void unmap(Offset begin, std::uint64_t bytes) override;
  void punch(std::uint64_t file, std::uint64_t file_offset, std::uint64_t bytes) override;
  Result<void> replace(std::uint64_t file, const std::vector<std::byte>& content) override;
  std::string name(std::uint64_t file) const override;

 protected:
  const std::string& directory() const { return directory_; }
  std::byte* base() const { return base_; }

 private:
  struct Opened {
    int fd = -1;
    int durable_fd = -1;
    int memory_fd = -1;  // Sync: the working copy of the statics, which is mapped twice
    std::uint64_t bytes = 0;
  };
  Result<Opened*> opened(std::uint64_t file);
  void close(Opened& opened);
  Result<void> write_new(std::uint64_t file, std::uint64_t bytes, const std::byte* content,
                         const std::string& as);
  Result<void> sync_directory_of(std::uint64_t file) const;

  std::string directory_;
  std::byte* base_;
  const Region* region_;
  bool inspect_;
  std::map<std::uint64_t, Opened> opened_;
  Offset statics_begin_ = 0;  // where they are mapped
};

}  // namespace perdure
