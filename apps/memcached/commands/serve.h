// SPDX-License-Identifier: BSD-3-Clause
// `perdure serve FILE`: a memcached whose items survive.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::memcached {

void add_serve_command(CLI::App& app);

}  // namespace perdure::memcached
