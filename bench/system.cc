#include "bench/system.h"

#include <unistd.h>

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

}  // namespace perdure::bench
