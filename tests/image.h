// SPDX-License-Identifier: BSD-3-Clause
// Pools in memory, which can be copied at any moment: a copy of an open pool is what a killed
// process leaves behind.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "papers/on_dram.h"
#include "perdure/api/pool_core.h"
#include "perdure/domain/dram.h"
#include "perdure/engine/instantiations.h"
#include "perdure/pool.h"
#include "sim/crash/working_view.h"

namespace perdure {

// Tests choose engines by name.
using papers::engine_name;
using papers::EngineKind;
using papers::is_undo;

}  // namespace perdure

namespace perdure::testing {

/// The smallest geometry in which everything still happens: growth, log wrap, spilled records,
/// several segments.
inline constexpr Geometry kSmallGeometry = {std::uint64_t{1} << 20, std::uint64_t{128} << 10,
                                            kPageBytes, 2, 4};

/// Storage that always has room.
class RoomyBacking final : public Backing {
 public:
  Result<void> extend(std::uint64_t, std::uint64_t) override { return {}; }
  Result<void> allocate(Offset, std::uint64_t) override { return {}; }
  bool tell(Offset, Word) override { return true; }  // memory: the region has stored it
};

/// Page-aligned memory that holds a pool's image.
class Image {
 public:
  explicit Image(std::uint64_t bytes)
      : bytes_(bytes), memory_(std::make_unique<crash::SharedMemory>(bytes)) {}
  Image(const Image& other) : Image(other.bytes_) { *this = other; }
  Image(Image&&) = default;
  Image& operator=(const Image& other) {
    std::memcpy(memory_->base(), other.memory_->base(), bytes_);
    return *this;
  }

  /// An empty pool.
  static Image formatted(const Geometry& geometry = kSmallGeometry, std::uint64_t segments = 1) {
    Image image(geometry.capacity_bytes);
    Region::format_memory(image.base(), image.bytes(), {geometry, segments}).value();
    return image;
  }

  std::byte* base() { return memory_->base(); }
  std::uint64_t bytes() const { return bytes_; }
  Word& word(Offset offset) { return *reinterpret_cast<Word*>(base() + offset); }
  Superblock super() {
    Superblock super;
    std::memcpy(&super, base(), sizeof(super));
    return super;
  }
  bool operator==(const Image& other) const {
    return bytes_ == other.bytes_ &&
           std::memcmp(memory_->base(), other.memory_->base(), bytes_) == 0;
  }

  Result<std::unique_ptr<Region>> region(DomainKind kind = DomainKind::kDram) {
    return Region::open_memory(base(), bytes(), bytes(), kind, backing_);
  }
  /// Opens the pool in place, on Dram. The image must outlive it.
  Result<Pool> pool(unsigned lock_bits = 8) {
    return pool(
        {[](const EngineParts& parts) { return std::make_unique<Redo<Dram>>(parts, Dram{}); }},
        lock_bits);
  }
  /// The same with another engine.
  Result<Pool> pool(const EngineSource& source, unsigned lock_bits = 8) {
    auto opened = region();
    if (!opened) return opened.error();
    return adopt_region(std::move(opened).value(), source, lock_bits);
  }
  /// The same with one of the papers' engines, or the library's with private pages.
  Result<Pool> pool(papers::EngineKind engine, unsigned lock_bits = 8) {
    if (engine == papers::EngineKind::kSoftwrap) return paged_pool(Dram{}, lock_bits);
    return pool(papers::on_dram(engine), lock_bits);
  }
  /// The same over private pages. Of more than half of `most` some are given back.
  template <Domain D>
  Result<Pool> paged_pool(D domain, unsigned lock_bits = 8, std::uint64_t most = 16) {
    views_.push_back(std::make_unique<crash::WorkingView>(*memory_, most));
    crash::WorkingView& view = *views_.back();
    auto opened = Region::open_memory(view.base(), bytes(), bytes(), DomainKind::kDram, backing_);
    if (!opened) return opened.error();
    return adopt_region(std::move(opened).value(), {[&](const EngineParts& parts) {
                          return std::make_unique<Redo<InPrivatePages<D>>>(
                              parts, view.domain(std::move(domain)));
                        }},
                        lock_bits);
  }
  /// The pages of the pool that paged_pool() opened last.
  PrivatePages& private_pages() { return views_.back()->pages(); }

 private:
  std::uint64_t bytes_;
  std::unique_ptr<crash::SharedMemory> memory_;
  std::vector<std::unique_ptr<crash::WorkingView>> views_;
  RoomyBacking backing_;
};

}  // namespace perdure::testing
