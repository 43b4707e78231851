// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/raw_layer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace perdure::bench::nvheaps {

RawMemory::RawMemory(const std::string& dir) : file_(dir, "base") {
  const int file = ::open(file_.path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (file >= 0 && ::ftruncate(file, static_cast<off_t>(kBytes)) == 0)
    memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int why = errno;
  if (file >= 0) ::close(file);
  if (memory == MAP_FAILED) throw Exception(Code::kIo, file_.path() + ": " + std::strerror(why));
  begin_ = static_cast<std::byte*>(memory);
}

RawMemory::~RawMemory() { ::munmap(begin_, kBytes); }

void* RawMemory::allocate(std::uint64_t bytes) {
  const std::uint64_t units = (bytes + kUnit - 1) / kUnit;
  if (units < kSizes && free_[units] != nullptr) {
    void* const at = free_[units];
    std::memcpy(&free_[units], at, sizeof(void*));
    std::memset(at, 0, units * kUnit);
    return at;
  }
  if (units * kUnit > kBytes - used_)
    throw Exception(Code::kNoSpace, file_.path() + ": the mapped file is full");
  std::byte* const at = begin_ + used_;
  used_ += units * kUnit;
  return at;
}

void RawMemory::free(void* at, std::uint64_t bytes) {
  const std::uint64_t units = (bytes + kUnit - 1) / kUnit;
  if (units >= kSizes) return;
  std::memcpy(at, &free_[units], sizeof(void*));
  free_[units] = at;
}

}  // namespace perdure::bench::nvheaps
