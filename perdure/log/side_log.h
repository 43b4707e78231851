// SPDX-License-Identifier: BSD-3-Clause
// SideLog: a second log behind the torn-bit log of each ring, for an engine whose transactions
// write to a log before they commit. The library itself has none; papers/blurred has one. LogArea
// recovers and truncates both together.
//
// The salt of a ring's head tells which layout it has. A library that does not know the layout
// refuses the pool and says what to do; it never takes such a ring for its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "perdure/base/offset_set.h"
#include "perdure/base/words.h"
#include "perdure/domain/primitives.h"
#include "perdure/log/ring.h"

namespace perdure {

/// One slot's. Threads: the slot's owner; and one more that truncates: holds_closed(),
/// begin_truncation(), end_truncation().
class SideLog {
 public:
  virtual ~SideLog() = default;

  /// A transaction that recovery found: its commit timestamp, where it ends, and what it wrote.
  using Visit = std::function<std::optional<std::string>(
      std::uint64_t timestamp, std::uint64_t place, std::span<const MaskedWrite> writes)>;

  /// Writes the ring as one that was never written. Durable: after the caller's fence
  /// (Site::kEraseFence).
  virtual void prepare(AnyDomain& domain) = 0;
  /// Reads what the ring holds; calls `visit` for each whole transaction above `retired`; a message
  /// that `visit` returns ends it. Returns what is damaged, if anything is. Nothing is written.
  virtual std::optional<std::string> collect(std::uint64_t retired, const Visit& visit) = 0;
  /// After collect(): whether the ring holds anything that settle() has to see to.
  virtual bool needs_settling() const = 0;
  /// Starts the write-back of all that collect() believed.
  virtual void adopt(AnyDomain& domain) = 0;
  /// Makes the ring ready for the first append, once all that it holds is truncated.
  /// Durable: after the caller's fence (Site::kEraseFence).
  virtual void settle(AnyDomain& domain) = 0;
  /// Called after settle() and that fence: everything is truncated, and its room is free.
  virtual void empty() = 0;

  /// Whether it holds transactions that are closed and not truncated.
  virtual bool holds_closed() const = 0;
  /// Adds the lines of closed transactions up to `last_timestamp` to `lines`: of all, or only of
  /// those whose home words may not be durable yet. Starts the write-back that the ring itself
  /// needs. False: there is nothing to truncate.
  virtual bool begin_truncation(AnyDomain& domain, std::uint64_t last_timestamp, bool all,
                                OffsetSet& lines) = 0;
  /// Called when those timestamps are retired, durably: gives the room back.
  virtual void end_truncation() = 0;
};

/// How rings with a side log are laid out.
struct SideLogFormat {
  std::uint16_t head_salt;
  /// How many words of a ring the torn-bit log before it takes.
  std::uint64_t (*tornbit_words)(std::uint64_t ring_words);
  std::unique_ptr<SideLog> (*make)(const Ring& ring);
};

}  // namespace perdure
