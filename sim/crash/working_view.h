// SPDX-License-Identifier: BSD-3-Clause
// Memory that can be mapped twice, as the engine softwrap maps a pool: for the explorer and for tests.
#pragma once

#include <cstddef>
#include <memory>

#include "perdure/domain/in_private_pages.h"
#include "perdure/region/file.h"

namespace perdure::crash {

/// Zeroes, shared: what stands in for a pool's file.   Throws: std::bad_alloc.
class SharedMemory {
 public:
  explicit SharedMemory(std::uint64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }
  int fd() const { return file_.get(); }

 private:
  std::uint64_t bytes_;
  Descriptor file_;
  std::byte* base_;
};

/// A second mapping of it, in which the heap is private. Of pages more than half of `most` are given back.
/// Requires: `memory` holds a pool.   Throws: std::bad_alloc.
class WorkingView {
 public:
  WorkingView(const SharedMemory& memory, std::uint64_t most);
  ~WorkingView();
  WorkingView(const WorkingView&) = delete;
  WorkingView& operator=(const WorkingView&) = delete;
  std::byte* base() const { return base_; }
  PrivatePages& pages() { return *pages_; }
  /// `inner` is the domain of the memory's own addresses.
  template <Domain D>
  InPrivatePages<D> domain(D inner) {
    return InPrivatePages<D>(*pages_, memory_->base() - base_, std::move(inner));
  }

 private:
  const SharedMemory* memory_;
  std::byte* base_;
  std::unique_ptr<PrivatePages> pages_;
};

}  // namespace perdure::crash
