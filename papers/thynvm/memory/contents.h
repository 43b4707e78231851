// SPDX-License-Identifier: BSD-3-Clause
// The bytes of a simulated memory: a sparse array of pages, zero where nothing was written.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "papers/thynvm/memory/model.h"

namespace perdure::memory {

using Line = std::array<unsigned char, kLineBytes>;

class Contents {
 public:
  Contents() = default;
  Contents(const Contents& other) {
    for (const auto& [number, page] : other.pages_)
      pages_.emplace(number, std::make_unique<Page>(*page));
  }
  Contents& operator=(const Contents& other) {
    Contents copy(other);
    pages_.swap(copy.pages_);
    return *this;
  }
  Contents(Contents&&) = default;
  Contents& operator=(Contents&&) = default;

  Line read(std::uint64_t line) const {
    const auto page = pages_.find(line / kLinesPerPage);
    return page == pages_.end() ? Line{} : (*page->second)[line % kLinesPerPage];
  }
  void write(std::uint64_t line, const Line& data) { at(line) = data; }
  /// To change in place.
  Line& at(std::uint64_t line) {
    auto& page = pages_[line / kLinesPerPage];
    if (!page) page = std::make_unique<Page>();
    return (*page)[line % kLinesPerPage];
  }

 private:
  using Page = std::array<Line, kLinesPerPage>;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace perdure::memory
