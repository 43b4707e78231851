// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/entry.h"

#include <algorithm>
#include <cstring>

#include "apps/ldap/matching.h"
#include "perdure/error.h"

namespace perdure::ldap {
namespace {

void put_text(std::string& out, std::string_view text) {
  std::size_t length = text.size();
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(length | 0x80);
  out += static_cast<char>(length);
  out += text;
}

[[noreturn]] void damaged(const char* what) {
  throw Exception(Code::kCorrupt,
                  std::string("ldap: an entry ") + what + "; `perdure check` tells more");
}

std::string_view take_text(std::string_view& from) {
  std::uint64_t length = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (from.empty() || shift > 28) damaged("ends within a length");
    const auto byte = static_cast<unsigned char>(from[0]);
    from.remove_prefix(1);
    length |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  if (length > from.size()) damaged("has a text longer than itself");
  const std::string_view text = from.substr(0, length);
  from.remove_prefix(length);
  return text;
}

}  // namespace

std::string encode(const Record& record) {
  std::string out;
  std::size_t room = sizeof(record.parent) + record.rdn.size() + 8;
  for (const Value& value : record.values) room += value.attribute.size() + value.value.size() + 8;
  out.reserve(room);
  out.append(reinterpret_cast<const char*>(&record.parent), sizeof(record.parent));
  put_text(out, record.rdn);
  std::string_view before;
  for (const Value& value : record.values) {
    put_text(out, value.attribute == before ? std::string_view() : value.attribute);
    put_text(out, value.value);
    before = value.attribute;
  }
  return out;
}

Record decode(std::string_view bytes) {
  Record record;
  record.parent = parent_of(bytes);
  bytes.remove_prefix(sizeof(record.parent));
  record.rdn = take_text(bytes);
  std::string_view attribute;
  while (!bytes.empty()) {
    const std::string_view named = take_text(bytes);
    if (!named.empty()) attribute = named;
    if (attribute.empty()) damaged("has a value without an attribute");
    record.values.push_back({attribute, take_text(bytes)});
  }
  return record;
}

std::uint64_t parent_of(std::string_view bytes) {
  std::uint64_t parent;
  if (bytes.size() < sizeof(parent)) damaged("has no parent");
  std::memcpy(&parent, bytes.data(), sizeof(parent));
  return parent;
}

void gather(Values& values) {
  Values gathered;
  gathered.reserve(values.size());
  for (const Value& value : values) {
    const auto same = [&](const Value& before) {
      return before.attribute.size() == value.attribute.size() &&
             equal_ignoring_case(before.attribute, value.attribute);
    };
    // Behind the last value of its attribute; nearly always that is the last of all.
    const auto last = !gathered.empty() && same(gathered.back())
                          ? gathered.rbegin()
                          : std::find_if(gathered.rbegin(), gathered.rend(), same);
    if (last == gathered.rend()) {
      gathered.push_back(value);
    } else {
      gathered.insert(last.base(), {last->attribute, value.value});
    }
  }
  values = std::move(gathered);
}

}  // namespace perdure::ldap
