// SPDX-License-Identifier: BSD-3-Clause
// Opens and uses pools that an attacker wrote. The input is a list of mutations of a valid small
// pool (tests/specimen.h); each mutation is a damaged word or a well-sealed lie: checksums are made
// right again, so that what lies behind them is reached. Then everything a program may do with the
// pool is done, and once more after the pool was closed.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target open_fuzz open_fuzz -timeout=1
//   -rss_limit_mb=512 -max_len=512 [-runs=1000000 | -max_total_time=60] [corpus/]
//
// It must never crash, take more than a second, or allocate more than four times the file's size.
#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "perdure/base/crc32c.h"
#include "perdure/heap/layout.h"
#include "perdure/log/record_log.h"
#include "tests/fuzz/input.h"
#include "tests/specimen.h"

namespace {

using namespace perdure;  // NOLINT
using fuzz::Input;
using testing::Image;

// ---- what the fuzzer watches beside crashes -----------------------------------------------------

std::atomic<std::int64_t> allowed_bytes{
    -1};  // what may still be allocated; negative: nobody counts

void on_malloc(const volatile void*, std::size_t bytes) {
  if (allowed_bytes.load(std::memory_order_relaxed) < 0) return;
  if (allowed_bytes.fetch_sub(static_cast<std::int64_t>(bytes)) >= static_cast<std::int64_t>(bytes))
    return;
  std::fprintf(stderr, "open_fuzz: more than four times the file's size was allocated\n");
  std::abort();
}
void on_free(const volatile void* memory) {
  if (memory == nullptr || allowed_bytes.load(std::memory_order_relaxed) < 0) return;
  allowed_bytes.fetch_add(
      static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(memory))));
}

// ---- mutations ----------------------------------------------------------------------------------

class Mutator {
 public:
  explicit Mutator(Image& image) : image_(image), super_(image.super()), used_(used_bytes()) {}

  void apply(Input& input) {
    switch (input.take<std::uint8_t>() % 9) {
      case 0: word_at(input) ^= input.take<Word>(); break;
      case 1: word_at(input) = input.take<Word>(); break;
      case 2: word_at(input) = image_.word(offset(input)); break;
      case 3: seal_position(input); break;
      case 4: seal_heap_word(input); break;
      case 5: append_record(input); break;
      case 6: change_superblock(input); break;
      case 7: change_root(input); break;
      default: small_bitmap(input); break;
    }
  }

 private:
  std::uint64_t used_bytes() { return *unseal(image_.word(kStateOffset), kSaltGrown); }
  Offset offset(Input& input) { return input.take<std::uint32_t>() % used_ & ~Offset{7}; }
  Word& word_at(Input& input) { return image_.word(offset(input)); }
  Geometry geometry() const { return super_.geometry; }
  Offset segment(Input& input) const {
    return super_.heap_offset + input.take<std::uint8_t>() % 4 * geometry().segment_bytes;
  }
  /// A number that is interesting as an offset, a count or a size, or any.
  std::uint64_t number(Input& input) {
    const auto value = input.take<std::uint64_t>();
    switch (input.take<std::uint8_t>() % 8) {
      case 0: return value & kMax48;
      case 1: return super_.heap_offset + (value % (std::uint64_t{1} << 20));
      case 2: return super_.heap_offset + (value % 64) * kBlockBytes;
      case 3: return used_ - value % 64;
      case 4: return value % 16;
      case 5: return kMax48 - value % 16;
      case 6: return value % used_ & ~Offset{7};
      default: return value;
    }
  }

