// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/working_view.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "perdure/region/region.h"

namespace perdure::crash {

SharedMemory::SharedMemory(std::uint64_t bytes)
    : bytes_(round_up(bytes, kPageBytes)), file_(::memfd_create("perdure", MFD_CLOEXEC)) {
  void* memory = MAP_FAILED;
  if (file_.get() >= 0 && ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) == 0)
    memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(memory);
}
SharedMemory::~SharedMemory() { ::munmap(base_, bytes_); }

WorkingView::WorkingView(const SharedMemory& memory, std::uint64_t most) : memory_(&memory) {
  Superblock super{};
  std::memcpy(&super, memory.base(), sizeof(super));
  void* base = ::mmap(nullptr, memory.bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(base);
  if (!Region::map_private_heap(base_, memory.fd(), super, memory.bytes())) {
    ::munmap(base_, memory.bytes());
    throw std::bad_alloc();
  }
  pages_ = std::make_unique<PrivatePages>(base_, super.heap_offset, memory.bytes(), most);
}
WorkingView::~WorkingView() { ::munmap(base_, memory_->bytes()); }

}  // namespace perdure::crash
