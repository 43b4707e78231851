// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/append_log.h"

#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "perdure/api/pool_core.h"
#include "perdure/base/crc32c.h"
#include "perdure/log/tornbit_log.h"

namespace perdure {
namespace {

constexpr std::uint16_t kSaltRecord = 0x4c52;

/// The root object. The head has a line of its own, because truncate() writes it; the rest is never
/// written again.
struct LogRoot {
  std::uint64_t ring_offset;
  std::uint64_t ring_words;
  std::uint64_t check;  // seal of ring_offset ^ ring_words; its salt tells the layout of records
  std::array<std::uint64_t, 5> padding;
  Word head;
  std::array<std::uint64_t, 7> more_padding;
};
static_assert(sizeof(LogRoot) == 2 * kLineBytes);
constexpr std::uint16_t kSaltLog = 0x4c4f;        // of logs made by earlier releases
constexpr std::uint16_t kSaltSummedLog = 0x4c53;  // records have sums

/// Of a log that earlier releases have made.
constexpr std::size_t kOldHeadWords = 1;
/// Sums came later: the second word of a record's head.
constexpr std::size_t kHeadWords = 2;
/// In a sealed length: all that stood in the log was durable when this record was appended. So a hole
/// before it is damage, and no torn append.
constexpr std::uint64_t kAllBeforeIsDurable = std::uint64_t{1} << 47;

/// Each record is one append: its byte length, sealed; a sum; its bytes in whole words.
std::size_t payload_words(std::size_t head_words, std::size_t bytes) {
  return head_words + (bytes + kWordBytes - 1) / kWordBytes;
}
/// Of a record at `position` in the log; `payload[1]` does not count.
Word sum_of(std::uint64_t position, std::span<const Word> payload) {
  const std::uint32_t head =
      crc32c(payload.data(), kWordBytes, crc32c(&position, sizeof(position)));
  const std::span<const Word> bytes = payload.subspan(kHeadWords);
  return crc32c(bytes.data(), bytes.size_bytes(), head);
}

/// Reads the records of a log, as long as they are whole.
class RecordReader {
 public:
  RecordReader(const TornbitLog::Reader& from, bool summed)
      : reader_(from),
        position_(from.position()),
        head_words_(summed ? kHeadWords : kOldHeadWords) {}

  enum class Found : std::uint8_t { kRecord, kEnd, kDamage };
  Found read() {
    position_ = reader_.position();
    payload_.clear();
    Word length = 0;
    if (!reader_.next(length)) return Found::kEnd;
    const auto unsealed = unseal(length, kSaltRecord);
    if (!unsealed) return Found::kDamage;
    bytes_ = *unsealed;
    after_flush_ = false;
    payload_.push_back(length);
    if (head_words_ == kHeadWords) {
      after_flush_ = (bytes_ & kAllBeforeIsDurable) != 0;
      bytes_ &= ~kAllBeforeIsDurable;
    }
    for (std::uint64_t words = payload_words(head_words_, bytes_) - 1; words > 0; --words) {
      Word word = 0;
      if (!reader_.next(word)) return Found::kEnd;
      payload_.push_back(word);
    }
    if (head_words_ == kHeadWords && payload_[1] != sum_of(position_, payload_))
      return Found::kDamage;
    reader_.end_of_append();
    return Found::kRecord;
  }
  /// Where the record read last began, or what was none.
  std::uint64_t position() const { return position_; }
  /// Where the next one begins.
  std::uint64_t end() const { return reader_.position(); }
  bool after_flush() const { return after_flush_; }
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(payload_.data() + head_words_), bytes_};
  }

 private:
  TornbitLog::Reader reader_;
  std::uint64_t position_;
  std::size_t head_words_;
  std::vector<Word> payload_;
  std::uint64_t bytes_ = 0;
  bool after_flush_ = false;
};

[[noreturn]] void fail() {
  throw Exception(Code::kPoisoned,
                  "a write or sync to the storage failed; fix the device and reopen the pool");
}

