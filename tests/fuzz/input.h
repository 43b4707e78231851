// SPDX-License-Identifier: BSD-3-Clause
// What the fuzz targets share: the input, taken apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace perdure::fuzz {

/// Zeroes when it is at its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t bytes) : at_(data), left_(bytes) {}
  bool empty() const { return left_ == 0; }
  template <class T>
  T take() {
    T value{};
    const std::size_t here = std::min(sizeof(T), left_);
    std::memcpy(&value, at_, here);
    at_ += here;
    left_ -= here;
    return value;
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

}  // namespace perdure::fuzz
