// SPDX-License-Identifier: BSD-3-Clause
// What a power cut left of an XilLog: which transactions are committed, and where the log goes on. Nothing is written here.
//
// The three steps of the paper's §3.5, for one log; the caller merges the logs and replays:
//   1. Detection. A pass over the ring finds the commit records of timestamps that are not retired. The newest whose
//      transaction is complete is the end of the log: nothing behind it was acknowledged. From there the way goes back:
//      over its `back` records stands the record that closed what came before, a commit, or an abort record, whose
//      back-pointer leads over everything uncommitted, holes too, to the last commit.
//   2. Sorting. Within a log the way back is the commit order; between logs the timestamps give it.
//   3. Replay, oldest first: for_each_update().
//
// Where the way ends there was the head: at a commit that says that none before it is needed, or whose predecessor's
// timestamp (its own less its age) is retired. What lies further back may be overwritten, and is never looked at.
//
// Complete means: every half carries its lap's torn bit; the rewrites of the records add up to what the commit record
// says; and the closing record before the transaction is there, unless it is not needed. Only the newest commit can be
// incomplete, because a transaction begins after the last one was waited for; any other was complete once, and is damage.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "papers/blurred/xil_record.h"

namespace perdure {

struct XilTransaction {
  std::uint64_t timestamp;
  xil::Place first;   // its records: [first, commit)
  xil::Place commit;  // its commit record
};

struct XilScan {
  std::vector<XilTransaction> transactions;  // not retired, oldest first
  xil::Place head = 0;                       // of the first
  xil::Place tail = 0;                       // behind the last
  const char* damage = nullptr;      // what no power cut can cause; then there are no transactions
  std::uint64_t damaged_record = 0;  // its index in the ring
};

/// Calls visit(const xil::Update&) for every record of a transaction, in the order of the appends: of several for one
/// byte, the last holds.
template <class Visit>
void for_each_update(const Ring& ring, const XilTransaction& transaction, Visit visit) {
  const xil::Records records(ring);
  for (xil::Place place = transaction.first; place < transaction.commit; ++place)
    visit(xil::update_of(records.load(place)));
}

/// The same as masked writes. False: a record without bytes stands before another word's, which no log writes.
template <class Visit>
[[nodiscard]] bool for_each_write(const Ring& ring, const XilTransaction& transaction,
                                  Visit visit) {
  bool sound = true;
  bool masked = false;  // the last record was `bits`, without bytes: the mask of the next
  xil::Update bits{};
  for_each_update(ring, transaction, [&](const xil::Update& update) {
    if (masked && bits.address != update.address) sound = false;
    if (masked) {
      visit(MaskedWrite{update.address, update.value, bits.value});
      masked = false;
    } else if (update.bytes == 0) {
      bits = update;
      masked = true;
    } else {
      visit(MaskedWrite{update.address, update.value, xil::mask_of_bytes(update.bytes)});
    }
  });
  return sound && !masked;
}

namespace xil {

class Scanner {
 public:
  Scanner(const Ring& ring, std::uint64_t retired) : records_(ring), retired_(retired) {}

  XilScan run() {
    scan_.tail = place_of(0, true);  // of a log of which nothing is needed
    find_commits();
    if (commits_.empty() || !find_end()) return nothing();
    follow();
    if (scan_.damage != nullptr) return nothing();
    if (scan_.transactions.size() != commits_.size()) {
      damaged("a commit record that no later one leads to", commits_.back().commit);
      return nothing();
    }
    if (cut_ && !cut_stands_behind(scan_.tail, scan_.transactions.back().first)) {
      damaged("a commit record stands where none was begun", cut_->commit);
      return nothing();
    }
    std::reverse(scan_.transactions.begin(), scan_.transactions.end());
    scan_.head = scan_.transactions.front().first;
    return std::move(scan_);
  }

 private:
  struct Candidate {
    std::uint64_t timestamp;
    Place commit;
  };
  /// What stands before a transaction.
  enum class Before : std::uint8_t { kNothingNeeded, kCommit };
  enum class Verdict : std::uint8_t { kComplete, kIncomplete, kDamaged };
  struct Judged {
    Verdict verdict;
    XilTransaction transaction{};
    Before before{};
    Candidate predecessor{};
  };

  /// Places are counted from a lap whose torn bit is the record's, two at least, so that there is a lap before it.
  Place place_of(std::uint64_t index, bool torn) const {
    return index + records_.count() * (torn ? 2 : 3);
  }

  void find_commits() {
    for (std::uint64_t index = 0; index < records_.count(); ++index) {
      const Halves found = records_.load(index);
      const Place place = place_of(index, (found.meta & kTornInMeta) != 0);
      if (!is_commit(found) || !records_.written(place)) continue;
      const Closing closing = closing_of(found);
      if (closing.timestamp > retired_) commits_.push_back({closing.timestamp, place});
    }
    std::sort(commits_.begin(), commits_.end(),
              [](const Candidate& a, const Candidate& b) { return a.timestamp > b.timestamp; });
  }

