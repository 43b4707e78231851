// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench memcached`: Figure 8 of NV-heaps (ASPLOS 2011), and more of its kind.
#pragma once

#include "tools/command_line.h"

namespace perdure::bench::memcached {

void add_memcached_command(tools::Command bench);

}  // namespace perdure::bench::memcached
