// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perdure/space.h"

#include <sys/stat.h>

#include <cstring>

#include <fmt/core.h>

#include "perdure/address_space.h"
#include "perdure/api/directory_files.h"
#include "perdure/api/pool_core.h"

namespace perdure::tools {

bool is_space(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string heap_of(const std::string& directory) {
  return directory + "/" + DirectoryFiles::kHeap;
}

Report describe_regions(AddressSpace& space) {
  const std::uint64_t base = core_of(space.pool()).region().superblock().preferred_base;
  Report regions = Report::array();
  for (const RegionEntry& entry : space.regions()) {
    regions.push_back({{"region", std::to_string(entry.file) + ".region"},
                       {"address", fmt::format("{:#x}", base + entry.begin)},
                       {"size_bytes", entry.bytes}});
  }
  return regions;
}

Report describe_statics(const AddressSpace& space) {
  Report variables = Report::array();
  const auto file = space.statics_file();
  if (file.empty()) return variables;
  StaticsHeader header{};
  std::memcpy(&header, file.data(), sizeof(header));
  const std::string_view names(reinterpret_cast<const char*>(file.data()) + kPageBytes,
                               header.names_bytes);
  for (const StaticVariable& variable : variables_from_text(names).value())
    variables.push_back({{"variable", variable.name}, {"size_bytes", variable.bytes}});
  return variables;
}

}  // namespace perdure::tools
