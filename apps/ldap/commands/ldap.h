// SPDX-License-Identifier: BSD-3-Clause
// The directory for people and scripts: `perdure ldap …`.
#pragma once

#include "tools/command_line.h"

namespace perdure::ldap {

void add_ldap_commands(tools::Command app);

}  // namespace perdure::ldap
