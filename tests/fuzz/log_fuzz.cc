// SPDX-License-Identifier: BSD-3-Clause
// Reads rings that an attacker wrote: every reader and decoder of the log room over arbitrary
// words, and recovery over them with the checksums made right. Also a round trip: what is appended
// behind such a ring, once it is erased, is read back exactly.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target log_fuzz log_fuzz -timeout=1
//   -rss_limit_mb=512 -max_len=1024 [-runs=1000000 | -max_total_time=60] [corpus/]
//
// Input: byte 0 the kind of run, bytes 1-6 the head's position, then the words of the ring (or
//        payloads to append).
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "perdure/domain/dram.h"
#include "perdure/log/commit_log.h"
#include "perdure/log/line_log.h"
#include "perdure/log/record.h"
#include "perdure/log/tornbit_log.h"

namespace {

using namespace perdure;  // NOLINT

void require(bool holds) {
  if (!holds) std::abort();
}

struct RingMemory {
  explicit RingMemory(std::uint64_t count) : words(count) {}
  Ring ring() { return {words.data(), words.size(), &head_word}; }
  std::vector<Word> words;
  Word head_word = 0;
};

/// Every complete record that stands there decodes without leaving its entries.
template <class Log>
void read_records(const Log& log) {
  auto reader = log.reader();
  std::uint64_t timestamp = 0;
  std::vector<Word> entries;
  std::uint64_t applied = 0;
  for (std::uint64_t records = 0; records <= log.capacity_words(); ++records) {
    const record::Found found = record::read(reader, timestamp, entries);
    require(reader.position() <= log.head() + log.capacity_words());
    (void)record::for_each(
        entries,
        [&](const MaskedWrite& write) {
          require(write.offset % kWordBytes == 0);
          return ++applied < 100000;
        },
        [](Offset offset, Word, Word) {
          require(offset % kWordBytes == 0);
          return true;
        });
    if (found != record::Found::kRecord) return;
  }
  std::abort();  // more records than words
}

template <class Log>
void read_words(const Log& log) {
  auto reader = log.reader();
  Word word = 0;
  std::uint64_t count = 0;
  while (reader.next(word)) require(++count <= log.capacity_words());
}

/// Whatever the ring held: once it is erased, appends are read back as they were written.
template <class Log>
void round_trip(RingMemory& memory, std::uint64_t head, const std::vector<Word>& payload) {
  Dram domain;
  Log log(memory.ring(), head, head);
  log.erase_from(domain, head);
  require(!log.has_remains(head));
  std::vector<std::vector<Word>> appended;
  for (std::size_t at = 0; at < payload.size();) {
    const std::size_t length = std::min<std::size_t>(payload.size() - at, 1 + payload[at] % 9);
    const std::vector<Word> words(payload.begin() + static_cast<std::ptrdiff_t>(at),
                                  payload.begin() + static_cast<std::ptrdiff_t>(at + length));
    if (Log::log_words(length) > log.free_words()) break;
    (void)log.append(domain, words);
    appended.push_back(words);
    at += length;
  }
  auto reader = log.reader();
  for (const std::vector<Word>& words : appended) {
    for (const Word expected : words) {
      Word got = 0;
      require(reader.next(got) && got == expected);
    }
    reader.end_of_append();
  }
  Word more = 0;
  require(reader.position() == log.tail() && !reader.next(more));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes < 7) return 0;
  const std::uint8_t kind = data[0];
  std::uint64_t head = 0;
  std::memcpy(&head, data + 1, 6);
  std::vector<Word> input((bytes - 7) / kWordBytes);
  if (!input.empty()) std::memcpy(input.data(), data + 7, input.size() * kWordBytes);
  RingMemory memory(1 + input.size());
  std::copy(input.begin(), input.end(), memory.words.begin());
  const Ring ring = memory.ring();
  RingMemory lines(round_up(memory.words.size(), LineLog::kLineWords));
  std::copy(input.begin(), input.end(), lines.words.begin());
  const std::uint64_t line_head = round_down(head, LineLog::kLineWords);

  if (kind % 4 == 0) {  // as it is
    read_words(TornbitLog(ring, head, head));
    read_records(TornbitLog(ring, head, head));
    read_words(CommitLog(ring, head, head));
    read_records(CommitLog(ring, head, head));
    read_words(LineLog(lines.ring(), line_head, line_head));
    read_records(LineLog(lines.ring(), line_head, line_head));
  } else if (kind % 4 == 1) {  // completely written, as far as the torn bits say
    for (std::uint64_t p = head; p < head + ring.count; ++p)
      *ring.at(p) = (*ring.at(p) & ~(Word{1} << 63)) | ring.torn(p);
    read_words(TornbitLog(ring, head, head));
    read_records(TornbitLog(ring, head, head));
  } else if (kind % 4 == 2) {  // one well-formed append with arbitrary contents
    Dram domain;
    RingMemory large(2 * memory.words.size() + 8);
    TornbitLog log(large.ring(), head, head);
    log.erase_from(domain, head);
    if (input.size() > 1)
      input[0] = record::header(input[0] & kMax48, {input.data() + 1, input.size() - 1});
    log.append(domain, input);
    read_records(log);
    if (!input.empty()) {
      RingMemory large_lines(LineLog::log_words(input.size()) + 8);
      LineLog line_log(large_lines.ring(), line_head, line_head);
      const std::uint32_t crc =
          record::checksum(input[0] & kMax48, {input.data() + 1, input.size() - 1});
      require(line_log.append(domain, input, crc));
      read_records(line_log);
    }
    CommitLog other(large.ring(), head, head);
    if (!input.empty()) {
      other.append(domain, input);
      require(other.make_durable(domain));
      read_records(other);
    }
  } else {
    round_trip<TornbitLog>(memory, head, input);
    round_trip<LineLog>(lines, line_head, input);
  }
  return 0;
}
