// SPDX-License-Identifier: BSD-3-Clause
// XilLog: the log of Blurred Persistence's *execution in log* (§3.2): a transaction's new values stand in the ring from the
// moment they are written, committed or not. What is uncommitted may become durable at any time, by eviction; recovery
// tells it apart. Not for a writer that has all its values at once: TornbitLog packs them tighter and streams them.
//
// A transaction:
//   1. append, rewrite: ordinary stores           crash here ⇒ any part of the records, no commit record: uncommitted
//   2. commit stores the commit record            crash here ⇒ counts only if every half of every record arrived, in its
//      and flushes the transaction's lines        last version: then it is whole, else as at 1
//   3. make_durable: fence                        returned ⇒ seen by every later recovery until retired
//   or
//   2. abort closes the records by an abort record and starts its write-back
//                                                 crash here ⇒ a log that ends before the transaction
//   3. the next commit's fence completes it       cut before ⇒ that commit is not acknowledged, and does not count unless
//                                                 the abort record arrived, too
// An aborted transaction's lines are never forced: those that were not evicted are *holes*, which on the media still show
// what the lap before left there. An abort record stands at least every 64 records, so that a forward reader who meets a
// hole finds, within so many, the record that explains it, or the end; recovery goes backward and needs only the last.
//
// Truncation, by a caller who first makes the home words durable:
//   1. reset_holes starts the write-back of the holes, under the fence of the home words
//                                                 crash here ⇒ nothing has changed
//   2. retire the timestamps, durably (the caller's word)
//                                                 crash here ⇒ recovery ignores the records
//   3. truncate_to moves the head, in memory only; the room is used again
//                                                 crash here ⇒ what is overwritten is retired
// Without step 1 a hole would keep the torn bits of the lap before, which are those of the lap to come: a record that
// never arrived there would look written. There is no head on the media: see xil_recovery.h for how it is found.
//
// Recovery of what scan_xil() found (repeating it is the answer to any cut):
//   1. adopt: flush the whole ring, and the caller's word; fence
//                                                 what a killed process left may be in caches only; crash here ⇒ the same
//                                                 transactions, unless caches alone held the last
//   2. settle: give the holes between transactions their lap's torn bits, make what lies behind the last read as not yet
//      written; fence                             crash here ⇒ the same transactions
//   3. go on appending                            crash here ⇒ as at the top
// Without the fence of step 1 a cut could take the caller's word back, which only caches held, but keep a part of step 2:
// then records that are not retired any longer would be missing.
//
// Source: Blurred Persistence (ACM TOS 12(1), 2016) §3.2, §3.5, §4.2. Deviations, besides the record's (xil_record.h):
// recovery goes backward from the newest commit, and the head needs no run that starts at the ring's beginning: the log
// wraps and may be truncated anywhere, while a transaction is under way, too. Holes are reset by writing back what the
// caches hold of them.
// Threads: one owner; one more at a time may truncate: for_each_closed, reset_holes, truncate_to. The owner may be another
// thread from one transaction to the next.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "papers/blurred/xil_recovery.h"
#include "perdure/base/check.h"

namespace perdure {

class XilLog {
 public:
  static constexpr const char* kName = "execution-in-log";
  /// Records from one abort record of an aborted transaction to the next, at most.
  static constexpr std::uint64_t kAbortEvery = 64;

  using Place = xil::Place;
  using Update = xil::Update;

  /// The log that `scan` found in `ring`. Requires: no damage; adopt(), a fence, settle() and a fence before the first
  /// append.
  XilLog(const Ring& ring, const XilScan& scan)
      : records_(ring),
        head_(scan.head),
        begin_(scan.tail),
        tail_(scan.tail),
        found_(scan.transactions) {
    PERDURE_CHECK(scan.damage == nullptr, "a damaged log cannot be appended to");
    PERDURE_CHECK(ring.count % (kLineBytes / kWordBytes) == 0 && ring.count > 0 &&
                      records_.count() <= xil::kMaxBack + 1 &&
                      is_aligned(reinterpret_cast<std::uintptr_t>(ring.words), kLineBytes),
                  "a ring of whole lines, at most 256 MiB, is needed");
    if (!scan.transactions.empty()) {
      last_commit_ = scan.transactions.back().commit;
      last_timestamp_ = scan.transactions.back().timestamp;
    }
  }