/// What the root says; `summed`: whether records have sums. Errors: kCorrupt.
Result<TornbitLog> find_log(Pool& pool, std::string_view name, bool& summed) {
  auto* root = pool.root<LogRoot>(name);
  const Region& region = core_of(pool).region();
  const LogRoot found = pool.read_only([&](Tx& tx) {
    LogRoot copy;
    tx.read(&copy, root, sizeof(copy));
    return copy;
  });
  const auto head = unseal(found.head, TornbitLog::kHeadSalt);
  const std::uint64_t place = (found.ring_offset ^ found.ring_words) & kMax48;
  summed = found.check == seal(place, kSaltSummedLog);
  if (!head || (!summed && found.check != seal(place, kSaltLog)) || found.ring_words == 0 ||
      found.ring_words > region.grown_bytes() / kWordBytes ||
      !is_aligned(found.ring_offset, kWordBytes) ||
      !inside(found.ring_offset, found.ring_words * kWordBytes, region.superblock().heap_offset,
              region.grown_bytes()))
    return Error{Code::kCorrupt, region.path() + ": log '" + std::string(name) +
                                     "' fails its check; restore the pool from a backup"};
  return TornbitLog({region.word(found.ring_offset), found.ring_words, &root->head}, *head, *head);
}

/// Where the first whole record behind word `from` begins that has a sum, and that was appended after
/// a flush if that is asked for; `from`: there is none.
std::uint64_t next_record(const TornbitLog& log, bool summed, std::uint64_t from,
                          bool after_flush) {
  if (!summed) return from;
  const std::uint64_t end = log.end_of_remains(from);
  for (std::uint64_t at = from + 1; at < end; ++at) {
    RecordReader reader(log.reader_from(at), summed);
    if (reader.read() == RecordReader::Found::kRecord && (!after_flush || reader.after_flush()))
      return at;
  }
  return from;
}

}  // namespace

struct Log::State {
  State(Pool& pool, const TornbitLog& found, bool has_sums)
      : engine(&core_of(pool).engine()), log(found), summed(has_sums) {}
  /// Finds where the records end and clears what a torn append left behind it.
  Result<void> recover();
  /// Throws unless this thread appended what is not flushed: a fence covers only its own thread.
  void refuse_others() const;

  Engine* engine;
  TornbitLog log;
  bool summed;
  std::vector<Word> payload;   // reused
  std::thread::id appender{};  // the thread whose records are not flushed yet
};

Log::~Log() { delete state_; }

Result<Log> Log::open_or_create(Pool& pool, std::string_view name, std::size_t bytes) try {
  if (bytes < kPageBytes)
    return Error{Code::kInvalid, "log '" + std::string(name) + "': must have at least 4096 bytes"};
  if (bytes > core_of(pool).region().geometry().capacity_bytes)
    return Error{Code::kInvalid,
                 "log '" + std::string(name) + "': larger than the pool's capacity"};
  auto* root = pool.root<LogRoot>(name);
  Engine& engine = core_of(pool).engine();
  Region& region = core_of(pool).region();
  const std::uint64_t words = bytes / kWordBytes;
  bool created = false;
  pool.atomically([&](Tx& tx) {
    created = tx.load(root->ring_offset) == 0;
    if (!created) return;
    // The ring is written outside the transaction, so nothing that recovery replays may still write
    // there: allocate, empty the logs, zero, and only then let the transaction publish it. A crash
    // before that leaves free space.
    auto* ring = static_cast<Word*>(tx.allocate(words * kWordBytes));
    tx.outdate(tx.link_to(ring).offset, words * kWordBytes);
    engine.truncate();
    const std::vector<Word> zeroes(words);
    engine.write_through(ring, zeroes.data(), words, Site::kUserFlush);
    // Orders: the zeroed ring before the root that names it. Without it old bytes could read as
    //         records.
    if (!engine.fence(Site::kUserFence))
      throw Exception(Code::kPoisoned, "a sync failed while a log was created");
    const std::uint64_t offset = tx.link_to(ring).offset;
    tx.store(root->ring_offset, offset);
    tx.store(root->ring_words, words);
    tx.store(root->check, seal((offset ^ words) & kMax48, kSaltSummedLog));
    tx.store(root->head, seal(0, TornbitLog::kHeadSalt));
  });

  // From here on the head is written outside transactions. If the record that made it were still in
  // the engine's logs, recovery would set the head back, and records would be lost or come back.
  if (created || core_of(pool).holds_recovered_records()) engine.truncate();

  bool summed = false;
  auto log = find_log(pool, name, summed);
  if (!log) return log.error();
  auto state = std::make_unique<State>(pool, log.value(), summed);
  if (auto recovered = state->recover(); !recovered)
    return Error{recovered.error().code,
                 region.path() + ": log '" + std::string(name) + "' " + recovered.error().message};
  return Log(state.release());
} catch (const Exception& failure) {
  return failure.error();
}

