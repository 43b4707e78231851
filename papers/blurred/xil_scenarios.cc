// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "papers/blurred/xil_log.h"
#include "papers/scenarios.h"

namespace perdure::papers {
namespace {

using namespace crash;  // NOLINT: what explores

/// The last step whose transaction was dropped: the retired timestamp.
constexpr Offset kRetiredAt = 0;
constexpr Offset kRingAt = 2 * kPageBytes - kSectorBytes;  // across two pages
constexpr std::uint64_t kRingWords = 128;
constexpr std::uint64_t kBytes = 3 * kPageBytes;

/// The transaction of a step: 1 to 5 words, or one in seven that takes more than a sector; the first and the last are
/// rewritten. Every value tells them all.
std::uint64_t length_of(std::uint64_t step) { return step % 7 == 6 ? 35 : 1 + step % 5; }
Word value_of(std::uint64_t step, std::uint64_t length, std::uint64_t index) {
  return ~(step << 32 | length << 16 | index);
}

/// A log in a small ring and the retired timestamp: the smallest user of execution in log. A step is a transaction, with
/// others before it that are aborted where `kAborts`.
template <bool kAborts>
class BareXil final : public Session {
 public:
  explicit BareXil(Lab& lab)
      : domain_(lab.domain()),
        retired_(reinterpret_cast<Word*>(lab.base() + kRetiredAt)),
        ring_{reinterpret_cast<Word*>(lab.base() + kRingAt), kRingWords, nullptr},
        log_(ring_, found()) {
    domain_.flush(retired_, kWordBytes, Site::kAdopt);
    log_.adopt(domain_);
    // Orders: the retired timestamp, which a killed process may have left in caches, before what it retired is made unwritten.
    (void)domain_.fence(Site::kAdoptFence);
    log_.settle(domain_);
    // Orders: what was found, and the rest made unwritten, before the next record.
    (void)domain_.fence(Site::kEraseFence);
  }

  void step(std::uint64_t step) override {
    if (kAborts && step % 2 == 0) abort(step);
    // The first in a life is another than the torn one in whose place it may stand.
    const std::uint64_t length = std::exchange(first_in_life_, false) ? 1 : length_of(step);
    make_room(step, length);
    const auto first = log_.append(domain_, 0, value_of(step, 0, 99));
    for (std::uint64_t i = 1; i < length; ++i)
      log_.append(domain_, i * kWordBytes, value_of(step, length, i));
    // Versions that may be durable in the stead of the last.
    log_.rewrite(domain_, first + length - 1, value_of(step, 0, 98));
    log_.rewrite(domain_, first + length - 1, value_of(step, length, length - 1));
    log_.rewrite(domain_, first, value_of(step, length, 0));
    log_.commit(domain_, step);
    (void)log_.make_durable(domain_);
  }

  std::optional<std::string> check(std::uint64_t step) override {
    const XilScan scan = found();
    std::uint64_t last = load_word(retired_);
    for (const XilTransaction& transaction : scan.transactions) {
      if (transaction.timestamp != last + 1)
        return "step " + std::to_string(transaction.timestamp) + " follows step " +
               std::to_string(last);
      last = transaction.timestamp;
      std::uint64_t index = 0;
      const std::uint64_t length = transaction.commit - transaction.first;
      bool right = true;
      for_each_update(ring_, transaction, [&](const xil::Update& update) {
        right = right && update.address == index * kWordBytes && update.bytes == 0xff &&
                update.value == value_of(last, length, index);
        ++index;
      });
      if (!right) return "the transaction of step " + std::to_string(last) + " is wrong";
    }
    if (last == step) return std::nullopt;
    return "the last transaction is of step " + std::to_string(last);
  }

 private:
  XilScan found() const {
    XilScan scan = scan_xil(ring_, load_word(retired_));
    if (scan.damage != nullptr) throw Exception(Code::kCorrupt, scan.damage);
    return scan;
  }

  /// A transaction that leaves a hole of whole lines, and one behind it that leaves none.
  void abort(std::uint64_t step) {
    for (const std::uint64_t length : {9 + step % 6, std::uint64_t{2}}) {
      make_room(step, length);
      for (std::uint64_t i = 0; i < length; ++i)
        log_.append(domain_, i * kWordBytes, value_of(step, 0, i));
      log_.abort(domain_);
    }
  }

  /// Drops what is before the step when less than a transaction of `length` has room.
  void make_room(std::uint64_t step, std::uint64_t length) {
    if (log_.free_records() >= length) return;
    log_.reset_holes(domain_, log_.begin());
    domain_.store(retired_, step - 1);
    domain_.flush(retired_, kWordBytes, Site::kUserFlush);
    // Orders: the holes' torn bits, and the timestamp, before the records that take their room.
    (void)domain_.fence(Site::kUserFence);
    log_.truncate_to(log_.begin());
  }

  Lab::LabDomain domain_;
  Word* retired_;
  Ring ring_;
  XilLog log_;
  bool first_in_life_ = true;
};

template <bool kAborts>
Subject bare_xil(std::string name, std::string claim) {
  Subject subject{};
  subject.name = std::move(name);
  subject.claim = std::move(claim);
  subject.bytes = kBytes;
  subject.steps = 40;
  subject.resume_steps = 24;
  subject.memory = true;
  // On files pages are written, and each has an abort record: nothing that was aborted stays a hole.
  subject.file = !kAborts;
  subject.format = [](std::byte*) { return kBytes; };
  subject.open = [](Lab& lab) { return std::make_unique<BareXil<kAborts>>(lab); };
  return subject;
}

}  // namespace

std::vector<crash::Subject> xil_scenarios() {
  return {
      bare_xil<false>("xil-log",
                      "a log that transactions execute in keeps every waited-for one, over many "
                      "laps and without a head"),
      bare_xil<true>("xil-log-aborts",
                     "what was aborted in such a log is never replayed, nor are the holes it left"),
  };
}

}  // namespace perdure::papers