  std::uint64_t capacity_records() const { return records_.count(); }
  /// Records that the open transaction may still append; room for the one that closes it is kept back.
  std::uint64_t free_records() const {
    const std::uint64_t used = tail_ - head();
    return used >= records_.count() ? 0 : records_.count() - used - 1;
  }
  /// Records of the open transaction.
  std::uint64_t open_records() const { return tail_ - begin_; }
  // Head and begin are atomic, as TornbitLog's head and tail: acquire and release hand the records between them over to
  // who truncates, and their room back.
  Place head() const {
    return std::atomic_ref<Place>(const_cast<Place&>(head_)).load(std::memory_order_acquire);
  }
  /// The end of what is closed, committed or aborted; the open transaction starts here.
  Place begin() const {
    return std::atomic_ref<Place>(const_cast<Place&>(begin_)).load(std::memory_order_acquire);
  }
  const Ring& ring() const { return records_.ring(); }

  /// Writes `value`'s bytes of mask `bytes`, for the word at `address`, to the log.
  /// Requires: a multiple of 8 below 2^48; 0 < free_records().   Returns: where update() and rewrite() find it.
  /// Durable:  after commit(), if that returns true.              Errors: none.
  /// Cost:     two cached stores.
  template <Domain D>
  Place append(D& domain, Offset address, Word value, std::uint8_t bytes = 0xff) {
    PERDURE_CHECK(free_records() > 0, "an append overruns its log");
    PERDURE_CHECK(is_aligned(address, kWordBytes) && address <= kMax48,
                  "a log record names a whole word below 2^48");
    put(domain, tail_, {address, value, bytes, 0});
    return tail_++;
  }

  /// Records that a write takes.
  static std::uint64_t records_for(const MaskedWrite& write) {
    return xil::is_bytes(write.mask) ? 1 : 2;
  }
  /// The same for any mask. Requires: records_for(write) <= free_records().
  template <Domain D>
  void append(D& domain, const MaskedWrite& write) {
    if (!xil::is_bytes(write.mask)) append(domain, write.offset, write.mask, 0);
    append(domain, write.offset, write.value,
           xil::is_bytes(write.mask) ? xil::bytes_of_mask(write.mask) : 0xff);
  }

  /// Changes bytes of a record of the open transaction, in place while its counts allow; else by a new record, which holds
  /// all its bytes.
  /// Requires: a place of the open transaction; 0 < free_records().   Returns: where the record stands now.
  template <Domain D>
  Place rewrite(D& domain, Place place, Word value, std::uint8_t bytes = 0xff) {
    PERDURE_CHECK(place >= begin_ && place < tail_,
                  "a record of the open transaction is rewritten");
    Update update = xil::update_of(records_.load(place));
    const Word mask = xil::mask_of_bytes(bytes);
    update.value = (update.value & ~mask) | (value & mask);
    update.bytes |= bytes;
    if (update.rewrites == xil::kMaxRewrites || rewrites_ == xil::kMaxRewriteSum)
      return append(domain, update.address, update.value, update.bytes);
    ++update.rewrites;
    ++rewrites_;
    put(domain, place, update);
    return place;
  }

  /// What the transaction wrote at `place`: its own reads. Requires: a place of the open transaction.
  Update update(Place place) const { return xil::update_of(records_.load(place)); }

  /// Whether a commit under `timestamp` must wait until the last one is truncated: its record could not tell their distance.
  bool too_far_apart(std::uint64_t timestamp) const {
    return needs_last_commit() && timestamp - last_timestamp_ > xil::kMaxAge;
  }

