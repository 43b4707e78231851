// SPDX-License-Identifier: BSD-3-Clause
#include "bench/system.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace perdure::bench {

std::vector<Peer>& peers() {
  static std::vector<Peer> registered;
  return registered;
}

std::string file_system_of(const std::string& dir) {
  struct statfs found{};
  if (::statfs(dir.c_str(), &found) != 0) return "unknown";
  switch (static_cast<unsigned long>(found.f_type)) {
    case TMPFS_MAGIC: return "tmpfs";
    case EXT4_SUPER_MAGIC: return "ext4";
    case XFS_SUPER_MAGIC: return "xfs";
    case BTRFS_SUPER_MAGIC: return "btrfs";
    case OVERLAYFS_SUPER_MAGIC: return "overlayfs";
    default: return fmt::format("type {:#x}", static_cast<unsigned long>(found.f_type));
  }
}

ScratchFile::ScratchFile(const std::string& dir, std::string_view name) {
  static int number = 0;
  path_ = dir + "/perdure-bench-" + std::to_string(::getpid()) + "-" + std::to_string(number++) +
          "-" + std::string(name);
}
ScratchFile::~ScratchFile() { ::unlink(path_.c_str()); }

ScratchDirectory::ScratchDirectory(const std::string& dir, std::string_view name)
    : path_(ScratchFile(dir, name).path()) {
  std::filesystem::create_directory(path_);
}
ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;  // a scratch directory left behind is no reason to end the program
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace perdure::bench
