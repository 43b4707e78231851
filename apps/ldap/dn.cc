// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/dn.h"

#include <algorithm>

#include "apps/ldap/matching.h"

namespace perdure::ldap {
namespace {

constexpr std::size_t kMaxLevels = 128;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Reads one name from its beginning to its end.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  /// Takes a comma (or the semicolon of old clients).
  bool take_separator() {
    if (at_end() || (text_[at_] != ',' && text_[at_] != ';')) return false;
    ++at_;
    return true;
  }

  Rdn rdn() {
    Rdn rdn;
    skip_spaces();
    const std::size_t start = at_;
    do {
      rdn.parts.push_back(part());
    } while (take('+'));
    rdn.text = text_.substr(start, at_ - start);
    while (rdn.text.ends_with(' ') && !rdn.text.ends_with("\\ ")) rdn.text.pop_back();

    std::vector<std::string> pieces;
    for (const NamePart& each : rdn.parts) pieces.push_back(normalised_part(each));
    std::sort(pieces.begin(), pieces.end());
    for (const std::string& piece : pieces) {
      if (!rdn.normalised.empty()) rdn.normalised += '+';
      rdn.normalised += piece;
    }
    return rdn;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Exception(Code::kInvalid, "the name '" + std::string(text_.substr(0, 200)) + "' " + what +
                                        " at byte " + std::to_string(at_) +
                                        "; write it as uid=ada,ou=people,dc=example,dc=com");
  }

 private:
  void skip_spaces() {
    while (!at_end() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  NamePart part() {
    skip_spaces();
    const std::size_t start = at_;
    while (!at_end() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                         text_[at_] == '-' || text_[at_] == '.' || text_[at_] == ';'))
      ++at_;
    NamePart part{std::string(text_.substr(start, at_ - start)), {}};
    skip_spaces();
    if (part.attribute.empty() || !take('=')) fail("has no attribute type followed by '='");
    skip_spaces();
    part.value = !at_end() && text_[at_] == '#' ? hex_string() : string();
    return part;
  }

  /// "#04024869": the bytes themselves.
  std::string hex_string() {
    ++at_;
    std::string bytes;
    while (at_ + 1 < text_.size() && hex_digit(text_[at_]) >= 0 && hex_digit(text_[at_ + 1]) >= 0)
      bytes += hex_pair();
    skip_spaces();
    if (bytes.empty()) fail("has a '#' without hexadecimal digits");
    if (!at_end() && std::string_view(",;+").find(text_[at_]) == std::string_view::npos)
      fail("has something other than hexadecimal digits behind '#'");
    return bytes;
  }
  char hex_pair() {
    const int byte = hex_digit(text_[at_]) * 16 + hex_digit(text_[at_ + 1]);
    at_ += 2;
    return static_cast<char>(byte);
  }

  std::string string() {
    std::string value;
    std::size_t kept = 0;  // spaces behind this are not part of the value
    while (!at_end() && std::string_view(",;+").find(text_[at_]) == std::string_view::npos) {
      const char c = text_[at_];
      if (c == '"' || c == '<' || c == '>' || c == '\0') fail("has a character that needs a '\\'");
      ++at_;
      if (c != '\\') {
        value += c;
        if (c != ' ') kept = value.size();
        continue;
      }
      if (at_end()) fail("ends in a '\\'");
      if (at_ + 1 < text_.size() && hex_digit(text_[at_]) >= 0 && hex_digit(text_[at_ + 1]) >= 0) {
        value += hex_pair();
      } else {
        value += text_[at_++];
      }
      kept = value.size();
    }
    value.resize(kept);
    return value;
  }

  static std::string normalised_part(const NamePart& part) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out = lower_case(part.attribute) + '=';
    for (const char c : ldap::normalised(part.attribute, part.value)) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || std::string_view("\"+,;<=>\\#").find(c) != std::string_view::npos) {
        out += '\\';
        out += kDigits[byte >> 4];
        out += kDigits[byte & 15];
      } else {
        out += c;
      }
    }
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string Dn::text(std::size_t first) const {
  std::string joined;
  for (std::size_t i = first; i < rdns.size(); ++i) {
    if (i > first) joined += ',';
    joined += rdns[i].text;
  }
  return joined;
}

std::string Dn::normalised(std::size_t first) const {
  std::string joined;
  for (std::size_t i = first; i < rdns.size(); ++i) {
    if (i > first) joined += ',';
    joined += rdns[i].normalised;
  }
  return joined;
}

Result<Dn> parse_dn(std::string_view text) {
  Dn dn;
  if (text.find_first_not_of(' ') == std::string_view::npos) return dn;
  Reader reader(text);
  try {
    do {
      if (dn.rdns.size() == kMaxLevels)
        reader.fail("has more than " + std::to_string(kMaxLevels) + " levels");
      dn.rdns.push_back(reader.rdn());
    } while (reader.take_separator());
    return dn;
  } catch (const Exception& wrong) {
    return wrong.error();
  }
}

Result<Rdn> parse_rdn(std::string_view text) {
  Reader reader(text);
  try {
    Rdn rdn = reader.rdn();
    if (!reader.at_end()) reader.fail("has a second level where one is wanted");
    return rdn;
  } catch (const Exception& wrong) {
    return wrong.error();
  }
}

}  // namespace perdure::ldap
