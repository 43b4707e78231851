// SPDX-License-Identifier: BSD-3-Clause
// Copies what changed to the shadow, the image as the epoch before left it, and notes where.
//
// Which slot a page has is known from tables in memory of the runtime's own, which an image does not hold:
// after exec and after a resume they are made anew, from the image's map.
#include <sys/mman.h>
#include <sys/syscall.h>

#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/runtime.h"
#include "perdure/base/crc32c.h"
#include "perdure/checkpoint/page_difference.h"

namespace perdure::run {
namespace {

constexpr std::uint64_t kPages = kUserEnd / kPageBytes + 1;
constexpr std::uint64_t kChunkPages =
    1024;  // counted together, so that empty ranges are passed quickly
constexpr std::uint32_t kToPages = 22, kToBlocks = 16;  // ThyNVM, section 4.2
constexpr std::uint8_t kHasShadow = 1, kWhole = 2;
// A page that was written nearly all over is copied, without being compared, the next times: that is half of the work.
constexpr std::uint8_t kCopies = 4, kMostCopies = 3 * kCopies;  // how often yet, above the flags
constexpr std::uint32_t kNearlyAll = 56;
constexpr std::uint32_t kPopulatedAtOnce = 512, kMostAhead = 1 << 14;  // slots

/// Memory that the kernel gives as it is touched.
struct Tables {
  std::uint32_t slot_of[kPages];  // 0: none
  std::uint32_t used_in[kPages / kChunkPages + 1];
  std::uint32_t stamp[kMostMemorySlots];  // the last epoch that tried to end and saw the page
  std::uint32_t free[kMostMemorySlots];
  std::uint8_t flags[kMostMemorySlots];
  std::uint64_t map_changed[kMostMemorySlots / 512];  // blocks of the map's pages
  std::uint32_t map_pages[kMostMemorySlots / 512];    // of which some changed
};
static_assert(kSlotsBase + sizeof(Tables) < kShadowBase);
Tables& tables() { return *reinterpret_cast<Tables*>(kSlotsBase); }

std::uint32_t free_slots, map_pages, attempt;
std::uint32_t populated;        // memory slots whose shadow the kernel has given
std::uint32_t slots_last_time;  // used when the epoch before ended
std::uint64_t table_bytes;
std::uint64_t
    table_pages;  // of which the shadow has what the image holds; a longer table once left more there
bool full;

// Pages on their way from memory: by the time that the last of them is named, the first has arrived.
struct Pending {
  std::uint64_t address;
  const char* now;
};
constexpr std::uint32_t kMostPending = 4;
Pending pending[kMostPending];
std::uint32_t pending_count;

char* shadow_of(std::uint32_t slot) {
  return reinterpret_cast<char*>(kShadowBase + std::uint64_t{slot} * kPageBytes);
}
std::uint64_t* map() { return reinterpret_cast<std::uint64_t*>(shadow_of(kMapSlot)); }

bool all_zeros(const char* page) {
  return page[0] == 0 && __builtin_memcmp(page, page + 1, kPageBytes - 1) == 0;
}

checkpoint::PageDifference difference;
std::uint64_t changed_blocks(const char* now, const char* then) {
  return difference(reinterpret_cast<const std::byte*>(now),
                    reinterpret_cast<const std::byte*>(then));
}

void note(std::uint32_t slot, std::uint32_t zeros, std::uint64_t mask) {
  Shared& with = shared();
  if (with.change_count == kMostChanges) {
    full = true;
    return;
  }
  if (zeros != 0 && with.change_count > 0) {
    SlotChange& last = with.changes[with.change_count - 1];
    if (last.zeros != 0 && last.slot + last.zeros == slot) {
      ++last.zeros;
      return;
    }
  }
  with.changes[with.change_count++] = {slot, zeros, mask};
}

/// Returns how many blocks changed.
std::uint32_t copy_blocks(std::uint32_t slot, const char* now, std::uint64_t mask) {
  char* const then = shadow_of(slot);
  std::uint32_t count = 0;
  for (; mask != 0; mask &= mask - 1, ++count) {
    const int block = __builtin_ctzll(mask);
    __builtin_memcpy(then + block * 64, now + block * 64, 64);
  }
  return count;
}

/// A page of the table, or the head: always compared.
void stage(std::uint32_t slot, const char* now) {
  const std::uint64_t mask = changed_blocks(now, shadow_of(slot));
  if (mask == 0) return;
  copy_blocks(slot, now, mask);
  note(slot, 0, mask);
}

void stage_whole(std::uint32_t slot, const char* now) {
  __builtin_memcpy(shadow_of(slot), now, kPageBytes);
  note(slot, all_zeros(now) ? 1 : 0, ~std::uint64_t{0});
  ++shared().whole_pages;
}

void set_address(std::uint32_t memory_slot, std::uint64_t address) {
  map()[memory_slot] = address;
  const std::uint32_t page = memory_slot / 512;
  std::uint64_t& changed = tables().map_changed[page];
  if (changed == 0) tables().map_pages[map_pages++] = page;
  changed |= std::uint64_t{1} << (memory_slot % 512 / 8);
}

/// Has the kernel give the shadow's pages for memory slots before this one, before they are written to: a fault for each
/// of them takes several times as long as the copy.
void populate(std::uint32_t end) {
  const std::uint64_t capacity = shared().capacity_slots - kMemorySlot;
  if (end > capacity) end = static_cast<std::uint32_t>(capacity);
  if (end <= populated) return;
  syscall(SYS_madvise, shadow_of(populated + kMemorySlot), (end - populated) * kPageBytes,
          MADV_POPULATE_WRITE);  // Where it fails, the faults do it.
  populated = end;
}

std::uint32_t take_slot(std::uint64_t address) {
  Shared& with = shared();
  std::uint32_t slot;
  if (free_slots > 0) {
    slot = tables().free[--free_slots];
  } else if (with.memory_slots < with.capacity_slots - kMemorySlot) {
    slot = with.memory_slots++;
    if (slot >= populated) populate(slot + kPopulatedAtOnce);
  } else {
    return 0;
  }
  set_address(slot, address);
  tables().slot_of[address / kPageBytes] = slot + kMemorySlot;
  ++tables().used_in[address / kPageBytes / kChunkPages];
  return slot + kMemorySlot;
}

void give_slot_back(std::uint64_t page) {
  const std::uint32_t slot = tables().slot_of[page] - kMemorySlot;
  tables().slot_of[page] = 0;
  --tables().used_in[page / kChunkPages];
  tables().free[free_slots++] = slot;
  set_address(slot, 0);
}

bool stage_memory(std::uint64_t address, const char* now) {
  Shared& with = shared();
  ++with.dirty_pages;
  if (with.recording == Recording::kNothing) return true;
  std::uint32_t slot = tables().slot_of[address / kPageBytes];
  if (slot == 0) slot = take_slot(address);
  if (slot == 0) {
    because("it has more memory than the image, made for twice this machine's, has room for");
    return false;
  }
  tables().stamp[slot - kMemorySlot] = attempt;
  std::uint8_t& flags = tables().flags[slot - kMemorySlot];
  if ((flags & kHasShadow) == 0 || with.recording == Recording::kPages) {
    flags |= kHasShadow;
    stage_whole(slot, now);
  } else if (flags >= kCopies) {
    flags -= kCopies;
    stage_whole(slot, now);
  } else if (const std::uint64_t mask = changed_blocks(now, shadow_of(slot)); mask != 0) {
    const auto count = static_cast<std::uint32_t>(__builtin_popcountll(mask));
    if (count > kToPages) flags |= kWhole;
    if (count < kToBlocks) flags &= static_cast<std::uint8_t>(~kWhole);
    if (count >= kNearlyAll) flags |= kMostCopies;
    if ((flags & kWhole) != 0) {
      stage_whole(slot, now);
    } else {
      with.blocks += copy_blocks(slot, now, mask);
      note(slot, 0, mask);
    }
  }
  if (full) because("more changed than the list of changes has room for");
  return !full;
}

/// Calls use(page number) for the pages of the range that have a slot.
template <class Use>
void for_each_page(std::uint64_t begin, std::uint64_t end, Use use) {
  end /= kPageBytes;
  for (std::uint64_t page = begin / kPageBytes; page < end;) {
    const std::uint64_t stop = (page / kChunkPages + 1) * kChunkPages;
    if (tables().used_in[page / kChunkPages] != 0) {
      for (; page < end && page < stop; ++page) {
        if (tables().slot_of[page] != 0) use(page);
      }
    }
    page = stop;
  }
}

}  // namespace

long open_shadow(bool resumed) {
  const long room =
      syscall(SYS_mmap, kSlotsBase, sizeof(Tables), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (failed(room)) return room;
  difference = checkpoint::best_page_difference();
  free_slots = map_pages = attempt = 0;
  Shared& with = shared();
  populated = slots_last_time = with.memory_slots;
  with.change_count = 0;
  const auto* const head = reinterpret_cast<const ImageHead*>(shadow_of(0));
  table_pages = resumed ? (head->table_bytes + kPageBytes - 1) / kPageBytes : 0;
  for (std::uint32_t slot = with.memory_slots; slot-- > 0;) {
    const std::uint64_t address = map()[slot];
    if (address != 0 && resumed) {
      tables().slot_of[address / kPageBytes] = slot + kMemorySlot;
      ++tables().used_in[address / kPageBytes / kChunkPages];
      continue;
    }
    tables().free[free_slots++] = slot;
    if (address != 0) set_address(slot, 0);  // of the program before exec
  }
  return 0;
}

void begin_staging() {
  ++attempt;
  table_bytes = 0;
  full = false;
  pending_count = 0;
}

bool append(RecordKind kind, const void* a, std::size_t a_bytes, const void* b,
            std::size_t b_bytes) {
  const std::uint64_t bytes = a_bytes + b_bytes;
  if (bytes > kMostTableBytes ||
      table_bytes + sizeof(RecordHeader) + padded(bytes) > kMostTableBytes) {
    because("its areas, threads and files take more than 16 MiB to tell");
    return false;
  }
  RecordHeader header{kind, crc32c(a, a_bytes), static_cast<std::uint32_t>(bytes), 0};
  if (b_bytes != 0) header.payload_crc = crc32c(b, b_bytes, header.payload_crc);
  header.crc = crc32c(&header, sizeof header - sizeof header.crc);
  char* at = workspace().table + table_bytes;
  __builtin_memcpy(at, &header, sizeof header);
  at += sizeof header;
  __builtin_memcpy(at, a, a_bytes);
  if (b_bytes != 0) __builtin_memcpy(at + a_bytes, b, b_bytes);
  __builtin_memset(at + bytes, 0, padded(bytes) - bytes);
  table_bytes += sizeof header + padded(bytes);
  return true;
}

bool stage_pending() {
  bool good = true;
  for (std::uint32_t i = 0; good && i < pending_count; ++i)
    good = stage_memory(pending[i].address, pending[i].now);
  pending_count = 0;
  return good;
}

bool stage_page(std::uint64_t address, const char* now) {
  checkpoint::fetch_page_early(reinterpret_cast<const std::byte*>(now));
  if (const std::uint32_t slot = tables().slot_of[address / kPageBytes]; slot != 0)
    checkpoint::fetch_page_early(reinterpret_cast<const std::byte*>(shadow_of(slot)));
  pending[pending_count++] = {address, now};
  return pending_count < kMostPending || stage_pending();
}

void drop_pages(std::uint64_t begin, std::uint64_t end) {
  for_each_page(begin, end, give_slot_back);
}

void prepare_for_next() {
  const std::uint32_t used = shared().memory_slots;
  const std::uint32_t more = used - slots_last_time;
  slots_last_time = used;
  populate(used + (more < kMostAhead ? more : kMostAhead));
}

bool is_recorded(std::uint64_t address) { return tables().slot_of[address / kPageBytes] != 0; }

bool any_recorded(std::uint64_t begin, std::uint64_t end) {
  bool any = false;
  for_each_page(begin, end, [&](std::uint64_t) { any = true; });
  return any;
}

void drop_pages_not_staged(std::uint64_t begin, std::uint64_t end) {
  for_each_page(begin, end, [](std::uint64_t page) {
    if (tables().stamp[tables().slot_of[page] - kMemorySlot] != attempt) give_slot_back(page);
  });
}

bool finish_staging() {
  char* const table = workspace().table;
  const std::uint64_t whole = (table_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  __builtin_memset(table + table_bytes, 0, whole - table_bytes);
  for (std::uint64_t at = 0; at < whole; at += kPageBytes) {
    const std::uint32_t slot = kTableSlot + static_cast<std::uint32_t>(at / kPageBytes);
    at / kPageBytes < table_pages ? stage(slot, table + at) : stage_whole(slot, table + at);
  }
  if (table_pages < whole / kPageBytes) table_pages = whole / kPageBytes;
  for (std::uint32_t i = 0; i < map_pages; ++i) {
    std::uint64_t& changed = tables().map_changed[tables().map_pages[i]];
    note(kMapSlot + tables().map_pages[i], 0, changed);
    changed = 0;
  }
  map_pages = 0;
  alignas(8) static char head_page[kPageBytes];
  ImageHead head{kImageMagic, kFormatVersion, sizeof head, table_bytes, shared().memory_slots, 0};
  head.crc = crc32c(&head, sizeof head - sizeof head.crc);
  __builtin_memcpy(head_page, &head, sizeof head);
  stage(0, head_page);
  if (full) because("more changed than the list of changes has room for");
  return !full;
}

}  // namespace perdure::run
