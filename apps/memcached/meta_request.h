// SPDX-License-Identifier: BSD-3-Clause
// A meta command's line: key, flags, and what it gives back of them.
#pragma once

#include <bitset>
#include <string>

#include "apps/base64.h"
#include "apps/memcached/layout.h"
#include "apps/memcached/session.h"

namespace perdure::memcached {

/// Flags that a command takes.
struct MetaFlags {
  std::string_view plain;
  std::string_view with_token;
};

inline void append_flag(Buffer& out, char flag) {
  out.append(' ');
  out.append(flag);
}
inline void append_flag(Buffer& out, char flag, std::string_view token) {
  append_flag(out, flag);
  out.append(token);
}
inline void append_flag(Buffer& out, char flag, std::uint64_t number) {
  append_flag(out, flag);
  out.append_number(number);
}

/// A meta command as it was asked.
struct Session::Meta {
  std::string_view key;    // to be looked up
  std::string_view spelt;  // as it came
  std::string decoded;     // what `key` refers to when it came in base64
  std::array<std::string_view, Words::kMost> flags;
  std::size_t count = 0;
  std::bitset<128> has;
  std::string_view error;

  std::uint32_t client_flags = 0;
  std::uint32_t expires = 0;
  std::uint32_t vivify_expires = 0;
  std::int64_t recache = 0;
  std::uint64_t compare = 0;
  std::uint64_t explicit_cas = 0;
  std::uint64_t delta = 1;
  std::uint64_t initial = 0;
  char mode = 0;

  bool is(char flag) const { return has[static_cast<unsigned char>(flag)]; }
  bool quiet() const { return is('q'); }

  /// Takes the words from `first` on as flags.
  Meta(const Words& words, std::size_t first, const MetaFlags& known, std::uint32_t now) {
    spelt = key = words[1];
    for (std::size_t i = first; i < words.count && error.empty(); ++i) take(words[i], known, now);
    if (!error.empty()) return;
    if (is('b')) {
      if (!from_base64(spelt, decoded) || decoded.empty() || decoded.size() > kMaxKeyBytes)
        error = "CLIENT_ERROR error decoding key\r\n";
      key = decoded;
    } else if (spelt.size() > kMaxKeyBytes) {
      error = "CLIENT_ERROR bad command line format\r\n";
    }
  }
  Meta(const Meta&) = delete;
  Meta& operator=(const Meta&) = delete;

  /// Appends what any response to this command gives back: opaque and key.
  void append_echo(Buffer& out, std::string_view word) const {
    if (word[0] == 'O') append_flag(out, 'O', word.substr(1));
    if (word[0] != 'k') return;
    append_flag(out, 'k', spelt);
    if (is('b')) append_flag(out, 'b');
  }
  void append_echoes(Buffer& out) const {
    for (std::size_t i = 0; i < count; ++i) append_echo(out, flags[i]);
  }

 private:
  static constexpr std::string_view kBadFlag = "CLIENT_ERROR invalid or duplicate flag\r\n";
  static constexpr std::size_t kMaxOpaqueBytes = 32;

  void take(std::string_view word, const MetaFlags& known, std::uint32_t now) {
    const char flag = word[0];
    const bool token = known.with_token.find(flag) != known.with_token.npos;
    if (!token && known.plain.find(flag) == known.plain.npos) {
      error = "CLIENT_ERROR invalid flag\r\n";
      return;
    }
    if (is(flag)) {
      error = "CLIENT_ERROR duplicate flag\r\n";
      return;
    }
    has.set(static_cast<unsigned char>(flag));
    flags[count++] = word;
    if (token) take_token(flag, word.substr(1), now);
  }
  void take_token(char flag, std::string_view text, std::uint32_t now) {
    const auto number = [&](auto& to, std::uint64_t most = ~std::uint64_t{0}) {
      const auto parsed = parse_unsigned(text, most);
      if (parsed) to = static_cast<std::remove_reference_t<decltype(to)>>(*parsed);
      return parsed.has_value();
    };
    const auto time = [&](std::uint32_t& to) {
      const auto parsed = parse_signed(text);
      if (parsed) to = expiry(*parsed, now);
      return parsed.has_value();
    };
    bool good = true;
    switch (flag) {
      case 'O':
        if (text.size() > kMaxOpaqueBytes) error = "CLIENT_ERROR opaque token too long\r\n";
        return;
      case 'T': good = time(expires); break;
      case 'N': good = time(vivify_expires); break;
      case 'R':
        if (const auto parsed = parse_signed(text))
          recache = *parsed;
        else
          good = false;
        break;
      case 'F': good = number(client_flags, ~std::uint32_t{0}); break;
      case 'C': good = number(compare); break;
      case 'E': good = number(explicit_cas); break;
      case 'J': good = number(initial); break;
      case 'D':
        if (!number(delta)) error = kBadFlag;
        return;
      case 'M':
        if (text.size() != 1) {
          error = kBadFlag;
          return;
        }
        mode = text[0];
        break;
      default: return;
    }
    if (!good) error = "CLIENT_ERROR bad token in command line format\r\n";
  }
};

}  // namespace perdure::memcached
