#include "bench/system.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace perdure::bench {

std::vector<Peer>& peers() {
  static std::vector<Peer> registered;
  return registered;
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
