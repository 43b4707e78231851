// SPDX-License-Identifier: BSD-3-Clause
// The tables of one ended epoch as a checkpoint saves them: where each block and page that is not
// at home has its last version. What is not named is at home.
//
// On media: a header of 64 bytes, then 8 bytes for each block and each page. The tables
// are written first; the header, which counts and checks them, is written last and in one piece: it
// is the paper's single bit that says the checkpoint is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perdure::checkpoint {

struct Geometry;

struct BlockAt {
  std::uint32_t block, slot;
  bool operator==(const BlockAt&) const = default;
};
struct PageAt {
  std::uint32_t page, slot;
  bool operator==(const PageAt&) const = default;
};

struct Image {
  std::uint64_t epoch = 0;  // 0: nothing was ever checkpointed, all is at home
  std::vector<BlockAt> blocks;
  std::vector<PageAt> pages;
  bool operator==(const Image&) const = default;

  static constexpr std::size_t kHeaderBytes = 64;
  static constexpr std::size_t kEntryBytes = 8;
  std::size_t table_bytes() const { return (blocks.size() + pages.size()) * kEntryBytes; }
  /// The largest backup of this geometry, header included.
  static std::size_t most_bytes(const Geometry& geometry);

  /// The tables, blocks first.
  std::vector<unsigned char> tables() const;
  /// The header that makes these tables complete.
  std::vector<unsigned char> header() const;

  /// Returns what is wrong with these bytes as a backup; empty: `into` is its image. The input is
  /// untrusted: counts, checksums, ranges and double uses are checked.
  static std::string read(std::span<const unsigned char> backup, const Geometry& geometry,
                          Image& into);
};

/// The newer of two backups that are complete; epoch 0 when none is.
struct Recovered {
  Image image;
  int backup = -1;  // 0 or 1; -1: none, the program starts anew
};
Recovered recover(std::span<const unsigned char> backup0, std::span<const unsigned char> backup1,
                  const Geometry& geometry);

}  // namespace perdure::checkpoint
