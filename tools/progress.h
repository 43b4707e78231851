// SPDX-License-Identifier: BSD-3-Clause
// A progress bar on standard error, for a terminal only, ten times a second at most.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

#include <fmt/core.h>

namespace perdure::tools {

class Progress {
 public:
  /// `total` 0: unknown; then only the count is shown.
  Progress(std::string label, std::uint64_t total)
      : label_(std::move(label)), total_(total), shown_(::isatty(2) != 0) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::uint64_t done) {
    if (!shown_) return;
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(done) / std::max(seconds, 1e-3);
    if (total_ == 0) {
      fmt::print(stderr, "\r{} {} ({:.0f}/s)\033[K", label_, done, rate);
      return;
    }
    const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
    const auto filled = static_cast<std::size_t>(part * kWidth);
    const double left = rate > 0 ? static_cast<double>(total_ - std::min(done, total_)) / rate : 0;
    fmt::print(stderr, "\r{} [{}{}] {:3.0f} %  {:.0f} s left\033[K", label_,
               std::string(filled, '='), std::string(kWidth - filled, ' '), 100 * part, left);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kWidth = 30;
  std::string label_;
  std::uint64_t total_;
  bool shown_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace perdure::tools
