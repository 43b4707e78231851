// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench looking`.
#pragma once

#include "tools/command.h"

namespace perdure::bench {

void add_looking_command(tools::Command bench);

}  // namespace perdure::bench
