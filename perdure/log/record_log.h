// SPDX-License-Identifier: BSD-3-Clause
// RecordLog: the log of redo records (record.h) of one slot, in whichever layout its ring has.
// Threads: as RingLog.
#pragma once

#include <variant>

#include "perdure/log/line_log.h"
#include "perdure/log/record.h"
#include "perdure/log/tornbit_log.h"

namespace perdure {

class RecordLog {
 public:
  explicit RecordLog(const TornbitLog& log) : log_(log) {}
  explicit RecordLog(const LineLog& log) : log_(log) {}

  RingLog& operator*() {
    return std::visit([](auto& log) -> RingLog& { return log; }, log_);
  }
  const RingLog& operator*() const {
    return std::visit([](const auto& log) -> const RingLog& { return log; }, log_);
  }
  RingLog* operator->() { return &**this; }
  const RingLog* operator->() const { return &**this; }
  /// Null in the other layout.
  LineLog* lines() { return std::get_if<LineLog>(&log_); }
  TornbitLog* tornbit() { return std::get_if<TornbitLog>(&log_); }

  /// Log words that a record of `payload` words takes.
  std::uint64_t log_words(std::uint64_t payload) const {
    return std::visit([&](const auto& log) { return log.log_words(payload); }, log_);
  }
  /// Appends a whole record, whose checksum is `crc`. False: the storage failed. The rest is as in
  /// the log of the layout.
  template <Domain D>
  [[nodiscard]] bool append(D& domain, std::span<const Word> record, std::uint32_t crc) {
    if (LineLog* const log = lines()) return log->append(domain, record, crc);
    tornbit()->append(domain, record);
    return true;
  }
  // As in the log of the layout, too:
  template <Domain D>
  void erase_from(D& domain, std::uint64_t from) {
    std::visit([&](auto& log) { log.erase_from(domain, from); }, log_);
  }
  template <Domain D>
  void erase(D& domain, std::uint64_t from, std::uint64_t end) {
    std::visit([&](auto& log) { log.erase(domain, from, end); }, log_);
  }
  bool has_remains(std::uint64_t from) const {
    return std::visit([&](const auto& log) { return log.has_remains(from); }, log_);
  }

  /// Reads records from `position` on, up to `limit`.
  class Reader {
   public:
    /// As record::read().
    record::Found read(std::uint64_t& timestamp, std::vector<Word>& entries) {
      return std::visit([&](auto& words) { return record::read(words, timestamp, entries); },
                        words_);
    }
    /// Where the next record would begin.
    std::uint64_t position() const {
      return std::visit([](const auto& words) { return words.position(); }, words_);
    }

   private:
    friend RecordLog;
    explicit Reader(std::variant<TornbitLog::Reader, LineLog::Reader> words) : words_(words) {}
    std::variant<TornbitLog::Reader, LineLog::Reader> words_;
  };
  Reader reader(std::uint64_t position, std::uint64_t limit) const {
    return std::visit(
        [&](const auto& log) {
          return Reader(typename std::decay_t<decltype(log)>::Reader(log.ring(), position, limit));
        },
        log_);
  }
  /// The same for all that the log may hold.
  Reader reader() const {
    const RingLog& log = **this;
    return reader(log.head(), log.head() + log.ring().count);
  }

 private:
  std::variant<TornbitLog, LineLog> log_;
};

}  // namespace perdure
