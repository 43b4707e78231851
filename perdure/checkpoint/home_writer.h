// HomeWriter: collects pieces of pages, newer over older, and writes each page's changed parts once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "perdure/checkpoint/arena_layout.h"
#include "perdure/checkpoint/log_reader.h"
#include "perdure/checkpoint/storage.h"

namespace perdure::checkpoint {

class HomeWriter {
 public:
  /// Requires: a superblock that was checked, and pieces of pages that it has.
  HomeWriter(Storage& storage, const ArenaSuperblock& super)
      : storage_(&storage), home_offset_(super.home_offset) {}

  /// False: the storage refused a write (errno).
  bool put(const Piece& piece);
  /// Writes what is left. Not durable yet.
  bool finish();
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kMostPages = 2048;
  struct Page {
    std::uint64_t mask = 0;  // blocks that are there
    alignas(kLineBytes) std::byte data[kPageBytes];
  };
  Storage* storage_;
  Offset home_offset_;
  std::uint64_t bytes_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace perdure::checkpoint
