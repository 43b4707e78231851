// SPDX-License-Identifier: BSD-3-Clause
// `perdure serve FILE`: a memcached whose items survive.
#pragma once

#include "tools/command_line.h"

namespace perdure::memcached {

void add_serve_command(tools::Command app);

}  // namespace perdure::memcached
