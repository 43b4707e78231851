// SPDX-License-Identifier: BSD-3-Clause
// Search filters (RFC 4515) as text, as a tree, and as a question to an entry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ldap/entry.h"
#include "perdure/error.h"

namespace perdure::ldap {

struct Filter {
  enum class Kind : std::uint8_t {
    kAnd,
    kOr,
    kNot,
    kEqual,  // and ~=, which means the same here
    kPresent,
    kSubstrings,
    kGreaterOrEqual,
    kLessOrEqual,
    kTrue,
    kFalse,
    kUndefined,  // nobody knows: of an attribute that slapd does not know, or a matching rule
  };
  Kind kind = Kind::kPresent;
  std::string attribute;
  /// Normalised: the one value compared with; of kSubstrings the first piece, those between, the
  /// last. First and last may be empty.
  std::vector<std::string> values;
  std::vector<Filter> children;  // of kAnd, kOr, kNot
};

/// Errors: kInvalid, saying at which byte the text stops being a filter; so for one that is nested
/// more than 100 levels.
Result<Filter> parse_filter(std::string_view text);

/// The three values of RFC 4511 §4.5.1.7: an entry is found when the answer is kTrue, and what is
/// undefined stays so under "not".
enum class Truth : std::uint8_t { kFalse, kUndefined, kTrue };
Truth evaluate(const Filter& filter, const Values& values);

}  // namespace perdure::ldap
