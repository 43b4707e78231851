// SPDX-License-Identifier: BSD-3-Clause
// Files that are built and installed beside a command: the other command, what `perdure run` loads into programs, the
// simulator's plug-in and guests.
#pragma once

#include <string>

namespace perdure::tools {

/// The path of `name`: beside this executable, in the folder above, or in the installation's lib/perdure.
/// Errors: throws Exception kNotFound. Threads: any.
std::string find_part(const std::string& name);

}  // namespace perdure::tools
