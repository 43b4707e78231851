// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/password.h"

#include <crypt.h>

#include <string>

#include "apps/ldap/matching.h"

namespace perdure::ldap {
namespace {

/// Equal, in a time that does not tell how much of it is.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned char>(a[i]) ^
                 static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return different == 0;
}

}  // namespace

bool is_password(std::string_view stored, std::string_view password) {
  constexpr std::string_view kCrypt = "{CRYPT}";
  if (!stored.starts_with('{')) return equal_in_constant_time(stored, password);
  if (stored.size() <= kCrypt.size() ||
      !equal_ignoring_case(stored.substr(0, kCrypt.size()), kCrypt) ||
      password.find('\0') != std::string_view::npos)
    return false;
  const std::string setting(stored.substr(kCrypt.size()));
  crypt_data data{};
  const char* made = ::crypt_r(std::string(password).c_str(), setting.c_str(), &data);
  return made != nullptr && made[0] != '*' && equal_in_constant_time(setting, made);
}

}  // namespace perdure::ldap
