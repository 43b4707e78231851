// SPDX-License-Identifier: BSD-3-Clause
// Latency: a decorator that makes a domain as slow as the memory that a paper assumes. Delays are
// spins on the time-stamp counter, calibrated against the clock at first use.
//
// Two emulators, which may be combined:
//   - Mnemosyne §6.1: extra nanoseconds for every flushed or written-through line, and a bandwidth
//     limit, both paid at the fence that waits for them;
//   - SoftWrAP §V: a write-combining buffer of 8 lines that drains one line per T_w; a writer that
//     finds it full stalls until a line has left, a fence waits until it is empty. A store to the
//     line that came last joins it there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "perdure/domain/domain.h"

namespace perdure {

struct LatencyModel {
  double flush_ns = 0;            // per line flushed
  double write_through_ns = 0;    // per run of consecutive lines written through
  double fence_ns = 0;            // per fence that has something to wait for
  double bandwidth_gb_per_s = 0;  // of lines on their way to memory; 0: unlimited
  double drain_ns = 0;            // T_w of the write-combining buffer; 0: no such buffer
  unsigned buffer_lines = 8;
};

/// The memory of SoftWrAP's evaluation (§V-B): a write-combining buffer of 8 lines, of which one
/// leaves every `line_ns` (T_w); `wait_ns` (T_s) is what a wait itself takes.
constexpr LatencyModel write_combining_buffer(double line_ns, double wait_ns = 220) {
  LatencyModel model;
  model.drain_ns = line_ns;
  model.fence_ns = wait_ns;
  return model;
}

/// The time-stamp counter as a clock.
class TscClock {
 public:
  static std::uint64_t now() { return __builtin_ia32_rdtsc(); }
  /// Ticks per nanosecond, measured once per process over some milliseconds.
  static double ticks_per_ns();
  static void spin_until(std::uint64_t tick) {
    while (now() < tick) __builtin_ia32_pause();
  }
  /// Mean overshoot in ns of a spin of `ns`: what to report beside emulated figures.
  static double spin_error_ns(double ns);
};

template <Domain Inner>
class Latency {
 public:
  Latency(const LatencyModel& model, Inner inner) : model_(model), inner_(std::move(inner)) {
    const double ticks = TscClock::ticks_per_ns();
    flush_ticks_ = to_ticks(model.flush_ns * ticks);
    write_ticks_ = to_ticks(model.write_through_ns * ticks);
    fence_ticks_ = to_ticks(model.fence_ns * ticks);
    line_ticks_ =
        model.bandwidth_gb_per_s > 0 ? to_ticks(kLineBytes / model.bandwidth_gb_per_s * ticks) : 0;
    drain_ticks_ = to_ticks(model.drain_ns * ticks);
  }

  void store(Word* home, Word value) { inner_.store(home, value); }
  void merge(Word* home, Word value, Word mask) { inner_.merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    inner_.write_through(home, words, count, site);
    start(fresh_lines(home, count * kWordBytes), write_ticks_);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    inner_.flush(address, bytes, site);
    const std::uint64_t count = fresh_lines(address, bytes);
    start(count, flush_ticks_ * count);
  }
  bool fence(Site site) {
    const bool durable = inner_.fence(site);
    Pending& pending = mine();
    if (pending.lines == 0) return durable;
    const std::uint64_t now = TscClock::now();
    TscClock::spin_until(
        std::max({now + pending.extra + fence_ticks_, pending.bus_free, pending.buffer_empty}));
    pending.lines = 0;
    pending.extra = 0;
    return durable;
  }

 private:
  struct Pending {
    std::uint64_t lines = 0;         // since the last fence
    std::uint64_t extra = 0;         // latency to pay at the fence
    std::uint64_t bus_free = 0;      // when the bandwidth limit lets the last line pass
    std::uint64_t buffer_empty = 0;  // when the write-combining buffer has drained
    std::uint64_t last_line = 0;     // that entered it
  };
  static Pending& mine() {
    thread_local Pending pending;
    return pending;
  }
  static std::uint64_t to_ticks(double ticks) {
    return static_cast<std::uint64_t>(std::llround(ticks));
  }
  /// Lines of these bytes that have to be sent; a buffer that combines has the last one, as long as
  /// it is not empty.
  std::uint64_t fresh_lines(const void* address, std::size_t bytes) const {
    const auto first = reinterpret_cast<std::uintptr_t>(address) / kLineBytes;
    const auto last = (reinterpret_cast<std::uintptr_t>(address) + bytes - 1) / kLineBytes;
    if (drain_ticks_ == 0) return last - first + 1;
    Pending& pending = mine();
    const bool combined = first == pending.last_line && pending.buffer_empty > TscClock::now();
    pending.last_line = last;
    return last - first + (combined ? 0 : 1);
  }
  void start(std::uint64_t count, std::uint64_t extra) {
    if (count == 0) return;
    Pending& pending = mine();
    const std::uint64_t now = TscClock::now();
    pending.lines += count;
    pending.extra += extra;
    pending.bus_free = std::max(pending.bus_free, now) + count * line_ticks_;
    if (drain_ticks_ == 0) return;
    pending.buffer_empty = std::max(pending.buffer_empty, now) + count * drain_ticks_;
    const std::uint64_t full = drain_ticks_ * model_.buffer_lines;
    if (pending.buffer_empty > now + full) TscClock::spin_until(pending.buffer_empty - full);
  }

  LatencyModel model_;
  [[no_unique_address]] Inner inner_;
  std::uint64_t flush_ticks_ = 0;
  std::uint64_t write_ticks_ = 0;
  std::uint64_t fence_ticks_ = 0;
  std::uint64_t line_ticks_ = 0;
  std::uint64_t drain_ticks_ = 0;
};

}  // namespace perdure
