// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench memcached`: Figure 8 of NV-heaps (ASPLOS 2011), and more of its kind.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::bench::memcached {

void add_memcached_command(CLI::App& bench);

}  // namespace perdure::bench::memcached
