// SPDX-License-Identifier: BSD-3-Clause
// The directory for people and scripts: `perdure ldap …`.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::ldap {

void add_ldap_commands(CLI::App& app);

}  // namespace perdure::ldap
