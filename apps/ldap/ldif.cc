// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/ldif.h"

#include <algorithm>

#include "apps/base64.h"
#include "perdure/error.h"

namespace perdure::ldap {
namespace {

/// A value that a reader of lines takes as it is: RFC 2849's SAFE-STRING, and no space at the end.
bool is_plain(std::string_view value) {
  if (value.empty()) return true;
  if (value[0] == ' ' || value[0] == ':' || value[0] == '<' || value.back() == ' ') return false;
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

void unfold(std::string& text) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < text.size(); ++from) {
    const char c = text[from];
    if (c == '\r' && from + 1 < text.size() && text[from + 1] == '\n') continue;
    if (c == '\n' && from + 1 < text.size() && text[from + 1] == ' ') {
      ++from;
      continue;
    }
    text[to++] = c;
  }
  text.resize(to);
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

Value parse_line(std::string_view line, Arena& arena) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0)
    throw Exception(Code::kInvalid,
                    "the line '" + std::string(line.substr(0, 80)) + "' is not 'attribute: value'");
  Value parsed{line.substr(0, colon), line.substr(colon + 1)};
  const bool coded = parsed.value.starts_with(':');
  if (parsed.value.starts_with('<'))
    throw Exception(Code::kInvalid, "the line '" + std::string(line.substr(0, 80)) +
                                        "' refers to another file; write the value itself");
  if (coded) parsed.value.remove_prefix(1);
  while (parsed.value.starts_with(' ')) parsed.value.remove_prefix(1);
  if (coded) {
    std::string raw;
    if (!from_base64(parsed.value, raw))
      throw Exception(Code::kInvalid, "the value of '" + std::string(parsed.attribute) +
                                          "' is not base64, as '::' says");
    parsed.value = arena.emplace_back(std::move(raw));
  }
  return parsed;
}

void append_line(std::string& out, std::string_view attribute, std::string_view value,
                 std::size_t width) {
  const std::size_t start = out.size();
  out += attribute;
  out += ':';
  if (is_plain(value)) {
    out += ' ';
    out += value;
  } else {
    out += ": ";
    out += to_base64(value);
  }
  for (std::size_t fold = start + width; fold < out.size(); fold += width + 1)
    out.insert(fold, "\n ");
  out += '\n';
}

}  // namespace perdure::ldap
