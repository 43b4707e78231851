// SPDX-License-Identifier: BSD-3-Clause
// A 48-bit number with a 16-bit check in one word: updated by a single atomic store, and a zeroed,
// flipped or foreign word is seen for what it is. Positions, timestamps and sizes on media are kept
// this way.
#pragma once

#include <optional>

#include "perdure/base/words.h"

namespace perdure {

inline constexpr std::uint64_t kMax48 = (std::uint64_t{1} << 48) - 1;

/// CRC-16/CCITT of a 48-bit payload, starting from `salt`: finds every one or two flipped bits of
/// the word, and in the payload alone every burst of up to 16 bits. `salt` ties the word to its
/// field, so that a word copied from another field fails.
constexpr std::uint16_t check_of(std::uint64_t payload, std::uint16_t salt) {
  std::uint32_t crc = salt;
  for (int shift = 40; shift >= 0; shift -= 8) {
    crc ^= static_cast<std::uint32_t>((payload >> shift) & 0xff) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x11021u : 0);
  }
  return static_cast<std::uint16_t>(crc);
}

constexpr Word seal(std::uint64_t payload, std::uint16_t salt) {
  return payload | (Word{check_of(payload, salt)} << 48);
}

/// The payload, or nothing when the check does not hold.
constexpr std::optional<std::uint64_t> unseal(Word word, std::uint16_t salt) {
  const std::uint64_t payload = word & kMax48;
  if (seal(payload, salt) != word) return std::nullopt;
  return payload;
}

}  // namespace perdure
