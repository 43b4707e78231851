// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perdure/space.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/core.h>

#include "perdure/address_space.h"
#include "perdure/api/directory_files.h"
#include "perdure/api/pool_core.h"
#include "perdure/region/file.h"
#include "tools/progress.h"

namespace perdure::tools {

bool is_space(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string heap_of(const std::string& directory) {
  return directory + "/" + DirectoryFiles::kHeap;
}

void copy_region_files(const std::vector<RegionEntry>& pieces, DirectoryFiles& files,
                       const std::function<void(int, const RegionEntry&)>& copy) {
  std::map<std::uint64_t, std::vector<RegionEntry>> by_file;
  for (const RegionEntry& piece : pieces) by_file[piece.file].push_back(piece);
  Progress progress("copying regions", by_file.size());
  std::uint64_t done = 0;
  for (auto& [file, of_file] : by_file) {
    progress.show(++done);
    files.create(file, of_file.front().file_bytes).value();
    const std::string path = files.name(file);
    const Descriptor out(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (out.get() < 0) throw Exception(io_error(path));
    std::sort(of_file.begin(), of_file.end(),
              [](const auto& a, const auto& b) { return a.file_offset < b.file_offset; });
    Offset gap = 0;  // what was unmapped gives its blocks back
    for (const RegionEntry& piece : of_file) {
      if (piece.file_offset > gap) files.punch(file, gap, piece.file_offset - gap);
      gap = piece.file_offset + piece.bytes;
      copy(out.get(), piece);
    }
    if (gap < of_file.front().file_bytes) files.punch(file, gap, of_file.front().file_bytes - gap);
    if (::fsync(out.get()) != 0) throw Exception(io_error(path + ": sync"));
  }
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