  void seal_position(Input& input) {
    const std::uint64_t value = number(input) & kMax48;
    switch (input.take<std::uint8_t>() % 4) {
      case 0:
        image_.word(kStateOffset + offsetof(StatePage, grown_bytes)) =
            seal(super_.heap_offset + value % 9 * geometry().segment_bytes, kSaltGrown);
        break;
      case 1:
        image_.word(kStateOffset + offsetof(StatePage, retired_stamp)) = seal(value, kSaltRetired);
        break;
      default:
        image_.word(super_.head_offset + value % 2 * kLineBytes) =
            seal(number(input) & kMax48, salt_of_head(input.take<std::uint8_t>()));
        break;
    }
  }
  static std::uint16_t salt_of_head(std::uint8_t choice) {
    switch (choice % 4) {
      case 0: return kSaltHead;
      case 1: return salt_of_long_head(1 + choice / 4 % 4);
      default: return kSaltLineHead;
    }
  }
  void seal_heap_word(Input& input) {
    const auto kind = static_cast<std::uint64_t>(input.take<std::uint8_t>() % 6);
    const std::uint64_t payload =
        (kind << 40 | (number(input) & ((std::uint64_t{1} << 40) - 1))) & kMax48;
    if (input.take<std::uint8_t>() % 3 == 0) {
      image_.word(super_.segment_table_offset + input.take<std::uint8_t>() % 8 * kWordBytes) =
          seal(payload, kSaltSegment);
    } else {
      const std::uint64_t blocks = heap_layout::blocks_per_segment(geometry());
      image_.word(segment(input) + input.take<std::uint8_t>() % blocks * kWordBytes) =
          seal(payload, kSaltBlock);
    }
  }
  void small_bitmap(Input& input) {
    const std::uint64_t blocks = heap_layout::blocks_per_segment(geometry());
    const std::uint64_t block = input.take<std::uint8_t>() % blocks;
    image_.word(segment(input) +
                (blocks + block * heap_layout::kBitmapWords + input.take<std::uint8_t>() % 16) *
                    kWordBytes) = heap_layout::bitmap_word(input.take<std::uint32_t>());
  }
  void change_root(Input& input) {
    RootEntry entry;
    auto* at = image_.base() + super_.root_offset +
               input.take<std::uint8_t>() % geometry().root_entries * sizeof(entry);
    std::memcpy(&entry, at, sizeof(entry));
    switch (input.take<std::uint8_t>() % 4) {
      case 0:
        entry.name[input.take<std::uint8_t>() % kRootNameBytes] =
            static_cast<char>(input.take<std::uint8_t>());
        break;
      case 1: entry.type = number(input); break;
      case 2: entry.object = number(input); break;
      default: entry.bytes = number(input); break;
    }
    entry.check = crc32c(&entry, offsetof(RootEntry, check));
    std::memcpy(at, &entry, sizeof(entry));
  }
  void change_superblock(Input& input) {
    Superblock super = super_;
    const auto field = input.take<std::uint8_t>();
    const std::uint64_t value = number(input);
    switch (field % 6) {
      case 0: super.geometry.capacity_bytes = value; break;
      case 1: super.geometry.segment_bytes = std::uint64_t{1} << (value % 64); break;
      case 2: super.geometry.ring_bytes = value % 64 * kPageBytes; break;
      case 3: super.geometry.log_slots = static_cast<std::uint32_t>(value % 2048); break;
      case 4: super.geometry.root_entries = static_cast<std::uint32_t>(value); break;
      default: *(&super.root_offset + value % 5) = number(input); break;
    }
    if (field < 128 && super.geometry.segment_bytes != 0) lay_out(super);
    if (field % 3 == 0) move_tables(input, super);
    super.crc = crc32c(&super, offsetof(Superblock, crc));
    std::memcpy(image_.base(), &super, sizeof(super));
  }
  /// As raised limits would: to whole pages, mostly of segments that say so.
  void move_tables(Input& input, Superblock& super) {
    ++super.generation;
    for (Offset* table : {&super.root_offset, &super.head_offset, &super.segment_table_offset,
                          &super.ring_offset}) {
      const auto where = input.take<std::uint8_t>();
      if (where % 2 == 0)
        *table = round_down(super_.heap_offset + where / 2 * 8 * kPageBytes, kPageBytes);
    }
    const auto first = input.take<std::uint8_t>() % 4;
    for (std::uint64_t i = first; i < first + 3u; ++i)
      image_.word(super_.segment_table_offset + i * kWordBytes) =
          heap_layout::segment_word(heap_layout::SegmentKind::kTables);
  }
  /// A record as an engine would write it, behind those that are there, with any contents.
  void append_record(Input& input) {
    const std::uint64_t slot = input.take<std::uint8_t>() % 2;
    Word& head_word = image_.word(super_.head_offset + slot * kLineBytes);
    const auto torn_head = unseal(head_word, kSaltHead);
    const auto line_head = unseal(head_word, kSaltLineHead);
    if (!torn_head && (!line_head || *line_head % LineLog::kLineWords != 0)) return;
    const Ring ring{&image_.word(super_.ring_offset + slot * geometry().ring_bytes),
                    geometry().ring_bytes / kWordBytes, &head_word};
    RecordLog log = torn_head ? RecordLog(TornbitLog(ring, *torn_head, *torn_head))
                              : RecordLog(LineLog(ring, *line_head, *line_head));
    auto reader = log.reader();
    std::uint64_t timestamp = 0;
    std::uint64_t last = 0;
    std::vector<Word> words;
    std::uint64_t end = reader.position();
    while (reader.read(timestamp, words) == record::Found::kRecord) {
      end = reader.position();
      last = timestamp;
    }
    log->continue_at(end);
    words.assign(1, 0);
    for (int entries = input.take<std::uint8_t>() % 4; entries >= 0; --entries) {
      const auto kind = static_cast<record::Kind>(input.take<std::uint8_t>() % 4);
      const std::uint64_t values =
          kind == record::Kind::kRun ? 1 + input.take<std::uint8_t>() % 8 : 2;
      words.push_back(record::entry_head(number(input) & ((Word{1} << 47) - 1), values, kind));
      for (std::uint64_t i = 0; i < values; ++i) words.push_back(number(input));
      if (kind == record::Kind::kSpill) seal_spill(words);
      if (entries == 0) words[words.size() - values - 1] |= record::kLast;
    }
    timestamp = (input.take<std::uint8_t>() % 8 == 0 ? number(input)
                                                     : last + 1 + input.take<std::uint8_t>() % 4) &
                kMax48;
    const std::uint32_t crc = record::checksum(timestamp, {words.data() + 1, words.size() - 1});
    words[0] = record::header(timestamp, crc);
    if (log.log_words(words.size()) <= log->free_words()) (void)log.append(domain_, words, crc);
  }
  /// Makes the checksum of spilled entries right, wherever they are said to stand.
  void seal_spill(std::vector<Word>& words) {
    const std::uint64_t count = words[words.size() - 2] % (std::uint64_t{1} << 17);
    const Offset at = record::entry_offset(words[words.size() - 3]);
    if (!inside(at, count * kWordBytes, 0, image_.bytes())) return;
    words[words.size() - 2] = count;
    words[words.size() - 1] = crc32c(image_.base() + at, count * kWordBytes);
  }

  Image& image_;
  Superblock super_;
  std::uint64_t used_;
  Dram domain_;
};

void open_and_use(Image& image) {
  try {
    auto pool = image.pool(6);
    if (pool) (void)testing::walk(pool.value());
  } catch (const Exception&) {  // a clean refusal
  }
  try {
    auto region = image.region();
    if (!region) return;
    Heap heap(*region.value());
    std::vector<std::string> findings;
    if (heap.open(&findings)) (void)heap.usage();
  } catch (const Exception&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const Image specimen = testing::make_specimen();
  static Image image = specimen;
  image = specimen;
  Mutator mutator(image);
  Input input(data, bytes);
  for (int mutations = 0; !input.empty() && mutations < 64; ++mutations) mutator.apply(input);
  allowed_bytes = 4 * static_cast<std::int64_t>(image.bytes());
  open_and_use(image);
  open_and_use(image);
  allowed_bytes = -1;
  return 0;
}
