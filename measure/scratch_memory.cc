// SPDX-License-Identifier: BSD-3-Clause
#include "measure/scratch_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace perdure::bench {

ScratchMemory::ScratchMemory(const std::string& dir, std::uint64_t bytes)
    : file_(dir, "memory"), bytes_(bytes) {
  const int fd = ::open(file_.path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0)
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int why = errno;
  if (fd >= 0) ::close(fd);
  if (memory == MAP_FAILED) throw Exception(Code::kIo, file_.path() + ": " + std::strerror(why));
  words_ = static_cast<Word*>(memory);
  std::memset(memory, 0, bytes);
}

ScratchMemory::~ScratchMemory() { ::munmap(words_, bytes_); }

}  // namespace perdure::bench
