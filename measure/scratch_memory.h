// SPDX-License-Identifier: BSD-3-Clause
// A scratch file as memory: what raw loops and bare logs run on.
#pragma once

#include "bench/system.h"

namespace perdure::bench {

class ScratchMemory {
 public:
  /// Every page is touched. Errors: throws Exception kIo.
  ScratchMemory(const std::string& dir, std::uint64_t bytes);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  Word* words() const { return words_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  ScratchFile file_;
  std::uint64_t bytes_;
  Word* words_;
};

}  // namespace perdure::bench
