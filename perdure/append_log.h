// SPDX-License-Identifier: BSD-3-Clause
// Log: an application's own append-only log in a pool, on the same torn-bit ring that transactions
// use. One fence per flush, no commit record. For journals, queues and event histories: data that
// is only ever added at one end and dropped at the other. Not for data that is updated in place;
// that is what transactions are for.
//
//   auto log = perdure::Log::open_or_create(pool, "events", 1 << 20).value();
//   log.append(text.data(), text.size());
//   log.flush();                                   // now it survives
//   log.for_each([](std::span<const std::byte> record) { … });
//   log.truncate();
//
// Source: Mnemosyne (ASPLOS 2011) §4.4 and Table 3 (log_create, log_append, log_flush,
//         log_truncate).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "perdure/pool.h"

namespace perdure {

/// The pool must outlive it.
class Log {
 public:
  Log(Log&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Log& operator=(Log&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Log();

  /// Opens the log `name`, or creates it with room for about `bytes` of records. Torn remains of an
  /// append that was never flushed are discarded; a record that was flushed and is damaged is not, unless
  /// it is the last one and reads as torn.
  /// Errors: kInvalid (size), kNoSpace, kTypeMismatch, kCorrupt (see salvage()), kPoisoned.
  static Result<Log> open_or_create(Pool& pool, std::string_view name, std::size_t bytes);

  /// Adds one record; all of it or nothing survives.
  /// Durable:  after flush().
  /// Errors:   false when the log is full; the log is unchanged. Throws Exception kMisuse while
  ///           another thread has not flushed what it appended.
  /// Threads:  one at a time, and the one that appends also flushes.
  /// Cost:     the record's bytes and 16 more, * 64/63; no fence.
  [[nodiscard]] bool append(const void* record, std::size_t bytes);
  /// Returns when every record appended so far is durable.
  /// Errors: throws Exception kPoisoned; kMisuse when another thread appended them.
  void flush();
  /// Drops every record. Durable: on return. Errors: throws Exception kPoisoned.
  void truncate();
  /// Calls `visit` for each record, oldest first. The span is valid during the call only.
  template <class Visit>
  void for_each(Visit&& visit) const {
    visit_each(
        [](void* to, std::span<const std::byte> record) {
          (*static_cast<std::remove_reference_t<Visit>*>(to))(record);
        },
        const_cast<void*>(static_cast<const void*>(&visit)));
  }
  /// Calls `visit` for each whole record of a log that may be damaged, also behind the damage (but for logs
  /// that releases before sums have made: up to it), and answers how many gaps there are. Nothing
  /// is changed: it reads pools that were opened by Pool::inspect(), too.
  /// Threads: any, while nobody appends.
  /// Errors: kNotFound, kTypeMismatch, kCorrupt (it is not known where the log is).
  template <class Visit>
  static Result<std::uint64_t> salvage(Pool& pool, std::string_view name, Visit&& visit) {
    return salvage_each(
        pool, name,
        [](void* to, std::span<const std::byte> record) {
          (*static_cast<std::remove_reference_t<Visit>*>(to))(record);
        },
        const_cast<void*>(static_cast<const void*>(&visit)));
  }
  /// The type number of a log's root object.
  static std::uint64_t root_type();
  /// How much of the log is free. A record takes a little more than its own bytes (see append()).
  std::uint64_t free_bytes() const;

 private:
  struct State;
  explicit Log(State* state) : state_(state) {}
  static Result<std::uint64_t> salvage_each(Pool& pool, std::string_view name,
                                            void (*visit)(void* to,
                                                          std::span<const std::byte> record),
                                            void* to);
  void visit_each(void (*visit)(void* to, std::span<const std::byte> record), void* to) const;

  State* state_;
};

}  // namespace perdure
