// SPDX-License-Identifier: BSD-3-Clause
// The arena file, byte by byte. Little-endian; nothing here is volatile.
//
//   section      begins at           bytes          what
//   superblock   0                   4096 (104 used)  written once, at creation
//   state slots  4096, 8192          4096 (24 used) each: which epoch home holds; the larger valid
//                                    one counts
//   home         12288               capacity_bytes   the memory image of that epoch
//   segment 0    after it            segment_bytes    the log: a head, then groups of records
//   segment 1    after it            segment_bytes
//
// A group is one epoch: records of what changed, then a commit record. The two segments are used in
// turn; each use draws a new generation and a new salt, from which the checksums of its records
// start: what an earlier use left behind never passes for a record of this one.
//
//   record kind   page          argument         followed by
//   1 blocks      page number   mask, not 0      64 bytes for each set bit, lowest first
//   2 page        page number   0                4096 bytes
//   3 zeros       first page    count, not 0     nothing: so many pages are all zeros
//   4 commit      chain         count            nothing: so many records before this one; the
//                                                chain is the CRC32C of their checksums, in order
//
// Epochs count from 1 and have no gaps: of the log, the epochs after the one that home holds
// matter, and a segment ends where its successor's first epoch begins.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "perdure/base/crc32c.h"
#include "perdure/base/words.h"

namespace perdure::checkpoint {

inline constexpr std::uint64_t kArenaMagic = 0x0a45524144524550;    // "PERDARE\n"
inline constexpr std::uint64_t kStateMagic = 0x0a4d4f4844524550;    // "PERDHOM\n"
inline constexpr std::uint64_t kSegmentMagic = 0x0a47455344524550;  // "PERDSEG\n"
inline constexpr std::uint32_t kArenaVersion = 1;
// Incompatible features.
/// The arena holds the image of a carried program (apps/run/layout.h).
inline constexpr std::uint64_t kHoldsProgram = 1;
inline constexpr std::uint64_t kMaxArenaBytes = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kMinArenaBytes = std::uint64_t{64} << 10;
// Epochs and generations beyond that were never written: sums of them do not overflow.
inline constexpr std::uint64_t kMostEpochs = std::uint64_t{1} << 62;

struct ArenaSuperblock {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t superblock_bytes;
  std::uint64_t compatible;    // unknown ones are ignored
  std::uint64_t incompatible;  // unknown ones are refused
  std::uint8_t uuid[16];
  std::uint64_t address;  // where the image must be mapped: it holds pointers
  std::uint64_t capacity_bytes;
  std::uint64_t segment_bytes;
  std::uint64_t home_offset;
  std::uint64_t segment_offset[2];
  std::uint32_t reserved;
  std::uint32_t crc;  // of the bytes before
};
static_assert(sizeof(ArenaSuperblock) == 104 &&
              std::has_unique_object_representations_v<ArenaSuperblock>);

struct StateSlot {
  std::uint64_t magic;
  std::uint64_t home_epoch;  // home holds at least this epoch; and the log all after it
  std::uint32_t reserved;
  std::uint32_t crc;
};
static_assert(sizeof(StateSlot) == 24 && std::has_unique_object_representations_v<StateSlot>);

struct SegmentHead {
  std::uint64_t magic;
  std::uint64_t generation;  // larger: newer
  std::uint64_t first_epoch;
  std::uint64_t salt;
  std::uint32_t synced;  // 1: each epoch was durable before anything of the next one was written
  std::uint32_t crc;
};
static_assert(sizeof(SegmentHead) == 40 && std::has_unique_object_representations_v<SegmentHead>);

enum class RecordKind : std::uint32_t { kBlocks = 1, kPage = 2, kZeros = 3, kCommit = 4 };

struct Record {
  std::uint32_t crc;  // of what follows, payload included, starting from the segment's seed
  RecordKind kind;
  std::uint64_t epoch;
  std::uint64_t page;
  std::uint64_t argument;
};
static_assert(sizeof(Record) == 32 && std::has_unique_object_representations_v<Record>);

inline constexpr Offset kStateOffset[2] = {4096, 8192};
inline constexpr Offset kHomeOffset = 12288;
inline constexpr std::uint64_t kSegmentHeadBytes = 4096;  // records begin behind it
inline constexpr std::uint64_t kPageRecordBytes = sizeof(Record) + kPageBytes;

/// A segment that any epoch of this arena fits into, all pages included.
constexpr std::uint64_t least_segment_bytes(std::uint64_t capacity_bytes) {
  return kSegmentHeadBytes +
         round_up(capacity_bytes / kPageBytes * kPageRecordBytes + sizeof(Record), kPageBytes);
}
constexpr std::uint64_t file_bytes(const ArenaSuperblock& super) {
  return super.segment_offset[1] + super.segment_bytes;
}

/// Bytes behind a record's head. Requires: a kind that there is.
constexpr std::uint64_t payload_bytes(const Record& record) {
  switch (record.kind) {
    case RecordKind::kBlocks: return std::uint64_t(std::popcount(record.argument)) * kLineBytes;
    case RecordKind::kPage: return kPageBytes;
    case RecordKind::kZeros:
    case RecordKind::kCommit: return 0;
  }
  return 0;
}

/// Of a superblock, a state slot or a segment's head.
template <class T>
std::uint32_t crc_of(const T& sealed) {
  return crc32c(&sealed, offsetof(T, crc));
}
inline std::uint32_t seed_of(const SegmentHead& head) {
  return crc32c(&head.generation, 3 * sizeof(std::uint64_t));
}
inline std::uint32_t crc_of_record(const Record& record, const void* payload, std::uint32_t seed) {
  const std::uint32_t head = crc32c(&record.kind, sizeof(record) - sizeof(record.crc), seed);
  const std::uint64_t bytes = payload_bytes(record);
  return bytes == 0 ? head : crc32c(payload, bytes, head);
}

}  // namespace perdure::checkpoint
