// SPDX-License-Identifier: BSD-3-Clause
// The words of a command, and what they mean.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace perdure::memcached {

/// A line's words.
struct Words {
  static constexpr std::size_t kMost = 24;
  std::array<std::string_view, kMost> word;
  std::size_t count = 0;
  std::string_view operator[](std::size_t i) const { return i < count ? word[i] : ""; }
};
Words split(std::string_view line);

/// Decimal, without sign; and with one.
std::optional<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t most = ~0ull);
/// A value that is counted with: decimal, in blanks.
std::optional<std::uint64_t> parse_counter(std::string_view text);
std::optional<std::int64_t> parse_signed(std::string_view text);
/// When an item expires whose client said `exptime`: 0: never; up to 30 days from now; a Unix time; negative: at once.
std::uint32_t expiry(std::int64_t exptime, std::uint32_t now);

/// A number's digits.
class NumberText {
 public:
  explicit NumberText(std::uint64_t number)
      : end_(std::to_chars(text_, text_ + sizeof(text_), number).ptr) {}
  std::string_view view() const { return {text_, static_cast<std::size_t>(end_ - text_)}; }

 private:
  char text_[20];
  char* end_;
};

}  // namespace perdure::memcached
