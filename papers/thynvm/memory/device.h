// SPDX-License-Identifier: BSD-3-Clause
// One memory device on its channel: 2 ranks of 8 banks, rows of 8 KiB that stay open, addresses as
// row | rank | bank | column. Reads are answered; writes are posted; background transfers (of
// checkpoints and migrations) take place when nothing else wants the device.
//
// Time runs by being told: every call says when it happens, and what could start before is done first.
// With contents, each write carries its bytes: they are read from then on, and durable once the bank has
// taken them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "papers/thynvm/memory/contents.h"
#include "papers/thynvm/memory/model.h"

namespace perdure::memory {

class Device {
 public:
  static constexpr Time kNever = ~Time{0};

  Device(const DeviceTiming& timing, bool with_contents)
      : timing_(timing), with_contents_(with_contents) {}

  /// When the answer is there. Waits for no write that has not begun, except while the queue is drained.
  Time read(std::uint64_t line, Time now);

  /// When the write is accepted: now, or once the full queue has room.
  Time write(std::uint64_t line, Time now, const Line* data);

  /// Queues a transfer for when the device is idle; `source` is another device that it reads from, if any.
  void write_in_background(std::uint64_t line, Time now, const Line* data, Device* source = nullptr,
                           std::uint64_t source_line = 0);

  /// Does what can begin before `now`.
  void advance(Time now);
  /// Transfers in the background that have not begun.
  std::size_t in_background() const { return background_.size(); }
  /// Does all background transfers, also after `now`; when the last of them is done.
  Time finish_background(Time now);
  /// When the last background transfer that has begun is done.
  Time background_done() const { return background_done_; }
  /// When all that was posted is on media, which is done here.
  Time drain(Time now);

  /// Is on media as of now, in a time that is accounted for elsewhere.
  void put(std::uint64_t line, Time now, const Line* data);

  std::uint64_t reads() const { return reads_; }
  std::uint64_t writes() const { return writes_; }

  /// What a read returns.
  const Contents& contents() const { return contents_; }
  /// What a power cut at `now` leaves: of the writes that have begun and are not done, each has happened, in
  /// part, or not at all; so has each that waits in the queue, because nothing orders them.
  Contents after_power_cut(Time now, std::mt19937_64& random) const;
  /// Calls `hook(now)` when so many more writes have been accepted.
  void call_after_writes(std::uint64_t writes, std::function<void(Time)> hook) {
    until_hook_ = writes;
    hook_ = std::move(hook);
  }

 private:
  struct Bank {
    std::uint64_t row = kNoRow;
    Time free = 0, background_free = 0;
    bool dirty = false;
  };
  struct Waiting {
    std::uint64_t line;
    Time since;
    Line data;
    Device* source = nullptr;
    std::uint64_t source_line = 0;
  };
  struct Flying {
    std::uint64_t line;
    Time begun, done;
    Line data;
  };
  static constexpr std::uint64_t kNoRow = ~std::uint64_t{0};
  static constexpr std::uint64_t kRowBytes = 8192, kBanks = 16;

  std::uint64_t bank_of(std::uint64_t line) const;
  static std::uint64_t row_of(std::uint64_t line) { return line * kLineBytes / kRowBytes / kBanks; }

  Time earliest(std::uint64_t line, Time since) const;
  Time service(std::uint64_t line, bool write, Time since);
  Time serve_queue(std::size_t place);
  Time serve_background();
  std::size_t next_in_queue(Time* start) const;
  void remember(std::uint64_t line, Time now, const Line* data);
  Time take(const Waiting& waiting);
  Time take_apart(const Waiting& waiting);
  Time background_start(const Waiting& waiting) const;
  void land(Time now);

  DeviceTiming timing_;
  bool with_contents_;
  std::array<Bank, kBanks> banks_{};
  Time channel_free_ = 0;
  Time last_answer_ = 0;
  Time background_done_ = 0;
  Time idle_since_ = 0;  // when the last queued write began
  std::vector<Waiting> queue_;
  std::deque<Time> begins_;  // of writes that have left the queue, perhaps ahead of time; ascending
  std::deque<Waiting> background_;
  std::deque<Flying> flying_;  // taken by a bank, not done yet
  std::uint64_t reads_ = 0, writes_ = 0;
  Contents contents_, durable_;
  std::uint64_t until_hook_ = 0;
  std::function<void(Time)> hook_;
};

}  // namespace perdure::memory
