// SPDX-License-Identifier: BSD-3-Clause
// What the tests of object heaps stand on: a heap in memory whose process can be killed, on each engine.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/object.h"
#include "tests/small_pool.h"

namespace perdure::testing {

/// Logs of 4 KiB: whatever needs more is spilled, or has to do in steps.
inline constexpr Geometry kObjectGeometry = {std::uint64_t{16} << 20, std::uint64_t{128} << 10,
                                             kPageBytes, 8, 4};
inline constexpr EngineKind kObjectEngines[] = {EngineKind::kMnemosyne, EngineKind::kBlurred,
                                                EngineKind::kSoftwrap, EngineKind::kUndoObjects};

template <class Root>
class HeapInMemory {
 public:
  explicit HeapInMemory(EngineKind engine, const Geometry& geometry = kObjectGeometry)
      : engine_(engine), image_(Image::formatted(geometry)) {
    open();
  }
  /// On what a process left behind.
  HeapInMemory(EngineKind engine, const Image& image) : engine_(engine), image_(image) { open(); }

  object_heap<Root>& operator*() { return *heap_; }
  object_heap<Root>* operator->() { return &*heap_; }
  Pool& pool() { return *pool_; }
  const Image& image() const { return image_; }
  /// Of everything that the heap has allocated: what leaks shows here.
  std::uint64_t objects() { return core_of(*pool_).heap().usage().objects; }

  void close() {
    heap_.reset();
    pool_.reset();
  }
  void open() {
    pool_.emplace(image_.pool(engine_).value());
    // No thread changes the image while a test copies it.
    if (engine_ == EngineKind::kSoftwrap) pool_->set_truncation(Truncation::kWhenFull);
    heap_.emplace(object_heap<Root>::in_pool(*pool_).value());
  }
  void reopen() {
    close();
    open();
  }
  /// The process dies, and another one opens what it has left.
  void kill() {
    const Image left(image_);
    close();
    image_ = left;
    open();
  }

 private:
  EngineKind engine_;
  Image image_;
  std::optional<Pool> pool_;
  std::optional<object_heap<Root>> heap_;
};

/// "misuse: the message" of the Exception that `body` throws; "nothing" when it throws none.
template <class Body>
std::string thrown_by(Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const Exception& exception) {
    return std::string(code_name(exception.code())) + ": " + exception.what();
  }
  return "nothing";
}

class ObjectTest : public ::testing::TestWithParam<EngineKind> {};

inline std::string engine_of(const ::testing::TestParamInfo<EngineKind>& info) {
  return name_of(info.param);
}

}  // namespace perdure::testing

/// The cases of `Suite`, a class derived from ObjectTest, on every engine.
#define PERDURE_ON_ENGINES(Suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(Engines, Suite,                                          \
                           ::testing::ValuesIn(::perdure::testing::kObjectEngines), \
                           ::perdure::testing::engine_of)
