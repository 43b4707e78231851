// SPDX-License-Identifier: BSD-3-Clause
// How attribute names and values are compared. Without a schema there is one rule for ordinary
// attributes (letters of ASCII are equal in both cases, runs of spaces count as one, those at the
// ends not at all), one for telephone numbers, and one for values that are bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace perdure::ldap {

/// `text` with ASCII letters in lower case; other bytes stay.
std::string lower_case(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// "cn" of "cn;lang-en".
std::string_view without_options(std::string_view attribute);
/// Whether `attribute` is `type` or `type` with options: what a filter on `type` speaks of.
bool is_of_type(std::string_view attribute, std::string_view type);

/// What two values of `attribute` have in common when they are equal; appended to `out`.
void append_normalised(std::string_view attribute, std::string_view value, std::string& out);
std::string normalised(std::string_view attribute, std::string_view value);
/// The same for a piece of a value, whose spaces at the ends mean something.
std::string normalised_piece(std::string_view attribute, std::string_view piece);

bool equal_values(std::string_view attribute, std::string_view a, std::string_view b);

/// Orders two normalised values: as numbers when both are whole numbers, else byte by byte.
/// Negative, zero or positive.
int compare_normalised(std::string_view a, std::string_view b);

/// Under which the equality index keeps a value of `attribute`. Part of the media format: never
/// change it.
std::uint64_t index_hash(std::string_view attribute, std::string_view value);

}  // namespace perdure::ldap
