// Redo: durable memory transactions by write-ahead redo logging.
// Paper:      Mnemosyne (ASPLOS 2011) §5, with synchronous truncation.
// Deviations: (1) "Truncates the entire log" at each commit is done by *retention*: the home words
//             of a commit are forced by the thread's next commit, under the fence that its record
//             needs anyway, and the log is emptied only when it is full, by one persisted stamp for
//             all threads' logs. It saves the paper's two fences for home words and truncation.
//             (Flushing at the end of the commit itself would be no cheaper to wait for: the next
//             locked instruction, a lock or a stamp, waits for flushes under way like a fence.) (2)
//             An aborted transaction writes nothing to the log: records are appended at commit. (3)
//             On files (`kBulk`) home words are written when the log is emptied: forcing random
//             pages at each commit would cost a second device write.
//
// The commit of a transaction that wrote anything:
//   1. make room       a full log is emptied first, while no stamp is held
//   2. draw a stamp    from here on a truncation waits for this commit
//   3. validate        reads still hold, or Conflict
//   4. append, fence   cut before the fence ⇒ the record is torn, nothing happened
//                      cut after it ⇒ recovery replays it: the durability point, the only wait
//   5. store home      their write-back is left to the next commit (kForced) or to the truncation
//   6. release locks   others see it only now, so nobody acts on what a cut could take back
#pragma once

#include <mutex>
#include <thread>

#include "perdure/base/word_buffer.h"
#include "perdure/engine/engine.h"

namespace perdure {

enum class HomePolicy : std::uint8_t { kForced, kBulk };

template <Domain D, HomePolicy kPolicy>
class Redo final : public Engine {
 public:
  Redo(const EngineParts& parts, D domain) : parts_(parts), domain_(std::move(domain)) {}

  Result<RecoveryReport> recover() override { return parts_.logs->recover(domain_); }

  void commit(Tx& tx, std::size_t slot_index) override {
    refuse_if_poisoned();
    LogSlot& slot = parts_.logs->slot(slot_index);
    std::span<Word> record = encode(tx.writes());
    Spill spill(*this);
    spill.write_if_large(tx, record);

    make_room(slot_index, TornbitLog::log_words(record.size()));  // 1
    const std::uint64_t stamp = enter(slot);                      // 2
    if (stamp != tx.snapshot() + 1 && !tx.validate()) {           // 3
      leave(slot);
      throw Conflict{};
    }
    if (!append(slot, stamp, record)) {  // 4
      leave(slot);
      fail();
    }
    store_home(slot, tx.writes());  // 5
    tx.finish_commit(stamp);        // 6
    leave(slot);
    if (spill.used())
      truncate();  // the ring names the spilled entries: both go before their space is reused
  }

  void publish(std::span<const MaskedWrite> writes, std::size_t slot_index) override {
    refuse_if_poisoned();
    LogSlot& slot = parts_.logs->slot(slot_index);
    std::vector<Word> record(1,
                             0);  // its own: this may run while a commit's record is being spilled
    record::encode_entries(writes, record);
    make_room(slot_index, TornbitLog::log_words(record.size()));
    const std::uint64_t stamp = enter(slot);
    const bool durable = append(slot, stamp, record);
    if (durable) store_home(slot, writes);
    leave(slot);
    if (!durable) fail();
  }

  void truncate() override {
    const std::lock_guard lock(truncation_);
    refuse_if_poisoned();
    empty_logs();
  }

  Result<void> grow(std::uint64_t segments, Word fresh) override {
    return parts_.region->grow(domain_, segments, fresh);
  }

  bool poisoned() const override { return poisoned_.load(std::memory_order_acquire); }

  void store(Word* home, Word value) override { domain_.store(home, value); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) override {
    domain_.write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) override {
    domain_.flush(address, bytes, site);
  }
  bool fence(Site site) override {
    if (domain_.fence(site)) return true;
    poisoned_.store(true, std::memory_order_release);
    return false;
  }

 private:
  /// The record of `writes`, in memory of this thread; append() fills in its first word.
  static std::span<Word> encode(std::span<const MaskedWrite> writes) {
    thread_local WordBuffer buffer;
    Word* const begin = buffer.room(1 + record::most_words(writes.size()));
    return {begin, record::encode_entries(writes, begin + 1)};
  }

