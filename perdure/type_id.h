// A number for a type's name, the same in every run and compiler: what a root table entry remembers of its type.
#pragma once

#include <cstdint>
#include <string_view>

namespace perdure {

template <class T>
constexpr std::string_view type_name() {
  const std::string_view text = __PRETTY_FUNCTION__;
  const auto begin = text.find("T = ") + 4;
  const auto end = text.find_first_of(";]", begin);
  return text.substr(begin, end - begin);
}

/// FNV-1a of the type's name without spaces, and its size. Not cryptographic: it catches mistakes, not malice.
template <class T>
constexpr std::uint64_t type_id() {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const char c : type_name<T>()) {
    if (c != ' ') mix(static_cast<unsigned char>(c));
  }
  for (int shift = 0; shift < 64; shift += 8) mix((sizeof(T) >> shift) & 0xff);
  return hash;
}

}  // namespace perdure