std::uint64_t Log::root_type() { return type_id<LogRoot>(); }

Result<void> Log::State::recover() {
  RecordReader reader(log.reader(), summed);
  RecordReader::Found found = RecordReader::Found::kRecord;
  std::uint64_t end = reader.end();
  while ((found = reader.read()) == RecordReader::Found::kRecord) end = reader.end();
  std::string wrong;
  if (found == RecordReader::Found::kDamage) {
    wrong = "has a damaged record at word " + std::to_string(end);
  } else if (const std::uint64_t later = next_record(log, summed, end, true); later != end) {
    wrong = "has a hole at word " + std::to_string(end) + ", before a record at word " +
            std::to_string(later) + " that was appended when all before it was durable";
  }
  if (!wrong.empty())
    return Error{Code::kCorrupt, wrong + "; Log::salvage() shows what can be read"};
  AnyDomain domain(*engine);
  log.adopt(domain);
  if (log.has_remains(end)) {
    log.erase_from(domain, end);
  } else {
    log.continue_at(end);
  }
  // Orders: the records and the cleared remains behind them before the next append, which is built
  //         on both.
  if (!engine->fence(Site::kEraseFence))
    return Error{Code::kPoisoned, "could not be synced; reopen the pool"};
  return {};
}

void Log::State::refuse_others() const {
  if (appender == std::thread::id() || appender == std::this_thread::get_id()) return;
  throw Exception(
      Code::kMisuse,
      "another thread has appended to this log and not flushed; flush() in that thread");
}

bool Log::append(const void* record, std::size_t bytes) {
  state_->refuse_others();
  TornbitLog& log = state_->log;
  if (bytes > log.capacity_words() * kWordBytes)
    return false;  // larger than any log, and its word count could overflow
  const std::size_t head_words = state_->summed ? kHeadWords : kOldHeadWords;
  const std::size_t words = payload_words(head_words, bytes);
  if (TornbitLog::log_words(words) > log.free_words()) return false;
  std::vector<Word>& payload = state_->payload;
  payload.assign(words, 0);
  const bool flushed = state_->summed && state_->appender == std::thread::id();
  payload[0] = seal(bytes | (flushed ? kAllBeforeIsDurable : 0), kSaltRecord);
  if (bytes > 0) std::memcpy(payload.data() + head_words, record, bytes);
  if (state_->summed) payload[1] = sum_of(log.tail(), payload);
  AnyDomain domain(*state_->engine);
  log.append(domain, payload);
  state_->appender = std::this_thread::get_id();
  return true;
}

void Log::flush() {
  state_->refuse_others();
  AnyDomain domain(*state_->engine);
  if (!state_->log.make_durable(domain)) fail();
  state_->appender = {};
}

void Log::truncate() {
  state_->appender = {};
  AnyDomain domain(*state_->engine);
  state_->log.truncate();
  state_->log.persist_head(domain);
  // Orders: the head before the next lap overwrites the words behind it.
  if (!state_->engine->fence(Site::kHeadFence)) fail();
}

void Log::visit_each(void (*visit)(void* to, std::span<const std::byte> record), void* to) const {
  RecordReader reader(state_->log.reader(), state_->summed);
  while (reader.end() < state_->log.tail() && reader.read() == RecordReader::Found::kRecord)
    visit(to, reader.bytes());
}

Result<std::uint64_t> Log::salvage_each(Pool& pool, std::string_view name,
                                        void (*visit)(void* to, std::span<const std::byte> record),
                                        void* to) try {
  if (pool.read_only([&](Tx& tx) {
        return !core_of(pool).find_root(tx, name, root_type(), sizeof(LogRoot), false);
      }))
    return Error{Code::kNotFound, pool.path() + ": no log '" + std::string(name) + "'"};
  bool summed = false;
  auto found = find_log(pool, name, summed);
  if (!found) return found.error();
  const TornbitLog& log = found.value();
  std::uint64_t gaps = 0;
  for (std::uint64_t at = log.head();;) {
    RecordReader reader(log.reader_from(at), summed);
    while (reader.read() == RecordReader::Found::kRecord) visit(to, reader.bytes());
    at = next_record(log, summed, reader.position(), false);
    if (at == reader.position()) return gaps;
    ++gaps;
  }
} catch (const Exception& failure) {
  return failure.error();
}

std::uint64_t Log::free_bytes() const { return state_->log.free_words() * kWordBytes; }

}  // namespace perdure
