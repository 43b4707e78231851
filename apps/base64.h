// SPDX-License-Identifier: BSD-3-Clause
// Base64 (RFC 4648, with padding): how JSON and LDIF carry bytes that are not text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace perdure {

inline constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

inline std::string to_base64(std::string_view raw) {
  std::string text;
  for (std::size_t i = 0; i < raw.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, raw.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < count ? static_cast<unsigned char>(raw[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= count ? kBase64[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// Appends what `text` stands for to `raw`. False when `text` is no base64; `raw` may then hold
/// part of it.
inline bool from_base64(std::string_view text, std::string& raw) {
  if (text.size() % 4 != 0) return false;
  while (text.ends_with('=') && text.size() % 4 != 1) text.remove_suffix(1);
  if (text.size() % 4 == 1) return false;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const auto value = kBase64.find(c);
    if (value == kBase64.npos) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) raw += static_cast<char>(bits >> (held -= 8) & 0xff);
  }
  return true;
}

}  // namespace perdure
