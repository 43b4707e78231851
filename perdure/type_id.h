// SPDX-License-Identifier: BSD-3-Clause
// type_id: a number for a type's name, the same in every run and with every compiler. A root table
// entry keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "perdure/base/words.h"  // first: it says when the language is an older C++

// Outside perdure, because gcc leaves out the namespaces that the function shares with the type.
namespace perdure_type_name {

template <class T>
constexpr const char* signature() {
  return __PRETTY_FUNCTION__;  // gcc: "… [with T = name]", clang: "… [T = name]"
}

}  // namespace perdure_type_name

namespace perdure {

/// As the compiler spells it.
template <class T>
constexpr std::string_view type_name() {
  const std::string_view text = perdure_type_name::signature<T>();
  const auto begin = text.find("T = ") + 4;
  return text.substr(begin, text.size() - 1 - begin);
}

/// Calls `emit(char)` with a spelling on which compilers agree: no spaces, one name for nameless
/// namespaces, and integers by sign and bits ("long unsigned int" and "unsigned long" are u64).
/// Types defined inside functions are the exception; give roots none of those.
template <class Emit>
constexpr void spell_alike(std::string_view name, Emit emit) {
  const auto say = [&](std::string_view text) {
    for (const char c : text) emit(c);
  };
  const auto skip = [&](std::string_view prefix) {
    if (!name.starts_with(prefix)) return false;
    name.remove_prefix(prefix.size());
    return true;
  };
  const auto is_word = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  const auto skip_word = [&](std::string_view word) {
    return (name.size() == word.size() ||
            (name.size() > word.size() && !is_word(name[word.size()]))) &&
           skip(word);
  };
  while (!name.empty()) {
    if (skip(" ")) continue;
    if (skip("perdure::pptr<")) {  // as it was called when the first pools were written
      say("perdure::link<");
      continue;
    }
    if (skip("{anonymous}") || skip("(anonymous namespace)") || skip("<unnamed>")) {
      say("?");
      continue;
    }
    if (!is_word(name[0])) {
      emit(name[0]);
      name.remove_prefix(1);
      continue;
    }
    bool number = false;
    bool is_unsigned = false;
    bool is_signed = false;
    bool is_char = false;
    bool is_double = false;
    int bits = 32;
    for (bool more = true; more;) {
      if (skip_word("unsigned")) {
        is_unsigned = true;
      } else if (skip_word("signed")) {
        is_signed = true;
      } else if (skip_word("long")) {
        bits = 64;
      } else if (skip_word("short")) {
        bits = 16;
      } else if (skip_word("char")) {
        is_char = true;
      } else if (skip_word("double")) {
        is_double = true;
      } else if (!skip_word("int")) {
        more = false;
      }
      number = number || more;
      while (more && skip(" ")) {
      }
    }
    if (number) {
      if (is_double) {
        say(bits == 64 ? "long-double" : "double");
      } else if (is_char) {
        say(is_unsigned ? "u8" : is_signed ? "i8" : "char");
      } else {
        say(is_unsigned ? "u" : "i");
        say(bits == 64 ? "64" : bits == 16 ? "16" : "32");
      }
      continue;
    }
    while (!name.empty() && is_word(name[0])) {
      emit(name[0]);
      name.remove_prefix(1);
    }
  }
}

/// FNV-1a of a type's name, as compilers agree on it, and of its size. Not cryptographic: it
/// catches mistakes, not malice.
constexpr std::uint64_t type_id_of(std::string_view name, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  spell_alike(name, [&](char c) { mix(static_cast<unsigned char>(c)); });
  for (int shift = 0; shift < 64; shift += 8) mix((size >> shift) & 0xff);
  return hash;
}
template <class T>
constexpr std::uint64_t type_id() {
  return type_id_of(type_name<T>(), sizeof(T));
}

}  // namespace perdure
