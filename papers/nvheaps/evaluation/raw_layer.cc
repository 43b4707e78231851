// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/raw_layer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace perdure::bench::nvheaps {

RawMemory::RawMemory(const HeapSetting& setting) : bytes_(setting.bytes) {
  if (setting.checkpoints) {
    saved_ = std::make_unique<CheckpointedMemory>(setting.dir, bytes_);
    begin_ = saved_->begin();
  } else {
    const std::string& path = file_.emplace(setting.dir, "base").path();
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    void* memory = MAP_FAILED;
    if (file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes_)) == 0)
      memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int why = errno;
    if (file >= 0) ::close(file);
    if (memory == MAP_FAILED) throw Exception(Code::kIo, path + ": " + std::strerror(why));
    begin_ = static_cast<std::byte*>(memory);
  }
  head().used = round_up(sizeof(Head), kLineBytes);
}

RawMemory::RawMemory(std::unique_ptr<CheckpointedMemory> saved)
    : saved_(std::move(saved)), begin_(saved_->begin()), bytes_(saved_->bytes()) {}

RawMemory::~RawMemory() {
  if (saved_ == nullptr) ::munmap(begin_, bytes_);
}

void* RawMemory::allocate(std::uint64_t bytes) {
  const std::uint64_t units = (bytes + kUnit - 1) / kUnit;
  Head& head = this->head();
  if (units < kSizes && head.free[units] != 0) {
    std::byte* const at = begin_ + head.free[units];
    std::memcpy(&head.free[units], at, sizeof(head.free[units]));
    std::memset(at, 0, units * kUnit);
    return at;
  }
  if (units * kUnit > bytes_ - head.used)
    throw Exception(Code::kNoSpace,
                    "BASE: the memory is full, " + std::to_string(bytes_) + " bytes");
  std::byte* const at = begin_ + head.used;
  head.used += units * kUnit;
  return at;
}

void RawMemory::free(void* at, std::uint64_t bytes) {
  const std::uint64_t units = (bytes + kUnit - 1) / kUnit;
  if (units >= kSizes) return;
  std::memcpy(at, &head().free[units], sizeof(head().free[units]));
  head().free[units] = distance_of(at);
}

}  // namespace perdure::bench::nvheaps
