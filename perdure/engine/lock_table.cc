// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/lock_table.h"

#include <sys/mman.h>

#include <new>

namespace perdure {
namespace {

/// From here on pages of its own; below, a map and an unmap would cost more than the rest of
/// opening a pool: a crash explorer opens millions of small ones.
constexpr std::size_t kMapped = std::size_t{64} << 10;

}  // namespace

LockTable::LockTable(unsigned bits) : in_bytes_(((std::uint64_t{1} << bits) - 1) * sizeof(Orec)) {
  if (bytes() < kMapped) {
    orecs_ = new Orec[bytes() / sizeof(Orec)]();
    return;
  }
  // Anonymous zero pages: a table of 2^20 costs memory only where it is used.
  void* memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::madvise(memory, bytes(), MADV_HUGEPAGE);  // nearly every access is to another page
  orecs_ = static_cast<Orec*>(memory);
}

LockTable::~LockTable() {
  if (bytes() < kMapped) {
    delete[] orecs_;
  } else {
    ::munmap(orecs_, bytes());
  }
}

}  // namespace perdure
