// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <utility>

#include "perdure/api/pool_core.h"
#include "perdure/append_log.h"
#include "perdure/log/commit_log.h"
#include "perdure/log/line_log.h"
#include "perdure/log/tornbit_log.h"
#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

// ---- a bare ring --------------------------------------------------------------------------------

// Everything on a page of its own, and the ring across two, so that of a file any part may come
// without the others.
constexpr Offset kHeadAt = 0;
constexpr Offset kConsumedAt = kPageBytes;  // the last step whose record was dropped from the log
constexpr Offset kRingAt = 3 * kPageBytes - kSectorBytes;
constexpr std::uint64_t kRingWords = 256;
constexpr std::uint64_t kBytes = 4 * kPageBytes;

constexpr std::uint64_t kFirstPageWords = kSectorBytes / kWordBytes;  // of the ring

/// A record: its step and its length in words, then words that tell both. Those are chosen so that
/// a reader who starts in the middle of one, by mistake, finds lengths that are small enough to be
/// believed.
std::vector<Word> record_of(std::uint64_t step, std::uint64_t words) {
  std::vector<Word> record = {step << 8 | words};
  for (Word i = 1; i < words; ++i) record.push_back(step << 40 | i << 24 | 0x101010);
  return record;
}
std::uint64_t step_of(Word first) { return first >> 8; }
std::uint64_t length_of(Word first) { return std::max<std::uint64_t>(first & 0xff, 1); }

/// Recovery keeps what it read. The torn-bit log and the line log clear what a torn append left
/// behind it (and say whether there was anything), the commit-record log needs not.
template <class Log, class D>
bool settle_log(Log& log, D& domain, std::uint64_t end) {
  log.adopt(domain);
  const bool torn = log.has_remains(end);
  if (torn) {
    log.erase_from(domain, end);
  } else {
    log.continue_at(end);
  }
  return torn;
}

template <class D>
bool settle_log(CommitLog& log, D& domain, std::uint64_t end) {
  const Ring& ring = log.ring();
  domain.flush(ring.words, ring.count * kWordBytes, Site::kAdopt);
  domain.flush(ring.head_word, kWordBytes, Site::kAdopt);
  log = CommitLog(ring, log.head(), end);
  return false;
}

/// A log in a small ring, its head, and a word that says what was dropped: the smallest user of a
/// log.
template <class Log>
class BareLog final : public Session {
 public:
  explicit BareLog(Lab& lab)
      : domain_(lab.domain()),
        consumed_(at(lab, kConsumedAt)),
        ring_{at(lab, kRingAt), kRingWords, at(lab, kHeadAt)},
        log_(open(ring_)) {
    recover();
  }

  /// Records of 1 to 4 words, or of more than a sector. After a torn one, the next ends where the
  /// ring's first page does: if the second still held a part of the torn one, it would be read
  /// next.
  void step(std::uint64_t step) override {
    std::uint64_t words = step % 5 == 4 ? 70 : 1 + step % 5;
    const std::uint64_t place = log_.tail() % kRingWords;
    if (std::exchange(torn_, false) && place < kFirstPageWords) {
      words = 1;
      while (Log::log_words(words) < kFirstPageWords - place) ++words;
    }
    if (Log::log_words(words) > log_.free_words()) empty(step - 1);
    (void)append_to(log_, record_of(step, words));
    (void)log_.make_durable(domain_);
  }

  std::optional<std::string> check(std::uint64_t step) override {
    std::uint64_t last = load_word(consumed_);
    auto reader = log_.reader();
    Word first = 0;
    while (reader.position() < log_.tail() && reader.next(first)) {
      const std::uint64_t found = step_of(first);
      const std::vector<Word> expected = record_of(found, length_of(first));
      for (std::size_t i = 1; i < expected.size(); ++i) {
        Word word = 0;
        if (!reader.next(word) || word != expected[i])
          return "the record of step " + std::to_string(found) + " is wrong in word " +
                 std::to_string(i);
      }
      reader.end_of_append();
      if (found > load_word(consumed_) && found != last + 1)
        return "step " + std::to_string(found) + " follows step " + std::to_string(last);
      last = std::max(last, found);
    }
    if (last == step) return std::nullopt;
    return "the last record is of step " + std::to_string(last);
  }

 private:
  bool append_to(LineLog& log, const std::vector<Word>& record) {
    return log.append(domain_, record);
  }
  template <class Other>
  bool append_to(Other& log, const std::vector<Word>& record) {
    log.append(domain_, record);
    return true;
  }
  static Word* at(Lab& lab, Offset offset) { return reinterpret_cast<Word*>(lab.base() + offset); }
  static Log open(const Ring& ring) {
    const auto head = unseal(load_word(ring.head_word), Log::kHeadSalt);
    if (!head) throw Exception(Code::kCorrupt, "the head fails its check");
    return Log(ring, *head, *head);
  }

