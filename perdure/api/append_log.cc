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
  std::uint64_t check;  // seal of ring_offset ^ ring_words
  std::array<std::uint64_t, 5> padding;
  Word head;
  std::array<std::uint64_t, 7> more_padding;
};
static_assert(sizeof(LogRoot) == 2 * kLineBytes);
constexpr std::uint16_t kSaltLog = 0x4c4f;

/// Each record is one append: its byte length, sealed, then its bytes in whole words.
std::size_t payload_words(std::size_t bytes) { return 1 + (bytes + kWordBytes - 1) / kWordBytes; }

/// Reads the next record's payload after its length word; false at the end.
bool read_record(TornbitLog::Reader& reader, std::vector<Word>& payload, std::uint64_t& bytes,
                 bool& corrupt) {
  Word length = 0;
  payload.clear();
  if (!reader.next(length)) return false;
  const auto unsealed = unseal(length, kSaltRecord);
  corrupt = !unsealed;
  if (corrupt) return false;
  bytes = *unsealed;
  for (std::uint64_t words = payload_words(bytes) - 1; words > 0; --words) {
    Word word = 0;
    if (!reader.next(word)) return false;
    payload.push_back(word);
  }
  reader.end_of_append();
  return true;
}

[[noreturn]] void fail() {
  throw Exception(Code::kPoisoned,
                  "a write or sync to the storage failed; fix the device and reopen the pool");
}

}  // namespace

struct Log::State {
  State(Pool& pool, const TornbitLog& found) : engine(&core_of(pool).engine()), log(found) {}
  /// Finds where the records end and clears what a torn append left behind it.
  Result<void> recover();
  /// Throws unless this thread appended what is not flushed: a fence covers only its own thread.
  void refuse_others() const;

  Engine* engine;
  TornbitLog log;
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
    tx.store(root->check, seal((offset ^ words) & kMax48, kSaltLog));
    tx.store(root->head, seal(0, TornbitLog::kHeadSalt));
  });

  // From here on the head is written outside transactions. If the record that made it were still in
  // the engine's logs, recovery would set the head back, and records would be lost or come back.
  if (created || core_of(pool).holds_recovered_records()) engine.truncate();

  const LogRoot found = pool.read_only([&](Tx& tx) {
    LogRoot copy;
    tx.read(&copy, root, sizeof(copy));
    return copy;
  });
  const auto head = unseal(found.head, TornbitLog::kHeadSalt);
  const std::string where = region.path() + ": log '" + std::string(name) + "' ";
  if (!head || found.check != seal((found.ring_offset ^ found.ring_words) & kMax48, kSaltLog) ||
      found.ring_words == 0 || found.ring_words > region.grown_bytes() / kWordBytes ||
      !is_aligned(found.ring_offset, kWordBytes) ||
      !inside(found.ring_offset, found.ring_words * kWordBytes, region.superblock().heap_offset,
              region.grown_bytes()))
    return Error{Code::kCorrupt, where + "fails its check; restore the pool from a backup"};
  auto state = std::make_unique<State>(
      pool,
      TornbitLog({region.word(found.ring_offset), found.ring_words, &root->head}, *head, *head));
  if (auto recovered = state->recover(); !recovered)
    return Error{recovered.error().code, where + recovered.error().message};
  return Log(state.release());
} catch (const Exception& failure) {
  return failure.error();
}

std::uint64_t Log::root_type() { return type_id<LogRoot>(); }

Result<void> Log::State::recover() {
  TornbitLog::Reader reader = log.reader();
  std::uint64_t end = reader.position();
  std::uint64_t bytes = 0;
  bool corrupt = false;
  while (read_record(reader, payload, bytes, corrupt)) end = reader.position();
  if (corrupt) return Error{Code::kCorrupt, "has a damaged record at word " + std::to_string(end)};
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
  const std::size_t words = payload_words(bytes);
  if (TornbitLog::log_words(words) > log.free_words()) return false;
  std::vector<Word>& payload = state_->payload;
  payload.assign(words, 0);
  payload[0] = seal(bytes, kSaltRecord);
  if (bytes > 0) std::memcpy(payload.data() + 1, record, bytes);
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
  TornbitLog::Reader reader = state_->log.reader();
  std::vector<Word> payload;
  std::uint64_t bytes = 0;
  bool corrupt = false;
  while (reader.position() < state_->log.tail() && read_record(reader, payload, bytes, corrupt)) {
    visit(to, {reinterpret_cast<const std::byte*>(payload.data()), bytes});
  }
}

std::uint64_t Log::free_bytes() const { return state_->log.free_words() * kWordBytes; }

}  // namespace perdure
