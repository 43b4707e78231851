// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/matching.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "perdure/base/words.h"

namespace perdure::ldap {
namespace {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

constexpr std::array<std::string_view, 14> kExactTypes = {"userpassword",
                                                          "jpegphoto",
                                                          "photo",
                                                          "audio",
                                                          "usercertificate",
                                                          "cacertificate",
                                                          "usersmimecertificate",
                                                          "userpkcs12",
                                                          "homedirectory",
                                                          "loginshell",
                                                          "memberuid",
                                                          "sshpublickey",
                                                          "authpassword",
                                                          "entryuuid"};
constexpr std::array<std::string_view, 5> kTelephoneTypes = {
    "telephonenumber", "mobile", "homephone", "pager", "facsimiletelephonenumber"};

template <std::size_t N>
bool is_one_of(std::string_view type, const std::array<std::string_view, N>& types) {
  return std::any_of(types.begin(), types.end(),
                     [&](std::string_view known) { return equal_ignoring_case(type, known); });
}

enum class Rule { kFold, kExact, kTelephone };

Rule rule_of(std::string_view attribute) {
  const std::string_view type = without_options(attribute);
  // Most values are of short, ordinary types: the first letter spares them the lists.
  if (type.empty() || std::memchr("acehjlmpstufACEHJLMPSTUF", type[0], 24) == nullptr)
    return Rule::kFold;
  if (is_one_of(type, kExactTypes)) return Rule::kExact;
  return is_one_of(type, kTelephoneTypes) ? Rule::kTelephone : Rule::kFold;
}

void append(Rule rule, std::string_view value, bool whole, std::string& out) {
  if (rule == Rule::kExact) {
    out += value;
    return;
  }
  const std::size_t start = out.size();
  for (const char c : value) {
    if (rule == Rule::kTelephone && (c == ' ' || c == '-')) continue;
    if (c == ' ' && ((whole && out.size() == start) || (out.size() > start && out.back() == ' ')))
      continue;
    out += lower(c);
  }
  if (whole && out.size() > start && out.back() == ' ') out.pop_back();
}

bool is_whole_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

int sign_of(int difference) { return difference < 0 ? -1 : difference > 0 ? 1 : 0; }

int compare_numbers(std::string_view a, std::string_view b) {
  const auto strip = [](std::string_view& text) {
    const bool negative = text.starts_with('-');
    if (negative) text.remove_prefix(1);
    while (text.size() > 1 && text[0] == '0') text.remove_prefix(1);
    return negative && text != "0";
  };
  const bool a_negative = strip(a);
  const bool b_negative = strip(b);
  if (a_negative != b_negative) return a_negative ? -1 : 1;
  const int larger = a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : sign_of(a.compare(b));
  return a_negative ? -larger : larger;
}

/// One step of the hash: both halves of the product folded together, as the containers' hash does;
/// that one is keyed and private to them.
std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{state ^ word} * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_text(std::uint64_t state, std::string_view text) {
  state = mix(state, text.size() + 1);
  while (!text.empty()) {
    const std::size_t count = std::min(text.size(), kWordBytes);
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), count);
    state = mix(state, word + 1);
    text.remove_prefix(count);
  }
  return state;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string folded(text);
  std::transform(folded.begin(), folded.end(), folded.begin(), lower);
  return folded;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view without_options(std::string_view attribute) {
  return attribute.substr(0, attribute.find(';'));
}

bool is_of_type(std::string_view attribute, std::string_view type) {
  return attribute.size() >= type.size() &&
         (attribute.size() == type.size() || attribute[type.size()] == ';') &&
         equal_ignoring_case(attribute.substr(0, type.size()), type);
}

void append_normalised(std::string_view attribute, std::string_view value, std::string& out) {
  append(rule_of(attribute), value, true, out);
}

std::string normalised(std::string_view attribute, std::string_view value) {
  std::string out;
  append_normalised(attribute, value, out);
  return out;
}

std::string normalised_piece(std::string_view attribute, std::string_view piece) {
  std::string out;
  append(rule_of(attribute), piece, false, out);
  return out;
}

bool equal_values(std::string_view attribute, std::string_view a, std::string_view b) {
  if (a == b) return true;
  const Rule rule = rule_of(attribute);
  if (rule == Rule::kExact) return false;
  std::string left;
  std::string right;
  append(rule, a, true, left);
  append(rule, b, true, right);
  return left == right;
}

int compare_normalised(std::string_view a, std::string_view b) {
  if (is_whole_number(a) && is_whole_number(b)) return compare_numbers(a, b);
  return sign_of(a.compare(b));
}

std::uint64_t index_hash(std::string_view attribute, std::string_view value) {
  thread_local std::string text;
  text.clear();
  append_normalised(attribute, value, text);
  const std::uint64_t of_type =
      hash_text(0x243f6a8885a308d3u, lower_case(without_options(attribute)));
  return hash_text(of_type, text);
}

}  // namespace perdure::ldap
