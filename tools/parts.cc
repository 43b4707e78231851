// SPDX-License-Identifier: BSD-3-Clause
#include "tools/parts.h"

#include <filesystem>

#include "perdure/error.h"

namespace perdure::tools {

namespace fs = std::filesystem;

std::string find_part(const std::string& name) {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path above = here.parent_path();
  for (const fs::path& folder : {here, above, above / PERDURE_PARTS, above / "bin"}) {
    const fs::path candidate = folder / name;
    if (fs::is_regular_file(candidate)) return candidate;
  }
  throw Exception(Code::kNotFound,
                  name + ": not in " + here.string() +
                      ", in the folder above, or there in " PERDURE_PARTS
                      " or bin; build or install Perdure whole (builds with sanitizers have no guests)");
}

}  // namespace perdure::tools
