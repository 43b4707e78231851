// SPDX-License-Identifier: BSD-3-Clause
// Addresses and fingerprints in messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace perdure {

/// "0x1f".
inline std::string hex(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), kDigits[value % 16]);
  while ((value /= 16) != 0);
  return "0x" + text;
}

/// Two digits a byte.
inline std::string hex_of(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += hex(byte + 0x100u).substr(3);
  return text;
}

}  // namespace perdure
