// SPDX-License-Identifier: BSD-3-Clause
// Distinguished names (RFC 4514): parsed, brought to the one form in which equal names are equal
// bytes, and split into the part that names an entry among its siblings and the rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "perdure/error.h"

namespace perdure::ldap {

/// One attribute and its value, as in "uid=ada"; the value without escapes.
struct NamePart {
  std::string attribute;
  std::string value;
};

/// A relative distinguished name: one level of a name, "cn=a+sn=b" has two parts.
struct Rdn {
  std::string text;        // as it was written
  std::string normalised;  // case folded, escapes and order of parts made one
  std::vector<NamePart> parts;
};

/// A name from the entry up to the suffix: rdns[0] is the entry's own. Empty: the root of all.
struct Dn {
  std::vector<Rdn> rdns;

  /// The levels from `first` on, joined by commas.
  std::string text(std::size_t first = 0) const;
  std::string normalised(std::size_t first = 0) const;
};

/// Errors: kInvalid, saying where the text stops being a name.
Result<Dn> parse_dn(std::string_view text);
/// One level. Errors: kInvalid.
Result<Rdn> parse_rdn(std::string_view text);

}  // namespace perdure::ldap
