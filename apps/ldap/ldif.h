// SPDX-License-Identifier: BSD-3-Clause
// LDIF (RFC 2849), as far as slapd and ldapadd speak it: lines of "attribute: value" or
// "attribute:: base64", folded over several lines where they are long.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "apps/ldap/entry.h"

namespace perdure::ldap {

/// Values that stand nowhere in a text as they are: decoded from base64, or computed. Its elements
/// never move.
using Arena = std::deque<std::string>;

/// Joins folded lines, in place, and drops the carriage returns of other systems.
void unfold(std::string& text);

/// Takes the first line off `text`, without its end.
std::string_view take_line(std::string_view& text);

/// The attribute and the value of a line; `arena` keeps what had to be decoded. Errors: throws
/// Exception kInvalid for a line without ':', bad base64, and "attribute:< file", which would read
/// what the sender may not.
Value parse_line(std::string_view line, Arena& arena);

/// Appends a line that parse_line() reads back, in base64 when the value is not plain text, folded
/// so that no line is longer than `width`.
void append_line(std::string& out, std::string_view attribute, std::string_view value,
                 std::size_t width);

}  // namespace perdure::ldap
