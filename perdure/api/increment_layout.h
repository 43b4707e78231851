// SPDX-License-Identifier: BSD-3-Clause
// What an increment (perdure/api/backup.h) consists of; docs/FORMAT.md tells the same in prose. A change
// bumps kIncrementVersion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "perdure/base/crc32c.h"
#include "perdure/base/words.h"

namespace perdure {

inline constexpr std::array<char, 8> kIncrementMagic = {'P', 'E', 'R', 'D', 'I', 'N', 'C', '\n'};
inline constexpr std::uint32_t kIncrementVersion = 1;

/// At byte 0; pages follow from byte 4096 on.
struct IncrementHeader {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::array<std::uint8_t, 16> uuid;  // of the pool
  std::uint64_t base_bytes;
  std::uint64_t image_bytes;  // of the pool as it was; whole pages
  std::uint64_t pages;
  std::uint32_t base_crc;  // CRC32C of all bytes of the base
  std::uint32_t image_crc;
  std::uint32_t reserved;
  std::uint32_t crc;  // CRC32C of the bytes before

  std::uint32_t expected_crc() const { return crc32c(this, offsetof(IncrementHeader, crc)); }
};
static_assert(sizeof(IncrementHeader) == 72);

/// In the order of their numbers.
struct IncrementPage {
  std::uint64_t number;
  std::uint32_t crc;  // CRC32C of the number and the bytes
  std::uint32_t reserved;
  std::array<std::byte, kPageBytes> bytes;

  std::uint32_t expected_crc() const {
    return crc32c(bytes.data(), bytes.size(), crc32c(&number, sizeof(number)));
  }
};
static_assert(sizeof(IncrementPage) == 16 + kPageBytes);

inline constexpr Offset increment_page_at(std::uint64_t place) {
  return kPageBytes + place * sizeof(IncrementPage);
}

}  // namespace perdure
