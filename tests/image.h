// Pools in memory, which can be copied at any moment: a copy of an open pool is what a killed
// process leaves behind.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "perdure/domain/dram.h"
#include "perdure/engine/make_engine.h"
#include "perdure/pool.h"

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
};

/// Page-aligned memory that holds a pool's image.
class Image {
 public:
  explicit Image(std::uint64_t bytes)
      : bytes_(bytes),
        base_(
            static_cast<std::byte*>(std::aligned_alloc(kPageBytes, round_up(bytes, kPageBytes)))) {
    std::memset(base_.get(), 0, round_up(bytes, kPageBytes));
  }
  Image(const Image& other) : Image(other.bytes_) {
    std::memcpy(base_.get(), other.base_.get(), bytes_);
  }
  Image& operator=(const Image& other) {
    std::memcpy(base_.get(), other.base_.get(), bytes_);
    return *this;
  }

  /// An empty pool.
  static Image formatted(const Geometry& geometry = kSmallGeometry, std::uint64_t segments = 1) {
    Image image(geometry.capacity_bytes);
    Region::format_memory(image.base(), image.bytes(), {geometry, segments}).value();
    return image;
  }

  std::byte* base() { return base_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  Word& word(Offset offset) { return *reinterpret_cast<Word*>(base() + offset); }
  Superblock super() {
    Superblock super;
    std::memcpy(&super, base(), sizeof(super));
    return super;
  }
  bool operator==(const Image& other) const {
    return bytes_ == other.bytes_ && std::memcmp(base_.get(), other.base_.get(), bytes_) == 0;
  }

  Result<std::unique_ptr<Region>> region(DomainKind kind = DomainKind::kDram) {
    return Region::open_memory(base(), bytes(), bytes(), kind, backing_);
  }
  /// Opens the pool in place, on Dram. The image must outlive it.
  Result<Pool> pool(EngineKind engine = EngineKind::kMnemosyne, unsigned lock_bits = 8) {
    auto opened = region();
    if (!opened) return opened.error();
    return Pool::adopt(
        std::move(opened).value(),
        [engine](const EngineParts& parts) { return make_engine(engine, parts, Dram{}); },
        lock_bits);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::uint64_t bytes_;
  std::unique_ptr<std::byte, Free> base_;
  RoomyBacking backing_;
};

}  // namespace perdure::testing