  /// Drops the newest commit when it was cut. False: nothing is left, or there is damage.
  bool find_end() {
    const Judged newest = judge(commits_.front());
    if (newest.verdict == Verdict::kDamaged) return false;
    scan_.tail = commits_.front().commit + 1;
    if (newest.verdict == Verdict::kComplete) return true;
    cut_ = commits_.front();
    // With nothing before it the log goes on where the cut transaction began, on its lap: what is there of it then reads
    // as not yet written, and not, on the lap after, as complete.
    scan_.tail = cut_->commit - closing_of(records_.load(cut_->commit)).back;
    commits_.erase(commits_.begin());
    if (commits_.empty()) return false;
    scan_.tail = commits_.front().commit + 1;
    return true;
  }

  /// Whether the cut transaction stands behind the log's end, on the lap that is written there.
  bool cut_stands_behind(Place tail, Place head) const {
    const std::uint64_t count = records_.count();
    const Place commit = tail + (cut_->commit + count - tail % count) % count;
    return commit < head + count && records_.torn(commit) == records_.torn(cut_->commit) &&
           commit - tail >= closing_of(records_.load(commit)).back;
  }

  void follow() {
    Candidate next = commits_.front();
    for (;;) {
      const Judged judged = judge(next);
      if (judged.verdict == Verdict::kIncomplete)
        damaged("a transaction is incomplete, although a later one was begun", next.commit);
      if (judged.verdict != Verdict::kComplete) return;
      if (scan_.tail - judged.transaction.first > records_.count())
        return damaged("a commit record leads further back than the ring", next.commit);
      scan_.transactions.push_back(judged.transaction);
      if (judged.before == Before::kNothingNeeded) return;
      next = judged.predecessor;
    }
  }

  Judged judge(const Candidate& candidate) {
    const Place commit = candidate.commit;
    if (!records_.written(commit)) return {Verdict::kIncomplete};
    const Closing closing = closing_of(records_.load(commit));
    if (closing.timestamp != candidate.timestamp || closing.back == 0 ||
        closing.back >= records_.count() || closing.age > closing.timestamp)
      return damaged_at("a commit record is another than expected, or out of range", commit);
    const Place first = commit - closing.back;
    std::uint64_t rewrites = 0;
    for (Place place = first; place < commit; ++place) {
      if (!records_.written(place)) return {Verdict::kIncomplete};
      rewrites += rewrites_of(records_.load(place));
    }
    if (rewrites < closing.rewrites) return {Verdict::kIncomplete};
    if (!records_.closing_at(commit)) return damaged_at("a transaction fails its checksum", commit);
    Judged judged{Verdict::kComplete, {closing.timestamp, first, commit}};
    if (closing.age == 0 || closing.timestamp - closing.age <= retired_) return judged;
    judged.before = Before::kCommit;
    judged.predecessor.timestamp = closing.timestamp - closing.age;
    return cross(first - 1, judged);
  }

  /// From the closing record before a transaction to the last commit.
  Judged cross(Place before, Judged judged) {
    if (!records_.written(before)) return {Verdict::kIncomplete};
    const Halves found = records_.load(before);
    const Closing closing = closing_of(found);
    judged.predecessor.commit = before;
    if (!is_commit(found)) {
      if (closing.back == 0 || closing.back >= records_.count() || !records_.closing_at(before))
        return damaged_at("an abort record fails its check", before);
      judged.predecessor.commit = before - closing.back;
    }
    if (closing.timestamp != judged.predecessor.timestamp ||
        !is_commit(records_.load(judged.predecessor.commit)))
      return damaged_at("the commit before a transaction is another", before);
    return judged;
  }

  Judged damaged_at(const char* what, Place place) {
    damaged(what, place);
    return {Verdict::kDamaged};
  }
  void damaged(const char* what, Place place) {
    scan_.damage = what;
    scan_.damaged_record = place % records_.count();
  }
  XilScan nothing() {
    scan_.transactions.clear();
    scan_.head = scan_.tail;
    return std::move(scan_);
  }

  Records records_;
  std::uint64_t retired_;
  std::vector<Candidate> commits_;  // not retired, the newest first
  std::optional<Candidate> cut_;    // newer, but not complete
  XilScan scan_;
};

}  // namespace xil

/// Reads a ring as its last writer left it. `retired`: transactions up to this timestamp are history; a log's head may have
/// been moved only over those.
/// Errors: XilScan::damage. Bits that changed in the newest transaction may look like a cut of it, and then it is missing.
/// Cost: one pass over the ring, and two over what is not retired.
inline XilScan scan_xil(const Ring& ring, std::uint64_t retired) {
  return xil::Scanner(ring, retired).run();
}

}  // namespace perdure
