// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/words.h"

#include <algorithm>

namespace perdure::memcached {

Words split(std::string_view line) {
  Words words;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == ' ') {
      ++at;
      continue;
    }
    std::size_t end = line.find(' ', at);
    if (end == line.npos) end = line.size();
    // The last word takes the rest, as it is, so that what is too much is noticed.
    if (words.count + 1 == Words::kMost) end = line.size();
    words.word[words.count++] = line.substr(at, end - at);
    at = end;
    if (words.count == Words::kMost) break;
  }
  return words;
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_counter(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return parse_unsigned(text);
}

std::optional<std::int64_t> parse_signed(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint32_t expiry(std::int64_t exptime, std::uint32_t now) {
  constexpr std::int64_t kMostRelative = 60 * 60 * 24 * 30;
  constexpr std::uint32_t kLongAgo = 1;
  if (exptime == 0) return 0;
  if (exptime < 0) return kLongAgo;
  const std::int64_t at = exptime > kMostRelative ? exptime : exptime + now;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(at, ~std::uint32_t{0}));
}

}  // namespace perdure::memcached