  /// A record larger than half a ring goes to space reserved in the heap; the ring then only names
  /// it.
  ///   1. reserve space; empty the logs    no older record may, at replay, write into that space
  ///   2. write the entries there; fence   cut here ⇒ nobody names them; never allocated
  ///   3. the ring record names them       from here on as any other record
  ///   4. empty the logs again             then the space may be reused
  class Spill {
   public:
    explicit Spill(Redo& engine) : engine_(&engine) {}
    ~Spill() {
      if (used()) engine_->parts_.heap->cancel(space_);
    }
    Spill(const Spill&) = delete;
    Spill& operator=(const Spill&) = delete;
    bool used() const { return space_ != 0; }

    void write_if_large(Tx& tx, std::span<Word>& record) {
      Redo& engine = *engine_;
      const std::size_t limit = engine.parts_.region->geometry().ring_bytes / kWordBytes / 2;
      if (TornbitLog::log_words(record.size()) <= limit) return;
      const std::span<const Word> entries(record.data() + 1, record.size() - 1);
      space_ = engine.parts_.heap->reserve(tx.heap_cache(), entries.size_bytes());
      tx.outdate(space_, entries.size_bytes());
      engine.truncate();
      Word* to = engine.parts_.region->word(space_);
      engine.domain_.write_through(to, entries.data(), entries.size(), Site::kSpillBody);
      // Orders: the entries before the record that names them.
      if (!engine.domain_.fence(Site::kSpillFence)) engine.fail();
      const Word crc = crc32c(entries.data(), entries.size_bytes());
      const Word count = entries.size();
      record[1] = record::entry_head(space_, 1, record::Kind::kSpill) | record::kLast;
      record[2] = count;
      record[3] = crc;
      record = record.first(4);
    }

   private:
    Redo* engine_;
    Offset space_ = 0;
  };

  /// Draws a stamp, past any truncation. The slot announces itself first: see CommitClock.
  std::uint64_t enter(LogSlot& slot) {
    for (;;) {
      // Release, sequenced before the draw: a truncation that sees the draw sees the announcement.
      slot.committing.store(true, std::memory_order_release);
      const CommitClock::Draw draw = parts_.clock->draw();
      if (!draw.gate_closed) return draw.stamp;
      leave(slot);
      while (parts_.clock->gate_closed()) std::this_thread::yield();
    }
  }
  // Release: a truncation that sees the commit gone also sees its log tail and home stores.
  static void leave(LogSlot& slot) { slot.committing.store(false, std::memory_order_release); }

  [[nodiscard]] bool append(LogSlot& slot, std::uint64_t stamp, std::span<Word> record) {
    record[0] = record::header(stamp, {record.data() + 1, record.size() - 1});
    const std::uint64_t start = slot.log.tail();
    slot.log.append(domain_, record);
    for (const Offset line : slot.unflushed_lines) {
      domain_.flush(parts_.region->at<std::byte>(line), kLineBytes, Site::kHome);
    }
    // Orders: all log words before the home stores below. Without it a cut may keep a home store
    // whose record is torn, and recovery could not take it back. The same wait makes the home words
    // of the last commit durable.
    if (!slot.log.make_durable(domain_)) return false;
    if constexpr (kPolicy == HomePolicy::kForced) slot.unfenced_from = start;
    slot.unflushed_lines.clear();
    return true;
  }

  void store_home(LogSlot& slot, std::span<const MaskedWrite> writes) {
    for (const MaskedWrite& write : writes) {
      parts_.logs->apply(domain_, write);
      if constexpr (kPolicy == HomePolicy::kForced) {
        const Offset line = round_down(write.offset, kLineBytes);
        if (slot.unflushed_lines.empty() || slot.unflushed_lines.back() != line)
          slot.unflushed_lines.push_back(line);
      }
    }
  }