  void recover() {
    auto reader = log_.reader();
    std::uint64_t end = reader.position();
    Word word = 0;
    while (reader.next(word)) {
      bool whole = true;
      for (std::uint64_t left = length_of(word) - 1; whole && left > 0; --left)
        whole = reader.next(word);
      if (!whole) break;
      reader.end_of_append();
      end = reader.position();
    }
    domain_.flush(consumed_, kWordBytes, Site::kAdopt);
    torn_ = settle_log(log_, domain_, end);
    // Orders: what was found, and the cleared rest, before what is appended next.
    (void)domain_.fence(Site::kEraseFence);
  }

  /// Drops all records; `last` is the step of the newest.
  void empty(std::uint64_t last) {
    domain_.store(consumed_, last);
    domain_.flush(consumed_, kWordBytes, Site::kUserFlush);
    // Orders: what was dropped before the head that drops it.
    (void)domain_.fence(Site::kUserFence);
    log_.truncate();
    log_.persist_head(domain_);
    // Orders: the head before the next lap's words.
    (void)domain_.fence(Site::kHeadFence);
  }

  Lab::LabDomain domain_;
  Word* consumed_;
  Ring ring_;
  Log log_;
  bool torn_ = false;
};

template <class Log>
Subject bare_log(std::string name, std::string claim) {
  Subject subject{};
  subject.name = std::move(name);
  subject.claim = std::move(claim);
  subject.bytes = kBytes;
  subject.steps = 40;
  subject.resume_steps = 16;
  subject.memory = true;
  subject.file = !std::is_same_v<Log, LineLog>;
  subject.format = [](std::byte* base) {
    store_word(reinterpret_cast<Word*>(base + kHeadAt), seal(0, Log::kHeadSalt));
    return kBytes;
  };
  subject.open = [](Lab& lab) { return std::make_unique<BareLog<Log>>(lab); };
  return subject;
}

// ---- perdure::Log -------------------------------------------------------------------------------

/// Records of growing size in an application's log, truncated when full; made by the set-up, or by
/// the first step, in the life that goes on to use it.
Scenario append_log(bool made_by_step) {
  const auto record_of = [](std::uint64_t step) {
    return std::string(1 + step * 37 % 300, static_cast<char>('a' + step % 26)) +
           std::to_string(step);
  };
  const auto open = [](Pool& pool) {
    return perdure::Log::open_or_create(pool, "events", kPageBytes).value();
  };
  struct Dropped {
    std::uint64_t steps;
  };
  Scenario s;
  s.name = made_by_step ? "new-append-log" : "append-log";
  s.claim = "an application's own log keeps every flushed record, whole, and forgets torn ones";
  s.steps = 40;
  s.resume_steps = 12;
  s.setup = [=](Pool& pool) {
    pool.root<Dropped>("dropped");
    if (!made_by_step) open(pool);
  };
  s.step = [=](Pool& pool, std::uint64_t step) {
    perdure::Log log = open(pool);
    const std::string record = record_of(step);
    // Others that are flushed with it: torn, one does not make damage of those behind it.
    for (std::uint64_t i = 0; i < step % 3; ++i) (void)log.append("~", 1);
    if (!log.append(record.data(), record.size())) {
      Dropped& dropped = root_of<Dropped>(pool, "dropped");
      pool.atomically([&](Tx& tx) { tx.store(dropped.steps, step - 1); });
      log.truncate();
      if (!log.append(record.data(), record.size()))
        throw Exception(Code::kNoSpace, "the empty log is full");
    }
    log.flush();
  };
  s.check = [=](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const std::uint64_t dropped = committed(pool, root_of<Dropped>(pool, "dropped").steps);
    std::uint64_t last = dropped;
    std::optional<std::string> wrong;
    const bool made = pool.read_only([&](Tx& tx) { return core_of(pool).roots(tx).size() > 1; });
    if (!made) return step == 0 ? wrong : "there is no log";
    open(pool).for_each([&](std::span<const std::byte> bytes) {
      const std::string record(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (record == "~") return;
      if (record == record_of(last + 1)) {
        ++last;
        return;
      }
      // Between the note of what was dropped and the truncation, old records are still there.
      bool old = false;
      for (std::uint64_t i = 1; i <= dropped && !old; ++i) old = record == record_of(i);
      if (!old) wrong = "a record after step " + std::to_string(last) + " is none of ours";
    });
    if (!wrong && last != step) wrong = "the last record is of step " + std::to_string(last);
    return wrong;
  };
  return s;
}

}  // namespace

std::vector<Subject> log_scenarios() {
  return {
      bare_log<TornbitLog>("tornbit-log",
                           "a torn-bit log keeps every waited-for record over many laps"),
      bare_log<LineLog>("line-log", "a line log does the same, in lines that are stored in order"),
      bare_log<CommitLog>("commit-log", "a commit-record log does the same, with two waits"),
  };
}

std::vector<Scenario> append_log_scenarios() {
  return {append_log(false), append_log(true), in_private_pages(append_log(true))};
}

}  // namespace perdure::crash
