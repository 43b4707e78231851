// What the tests stand on: pools in memory that can be copied at any moment (a copy of an open pool is what a killed
// process leaves behind), and a directory for files that goes away by itself.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "perdure/domain/dram.h"
#include "perdure/engine/redo.h"
#include "perdure/pool.h"

namespace perdure::testing {

/// The smallest geometry in which everything still happens: growth, log wrap, spilled records, several segments.
inline constexpr Geometry kSmallGeometry = {std::uint64_t{1} << 20, std::uint64_t{128} << 10, kPageBytes, 2, 4};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

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
      : bytes_(bytes), base_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, round_up(bytes, kPageBytes)))) {
    std::memset(base_.get(), 0, bytes);
  }
  Image(const Image& other) : Image(other.bytes_) { std::memcpy(base_.get(), other.base_.get(), bytes_); }
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
        [engine](const EngineParts& parts) { return make_engine(engine, parts, Dram{}); }, lock_bits);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::uint64_t bytes_;
  std::unique_ptr<std::byte, Free> base_;
  RoomyBacking backing_;
};

/// A directory of its own, removed with all it holds.
class TempDir {
 public:
  TempDir() : path_(::testing::TempDir() + "perdure-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw Exception(Code::kIo, path_ + ": no temporary directory");
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The code of the perdure::Exception that `body` throws, as text; "nothing" when it throws none.
template <class Body>
std::string code_thrown_by(Body&& body) {
  try {
    body();
  } catch (const Exception& exception) {
    return std::string(code_name(exception.code()));
  }
  return "nothing";
}

}  // namespace perdure::testing