  void make_room(std::size_t slot_index, std::uint64_t words) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    if (slot.ready && slot.log.free_words() >= words) return;
    const std::lock_guard lock(truncation_);
    refuse_if_poisoned();
    if (!slot.ready) {  // not when the thread arrives: one that only reads needs no log
      const Ring& ring = slot.log.ring();
      const auto at =
          static_cast<Offset>(reinterpret_cast<std::byte*>(ring.words) - parts_.region->base());
      parts_.region->backing().allocate(at, ring.count * kWordBytes).value();
      if (!parts_.logs->prepare(domain_, slot_index)) fail();
      slot.ready = true;
    }
    if (slot.log.free_words() < words) empty_logs();
  }

  /// Requires: truncation_ held, this thread not committing.
  void empty_logs() {
    parts_.clock->close_gate();
    for (std::size_t i = 0; i < parts_.logs->slot_count(); ++i) {
      while (parts_.logs->slot(i).committing.load(std::memory_order_acquire))
        std::this_thread::yield();
    }
    const Site site = kPolicy == HomePolicy::kForced ? Site::kHome : Site::kHomeBulk;
    const bool durable = parts_.logs->truncate(domain_, parts_.clock->now(), site);
    parts_.clock->open_gate();
    if (!durable) fail();
  }

  void refuse_if_poisoned() {
    if (poisoned()) fail();
  }
  [[noreturn]] void fail() {
    poisoned_.store(true, std::memory_order_release);
    throw Exception(
        Code::kPoisoned,
        parts_.region->path() +
            ": a write or sync to the storage failed, so nothing more is accepted; what "
            "was acknowledged is safe, fix the device and reopen the pool");
  }

  EngineParts parts_;
  [[no_unique_address]] D domain_;
  std::mutex truncation_;
  std::atomic<bool> poisoned_{false};
};

/// The yardsticks: no log. With `kFlush` home words are flushed and fenced once, at the end (a cut
/// in between leaves half a transaction); without it nothing is made durable at all.
template <Domain D, bool kFlush>
class Unlogged final : public Engine {
 public:
  Unlogged(const EngineParts& parts, D domain) : parts_(parts), domain_(std::move(domain)) {}
  Result<RecoveryReport> recover() override { return parts_.logs->recover(domain_); }
  void commit(Tx& tx, std::size_t) override {
    const std::uint64_t stamp = parts_.clock->draw().stamp;
    if (stamp != tx.snapshot() + 1 && !tx.validate()) throw Conflict{};
    publish(tx.writes(), 0);
    tx.finish_commit(stamp);
  }
  void publish(std::span<const MaskedWrite> writes, std::size_t) override {
    for (const MaskedWrite& write : writes) {
      parts_.logs->apply(domain_, write);
      if (kFlush) domain_.flush(parts_.region->word(write.offset), kWordBytes, Site::kHome);
    }
    if (kFlush) (void)domain_.fence(Site::kLogCommit);  // a yardstick: it promises nothing
  }
  void truncate() override {}
  Result<void> grow(std::uint64_t segments, Word fresh) override {
    return parts_.region->grow(domain_, segments, fresh);
  }
  bool poisoned() const override { return false; }
  void store(Word* home, Word value) override { domain_.store(home, value); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) override {
    domain_.write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) override {
    domain_.flush(address, bytes, site);
  }
  bool fence(Site site) override { return domain_.fence(site); }

 private:
  EngineParts parts_;
  [[no_unique_address]] D domain_;
};

/// Stamps the engine of `kind` for one domain.
template <Domain D>
std::unique_ptr<Engine> make_engine(EngineKind kind, const EngineParts& parts, D domain) {
  switch (kind) {
    case EngineKind::kMnemosyne:
      if (parts.region->domain() == DomainKind::kSync)
        return std::make_unique<Redo<D, HomePolicy::kBulk>>(parts, std::move(domain));
      return std::make_unique<Redo<D, HomePolicy::kForced>>(parts, std::move(domain));
    case EngineKind::kNonatomic:
      return std::make_unique<Unlogged<D, true>>(parts, std::move(domain));
    case EngineKind::kVolatile:
      return std::make_unique<Unlogged<D, false>>(parts, std::move(domain));
  }
  return nullptr;
}

}  // namespace perdure
