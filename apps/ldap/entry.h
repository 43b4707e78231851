// SPDX-License-Identifier: BSD-3-Clause
// An entry as the directory keeps it: the entry above it, its own level of the name, its
// attributes. The name in full is the names of all levels, so that renaming an entry renames
// everything below it.
//
//   record     parent id (8 bytes, little-endian), text(rdn), then per value: text(attribute), text(value)
//   text       length as a variable-length integer (7 bits a byte, the low ones first), bytes
//   attribute  empty: the one of the value before
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perdure::ldap {

/// One value of one attribute. Views: whoever made them owns the bytes.
struct Value {
  std::string_view attribute;
  std::string_view value;
};
/// Values of one attribute stand together, in the order in which they were given.
using Values = std::vector<Value>;

struct Record {
  std::uint64_t parent = 0;  // 0: a suffix
  std::string_view rdn;      // of a suffix: its whole name
  Values values;
};

std::string encode(const Record& record);
/// Views into `bytes`. Errors: throws Exception kCorrupt.
Record decode(std::string_view bytes);
/// The parent alone, without looking at the rest. Errors: throws Exception kCorrupt.
std::uint64_t parent_of(std::string_view bytes);

/// Brings values of one attribute together, keeping the order in which attributes come first.
void gather(Values& values);

}  // namespace perdure::ldap
