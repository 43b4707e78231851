// SPDX-License-Identifier: BSD-3-Clause
// HomeWriter: collects pieces of pages, newer over older, and writes each page's changed parts
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "perdure/checkpoint/arena_layout.h"
#include "perdure/checkpoint/log_reader.h"
#include "perdure/checkpoint/storage.h"

namespace perdure::checkpoint {

class HomeWriter {
 public:
  /// Requires: a superblock that was checked, and pieces of pages that it has.
  HomeWriter(Storage& storage, const ArenaSuperblock& super)
      : storage_(&storage), home_offset_(super.home_offset) {}

  /// False: a write to the storage failed (errno).
  bool put(const Piece& piece);
  /// Writes what is left. It is not durable yet.
  bool finish();
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kMostPages = 2048;
  static constexpr std::size_t kMostAtOnce =
      64;  // who writes to the log waits meanwhile: it is the same file
  struct Page {
    std::uint64_t number;
    std::uint64_t mask;   // blocks that are there
    std::uint32_t place;  // of its bytes in `data_`
  };
  std::byte* data_of(const Page& page) const { return data_.get() + page.place * kPageBytes; }
  bool write(const std::byte* data, std::size_t bytes, Offset offset);
  bool write_blocks(const Page& page);

  Storage* storage_;
  Offset home_offset_;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<std::byte[]> data_;  // kMostPages
  std::vector<Page> pages_;
  std::unordered_map<std::uint64_t, std::uint32_t> places_;  // by number
};

}  // namespace perdure::checkpoint