  /// Closes the open transaction by a commit record under `timestamp` and starts the write-back of its records.
  /// Requires: open_records() > 0; a timestamp above all before in this log, below 2^48, and less than 2^24 above the last
  ///           that is not truncated; the last commit made durable.
  /// Durable:  after make_durable(), which must come before the next append.   Errors: none.
  template <Domain D>
  void commit(D& domain, std::uint64_t timestamp) {
    PERDURE_CHECK(open_records() > 0 && open_records() <= xil::kMaxBack, "a commit of no records");
    PERDURE_CHECK(timestamp > last_timestamp_ && timestamp <= kMax48, "commit timestamps rise");
    const std::uint64_t age = needs_last_commit() ? timestamp - last_timestamp_ : 0;
    PERDURE_CHECK(age <= xil::kMaxAge, "the log's last commit is too old; truncate it first");
    records_.store(domain, tail_,
                   records_.seal({true, timestamp, tail_ - begin_, age, rewrites_}, tail_));
    records_.flush(domain, begin_, tail_ + 1, Site::kXilRecord);
    // Again: the owner that aborted may have been another thread, whose flushes this one's fence does not complete.
    if (aborted_since_commit_) records_.flush(domain, begin_ - 1, begin_, Site::kXilBridge);
    aborted_since_commit_ = false;
    last_commit_ = tail_;
    last_timestamp_ = timestamp;
    close();
  }

  /// Waits for the commit, and for whatever else this thread flushed before. False: the storage failed, and the next open
  /// decides.
  template <Domain D>
  [[nodiscard]] bool make_durable(D& domain) {
    // Orders: the records, and the abort record before them, before the acknowledgement and the home stores. Without it a
    //         cut may keep a home store whose transaction is incomplete, and recovery could not take it back.
    return domain.fence(Site::kXilCommit);
  }

  /// Drops the open transaction. Durable: with the next commit; until then, and if it never comes, the log ends before it.
  /// Cost: a flush per 64 records, no fence.
  template <Domain D>
  void abort(D& domain) {
    if (open_records() == 0) return;
    // The last one takes a place of its own: on one that held data before, that data could be durable in its stead.
    for (Place place = begin_ + kAbortEvery - 1; place < tail_; place += kAbortEvery)
      put_abort(domain, place);
    put_abort(domain, tail_);
    aborted_since_commit_ = true;
    // Relaxed: close() hands it over.
    std::atomic_ref<Place>(last_abort_).store(tail_, std::memory_order_relaxed);
    close();
  }

  /// Calls committed(timestamp, first, commit) for the transactions that were closed in [from, end), in their order, until it
  /// returns false, and aborted(first, last) for what was given up; returns where those end that it was called for.
  /// Requires: boundaries between transactions, head() <= from <= end <= begin(). Threads: any one, while the owner goes on.
  template <class Committed, class Aborted>
  Place for_each_closed(Place from, Place end, Committed committed, Aborted aborted) const {
    for (Place place = from; place < end; ++place) {
      const xil::Halves found = records_.load(place);
      if (xil::is_data(found)) continue;
      if (!xil::is_commit(found)) {
        aborted(from, place);
      } else if (!committed(xil::closing_of(found).timestamp, from, place)) {
        return from;
      }
      from = place + 1;
    }
    return from;
  }

  /// Starts the write-back of all holes before `position`.
  /// Durable: after the caller's next fence, which must come before truncate_to(position).
  template <Domain D>
  void reset_holes(D& domain, Place position) const {
    const Place from = head();
    const Place last =
        std::atomic_ref<Place>(const_cast<Place&>(last_abort_)).load(std::memory_order_relaxed);
    if (last < from) return;
    for_each_closed(
        from, position, [](std::uint64_t, Place, Place) { return true; },
        [&](Place first, Place abort) {
          records_.flush(domain, first, abort + 1, Site::kXilHole);
        });
  }
  /// Gives the room before `position` back, in memory only.
  /// Requires: head() <= position <= begin(); a durable word of the caller's says that all commits before it are retired;
  ///           reset_holes(position) and a fence came before.
  void truncate_to(Place position) {
    PERDURE_CHECK(position >= head() && position <= begin(),
                  "a log is truncated to what is closed");
    std::atomic_ref<Place>(head_).store(position, std::memory_order_release);
  }

