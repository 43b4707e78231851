// SPDX-License-Identifier: BSD-3-Clause
// The redo record: what an engine appends to a log for one transaction, and what recovery replays.
//
//   word 0      commit timestamp (48 bits) | CRC32C of timestamp and entries, folded to 16 bits
//   entries     a head word each, then its values:
//     bits 0-43   word index from the region base          bits 44-60  count of values (1..131071)
//     bits 61-62  kind                                     bit 63      last entry of the record
//     kRun     `count` consecutive whole words             count values
//     kMasked  some bits of one word                       value, mask
//     kSpill   the entries stand at the word index instead count of words there, their CRC32C
//     kInPlace `count` words there were initialised in place, and durable before this record: what
//     older records say of
//              them must not be replayed            (no values)
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "perdure/base/crc32c.h"
#include "perdure/base/words.h"

namespace perdure::record {

enum class Kind : std::uint8_t { kRun = 0, kMasked = 1, kSpill = 2, kInPlace = 3 };

inline constexpr Word kLast = Word{1} << 63;
inline constexpr std::uint64_t kMaxRun = (1u << 17) - 1;
inline constexpr std::uint64_t kIndexMask = (Word{1} << 44) - 1;

constexpr Word entry_head(Offset offset, std::uint64_t count, Kind kind) {
  return (offset / kWordBytes) | (count << 44) | (static_cast<Word>(kind) << 61);
}
constexpr Offset entry_offset(Word head) { return (head & kIndexMask) * kWordBytes; }
constexpr std::uint64_t entry_count(Word head) { return (head >> 44) & kMaxRun; }
constexpr Kind entry_kind(Word head) { return static_cast<Kind>((head >> 61) & 3); }

/// Words behind an entry's head.
constexpr std::uint64_t value_count(Kind kind, std::uint64_t count) {
  switch (kind) {
    case Kind::kRun: return count;
    case Kind::kMasked:
    case Kind::kSpill: return 2;
    case Kind::kInPlace: return 0;
  }
  return 0;
}

/// Words that the entries of `writes` may take.
constexpr std::size_t most_words(std::size_t writes) { return 3 * writes; }

/// Calls `put` with each word of the entries of `writes`, of which there are at most most_words();
/// neighbours that are whole words become one run. `last_mark` marks the last entry; 0: others follow.
template <class Put>
[[gnu::always_inline]] inline void for_each_entry_word(std::span<const MaskedWrite> writes, Put put,
                                                       Word last_mark = kLast) {
  const MaskedWrite* const end = writes.data() + writes.size();
  for (const MaskedWrite* write = writes.data(); write != end; ++write) {
    if (write->mask != kWholeWord) [[unlikely]] {
      put(entry_head(write->offset, 1, Kind::kMasked) | (write + 1 == end ? last_mark : 0));
      put(write->value);
      put(write->mask);
      continue;
    }
    const Offset begin = write->offset;
    const MaskedWrite* last = write;
    std::uint64_t count = 1;
    while (last + 1 != end && last[1].offset == begin + count * kWordBytes &&
           last[1].mask == kWholeWord && count < kMaxRun) {
      ++last;
      ++count;
    }
    put(entry_head(begin, count, Kind::kRun) | (last + 1 == end ? last_mark : 0));
    for (; write != last; ++write) put(write->value);
    put(write->value);
  }
}

/// Writes the entries of `writes` to `out`, which has room for most_words(), and returns their end.
inline Word* encode_entries(std::span<const MaskedWrite> writes, Word* out,
                            Word last_mark = kLast) {
  for_each_entry_word(writes, [&](Word word) { *out++ = word; }, last_mark);
  return out;
}

/// The same, appended to `out`.
inline void encode_entries(std::span<const MaskedWrite> writes, std::vector<Word>& out) {
  const std::size_t before = out.size();
  out.resize(before + most_words(writes.size()));
  out.resize(static_cast<std::size_t>(encode_entries(writes, out.data() + before) - out.data()));
}

constexpr std::size_t in_place_heads(std::uint64_t words) {
  return (words + kMaxRun - 1) / kMaxRun;
}
/// Writes the in_place_heads() of `words` words from `begin` on, and returns their end. Other
/// entries must follow.
inline Word* encode_in_place(Offset begin, std::uint64_t words, Word* out) {
  for (; words > 0; begin += kMaxRun * kWordBytes, words -= std::min(words, kMaxRun))
    *out++ = entry_head(begin, std::min(words, kMaxRun), Kind::kInPlace);
  return out;
}

/// An entry that changes nothing: a masked one at the place of the root table, whose mask is empty. Its
/// value is a timestamp: when this record was appended, all up to that one was durable in its log. So
/// where one of those is missing, no power cut has taken it.
inline constexpr std::size_t kStatementWords = 3;
inline void state_durable(Offset root_table, std::uint64_t timestamp, Word* out) {
  out[0] = entry_head(root_table, 1, Kind::kMasked);
  out[1] = timestamp;
  out[2] = 0;
}
/// The timestamp of such an entry, if it is the first; 0: none.
inline std::uint64_t stated_durable(std::span<const Word> entries) {
  const bool states = entries.size() > kStatementWords && entry_kind(entries[0]) == Kind::kMasked &&
                      entries[2] == 0;
  return states ? entries[1] : 0;
}

/// The first word of a record. `crc`: of the timestamp and the entries.
constexpr Word header(std::uint64_t timestamp, std::uint32_t crc) {
  return timestamp | Word{folded(crc)} << 48;
}
/// CRC32C of a record's timestamp and entries.
inline std::uint32_t checksum(std::uint64_t timestamp, std::span<const Word> entries) {
  const std::uint32_t seed = crc32c(&timestamp, sizeof(timestamp));
  return crc32c(entries.data(), entries.size_bytes(), seed);
}
/// The first word of a record over `entries`.
inline Word header(std::uint64_t timestamp, std::span<const Word> entries) {
  return header(timestamp, checksum(timestamp, entries));
}

enum class Found : std::uint8_t { kNothing, kRecord, kCorrupt };

/// Reads the next record's timestamp and raw entry words. A reader with a check() tells the whole
/// checksum, of which the first word has a part. kNothing at the end of what was
/// completely written; kCorrupt when complete words do not make a record (no power cut can cause
/// that, only damage).
template <class Reader>
Found read(Reader& reader, std::uint64_t& timestamp, std::vector<Word>& entries) {
  Word first = 0;
  entries.clear();
  if (!reader.next(first)) return Found::kNothing;
  timestamp = first & ((Word{1} << 48) - 1);
  Word head = 0;
  do {
    if (!reader.next(head)) return Found::kNothing;
    entries.push_back(head);
    const std::uint64_t count = entry_count(head);
    if (count == 0) return Found::kCorrupt;
    for (std::uint64_t values = value_count(entry_kind(head), count); values > 0; --values) {
      Word value = 0;
      if (!reader.next(value)) return Found::kNothing;
      entries.push_back(value);
    }
  } while ((head & kLast) == 0);
  reader.end_of_append();
  const std::uint32_t crc = checksum(timestamp, entries);
  if constexpr (requires { reader.check(); }) {
    if (reader.check() != crc) return Found::kCorrupt;
  }
  return header(timestamp, crc) == first ? Found::kRecord : Found::kCorrupt;
}

/// Calls `entry(kind, offset, count, values)` for each of checked entries, until it returns false.
/// Returns false then, and when the entries overrun.
template <class Entry>
bool for_each_entry(std::span<const Word> entries, Entry entry) {
  std::size_t at = 0;
  while (at < entries.size()) {
    const Word head = entries[at++];
    const std::uint64_t count = entry_count(head);
    const Kind kind = entry_kind(head);
    const std::uint64_t values = value_count(kind, count);
    if (count == 0 || values > entries.size() - at ||
        !entry(kind, entry_offset(head), count, entries.subspan(at, values)))
      return false;
    at += values;
    if ((head & kLast) != 0) return at == entries.size();
  }
  return false;
}

/// Calls `apply(MaskedWrite)` for every word of checked entries, `spill(offset, words, crc)` for
/// spilled ones and `in_place(offset, words)` for what was initialised in place; stops and returns
/// false when one of them does, or when the entries overrun.
template <class Apply, class Spill, class InPlace>
bool for_each(std::span<const Word> entries, Apply apply, Spill spill, InPlace in_place) {
  return for_each_entry(
      entries, [&](Kind kind, Offset offset, std::uint64_t count, std::span<const Word> values) {
        switch (kind) {
          case Kind::kRun:
            for (const Word& value : values) {
              if (!apply(MaskedWrite{offset, value, kWholeWord})) return false;
              offset += kWordBytes;
            }
            return true;
          case Kind::kMasked:
            return values[1] == 0 || apply(MaskedWrite{offset, values[0], values[1]});
          case Kind::kSpill: return spill(offset, values[0], values[1]);
          case Kind::kInPlace: return in_place(offset, count);
        }
        return false;
      });
}

/// Calls `visit(offset, words)` for each extent that checked entries store to; `spill` as above.
template <class Visit, class Spill>
bool for_each_extent(std::span<const Word> entries, Visit visit, Spill spill) {
  return for_each_entry(
      entries, [&](Kind kind, Offset offset, std::uint64_t count, std::span<const Word> values) {
        if (kind == Kind::kSpill) return spill(offset, values[0], values[1]);
        const bool changes = kind == Kind::kMasked ? values[1] != 0 : kind != Kind::kInPlace;
        if (changes) visit(offset, kind == Kind::kRun ? count : 1);
        return true;
      });
}

template <class Apply, class Spill>
bool for_each(std::span<const Word> entries, Apply apply, Spill spill) {
  return for_each(entries, apply, spill, [](Offset, std::uint64_t) { return true; });
}

}  // namespace perdure::record
