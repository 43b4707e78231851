// SPDX-License-Identifier: BSD-3-Clause
// Passwords, as entries keep them.
#pragma once

#include <string_view>

namespace perdure::ldap {

/// Whether `password` is what `stored` stands for: itself, or "{CRYPT}" and what crypt(3) makes of
/// it. Other schemes are unknown here and match nothing. Takes a time that does not tell how much
/// of it is right.
bool is_password(std::string_view stored, std::string_view password);

}  // namespace perdure::ldap