  /// Starts the write-back of the whole ring: what a killed process left may be in caches only.
  template <Domain D>
  void adopt(D& domain) const {
    records_.flush(domain, head_, head_ + records_.count(), Site::kAdopt);
  }
  /// Whether settle() has anything to write.
  bool needs_settling() const {
    if (found_.size() > 1) return true;
    for (Place place = tail_; place < head_ + records_.count(); ++place) {
      if (records_.data_written(place) || records_.meta_written(place)) return true;
    }
    return false;
  }
  /// Makes a ring that never held a log read as not yet written, and makes its first log.
  /// Durable: after the caller's fence (Site::kEraseFence).
  template <Domain D>
  static XilLog first_in(D& domain, const Ring& ring) {
    const std::array<Word, 512> missing{};
    for (std::uint64_t at = 0; at < ring.count; at += missing.size()) {
      const auto count = std::min<std::uint64_t>(missing.size(), ring.count - at);
      domain.write_through(ring.words + at, missing.data(), count, Site::kEraseRing);
    }
    return XilLog(ring, scan_xil(ring, 0));
  }
  /// Puts what scan_xil() found in order: holes get their torn bits, everything behind the last transaction reads as not
  /// yet written. Requires: called once, before the first append; the word that says what is retired is durable.
  /// Durable: after the caller's fence (Site::kEraseFence). A cut before it leaves any part of it, which only takes more
  /// from transactions that do not count.
  template <Domain D>
  void settle(D& domain) {
    for (std::size_t i = 1; i < found_.size(); ++i) {
      for (Place place = found_[i - 1].commit + 1; place < found_[i].first; ++place)
        mark(domain, place, true, Site::kXilFill);
    }
    for (Place place = tail_; place < head_ + records_.count(); ++place)
      mark(domain, place, false, Site::kEraseRing);
    found_.clear();
  }

 private:
  /// Whether recovery may need the last commit, too, to accept the next.
  bool needs_last_commit() const { return last_timestamp_ != 0 && last_commit_ >= head(); }

  template <Domain D>
  void put(D& domain, Place place, const Update& update) {
    records_.store(domain, place, xil::encode(update, records_.torn(place)));
  }
  template <Domain D>
  void put_abort(D& domain, Place place) {
    const std::uint64_t back = needs_last_commit() ? place - last_commit_ : 0;
    records_.store(domain, place, records_.seal({false, last_timestamp_, back}, place));
    records_.flush(domain, place, place + 1, Site::kXilBridge);
  }
  void close() {
    ++tail_;
    std::atomic_ref<Place>(begin_).store(tail_, std::memory_order_release);
    rewrites_ = 0;
  }

  /// Gives each half at `place` the torn bit of a written record, or of an unwritten one, unless it has it.
  template <Domain D>
  void mark(D& domain, Place place, bool written, Site site) const {
    const bool torn = records_.torn(place) == written;
    const xil::Halves empty = xil::with_torn_bits(0, 0, torn);
    if (records_.data_written(place) != written)
      domain.write_through(records_.data_half(place), &empty.data, 1, site);
    if (records_.meta_written(place) != written)
      domain.write_through(records_.meta_half(place), &empty.meta, 1, site);
  }

  xil::Records records_;
  Place head_;
  Place begin_;  // of the open transaction
  Place tail_;
  Place last_commit_ = 0;
  std::uint64_t last_timestamp_ = 0;
  std::uint64_t rewrites_ = 0;  // of the open transaction's records
  Place last_abort_ = 0;
  bool aborted_since_commit_ = false;
  std::vector<XilTransaction> found_;  // by recovery, until settle()
};

}  // namespace perdure
