// SPDX-License-Identifier: BSD-3-Clause
// LogReader: reads the groups of one log segment, and checks them first. The input is untrusted:
// every kind, page number, mask, count and checksum is checked, and no size is taken from the file
// without a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "perdure/checkpoint/arena_layout.h"
#include "perdure/checkpoint/storage.h"

namespace perdure::checkpoint {

/// The records of one committed epoch: [begin, end) of the file, commit record included.
struct Group {
  std::uint64_t epoch;
  Offset begin;
  Offset end;
};

/// A part of a page that an epoch changed. `bytes` is a multiple of 64 and at most a page; `data`
/// is null for zeros, and holds during the call.
struct Piece {
  std::uint64_t page;
  std::uint32_t at;
  std::uint32_t bytes;
  const std::byte* data;
};

class LogReader {
 public:
  /// Requires: a superblock and a head that were checked. `trust` leaves out the checksums: for
  ///           mutants.
  LogReader(Storage& storage, const ArenaSuperblock& super, int segment, const SegmentHead& head,
            bool trust = false)
      : LogReader(storage, super, segment, head.first_epoch, seed_of(head), trust) {}
  /// The same for a head of which only these two are known.
  LogReader(Storage& storage, const ArenaSuperblock& super, int segment, std::uint64_t first_epoch,
            std::uint32_t seed, bool trust = false)
      : storage_(&storage),
        pages_(super.capacity_bytes / kPageBytes),
        end_(super.segment_offset[segment] + super.segment_bytes),
        seed_(seed),
        trust_(trust),
        at_(super.segment_offset[segment] + kSegmentHeadBytes),
        epoch_(first_epoch) {}

  /// Returns the next epoch's group if it is complete and its checks hold; none: the log ends here.
  std::optional<Group> next();
  /// Calls visit(Piece) for what a group says, in order. False: its checks do not hold any more, or
  /// visit returned false.
  template <class Visit>
  bool visit(const Group& group, Visit&& visit);

  struct Found {
    Record record;
    const std::byte* payload;  // holds until the next call
  };
  static constexpr std::uint64_t kAnyEpoch = 0;  // they count from 1
  /// Reads a record of `epoch` at `offset` and checks it, except for what a commit record says of
  /// the others.
  std::optional<Found> record_at(Offset offset, std::uint64_t epoch);
  /// Calls visit(Piece) for what a record says, in order. False: visit returned false.
  template <class Visit>
  static bool for_each_piece(const Found& found, Visit&& visit);

  /// Whether a read failed: then the end that next() found is none.
  bool failed() const { return failed_; }

 private:
  const std::byte* window(Offset offset, std::uint64_t bytes);

  Storage* storage_;
  std::uint64_t pages_;
  Offset end_;
  std::uint32_t seed_;
  bool trust_;
  bool failed_ = false;
  Offset at_;
  std::uint64_t epoch_;
  std::vector<std::byte> buffer_;
  Offset buffer_begin_ = 0;
  std::uint64_t buffer_bytes_ = 0;
};

template <class Visit>
bool LogReader::visit(const Group& group, Visit&& visit) {
  for (Offset at = group.begin;;) {
    const auto found = record_at(at, group.epoch);
    if (!found) return false;
    if (found->record.kind == RecordKind::kCommit) return true;
    if (!for_each_piece(*found, visit)) return false;
    at += sizeof(Record) + payload_bytes(found->record);
  }
}

template <class Visit>
bool LogReader::for_each_piece(const Found& found, Visit&& visit) {
  const Record& record = found.record;
  switch (record.kind) {
    case RecordKind::kCommit: return true;
    case RecordKind::kPage: return visit(Piece{record.page, 0, kPageBytes, found.payload});
    case RecordKind::kZeros:
      for (std::uint64_t page = 0; page < record.argument; ++page) {
        if (!visit(Piece{record.page + page, 0, kPageBytes, nullptr})) return false;
      }
      return true;
    case RecordKind::kBlocks: {
      // Neighbouring blocks as one piece.
      const std::byte* data = found.payload;
      for (std::uint64_t mask = record.argument; mask != 0;) {
        const auto first = static_cast<std::uint32_t>(std::countr_zero(mask));
        const auto count = static_cast<std::uint32_t>(std::countr_one(mask >> first));
        const std::uint32_t bytes = count * std::uint32_t{kLineBytes};
        if (!visit(Piece{record.page, first * std::uint32_t{kLineBytes}, bytes, data}))
          return false;
        data += bytes;
        mask = first + count == 64 ? 0 : mask >> (first + count) << (first + count);
      }
      return true;
    }
  }
  return true;
}

}  // namespace perdure::checkpoint
