// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/arena_wreck.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "perdure/checkpoint/arena_file.h"
#include "perdure/checkpoint/arena_heap.h"
#include "perdure/checkpoint/epoch_store.h"
#include "perdure/checkpoint/home_writer.h"

namespace perdure::checkpoint {
namespace {

constexpr std::uint64_t kAllBlocks = ~std::uint64_t{0};
constexpr std::uint64_t kPlaceBytes = std::uint64_t{2} << 20;  // an arena's address is a multiple
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
static_assert(sizeof(ArenaHeap) <= kPageBytes, "its head is in the first page");

std::uint64_t mask_of(const Piece& piece) {
  const std::uint64_t count = piece.bytes / kLineBytes;
  return (count == 64 ? kAllBlocks : (std::uint64_t{1} << count) - 1) << (piece.at / kLineBytes);
}

bool is_zero(const std::byte* bytes, std::size_t count) {
  return std::all_of(bytes, bytes + count, [](std::byte byte) { return byte == std::byte{0}; });
}

bool is_head(Storage& storage, Offset at) {
  SegmentHead head{};
  return storage.read(&head, sizeof(head), at) && head.magic == kSegmentMagic &&
         crc_of(head) == head.crc;
}

bool is_state(const StateSlot& state) {
  return state.magic == kStateMagic && crc_of(state) == state.crc;
}

}  // namespace

bool ArenaWreck::seems_one(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return false;
  std::uint64_t magic = 0;
  if (read_at(file.get(), &magic, sizeof(magic), 0) && magic == kArenaMagic) return true;
  return std::any_of(std::begin(kStateOffset), std::end(kStateOffset), [&](Offset at) {
    StateSlot state{};
    return read_at(file.get(), &state, sizeof(state), at) && is_state(state);
  });
}

Result<std::unique_ptr<ArenaWreck>> ArenaWreck::open(const std::string& path) {
  auto file = open_locked(path, true);
  if (!file) return file.error();
  std::unique_ptr<ArenaWreck> wreck(new ArenaWreck(path, std::move(file).value()));
  if (auto found = wreck->find_superblock(); !found) return found.error();
  if (auto found = wreck->find_epoch(); !found) return found.error();
  return wreck;
}

// ---- the superblock -----------------------------------------------------------------------------

Result<void> ArenaWreck::find_superblock() {
  ArenaSuperblock found{};
  (void)storage_.read(&found, sizeof(found), 0);
  const bool whole = found.magic == kArenaMagic && crc_of(found) == found.crc;
  if (whole && found.version == kArenaVersion && found.capacity_bytes <= kMaxArenaBytes &&
      found.segment_bytes <= 2 * kMaxArenaBytes && found.segment_offset[1] <= 4 * kMaxArenaBytes)
    storage_.lengthen(file_bytes(found));
  auto super = EpochStore::read_superblock(storage_, path_);
  if (super) {
    super_ = super.value();
    return {};
  }
  if (!whole && rebuild_superblock(found)) return {};
  return super.error();
}

/// What one part of the superblock lacks, the others and the file tell.
bool ArenaWreck::rebuild_superblock(const ArenaSuperblock& found) {
  const std::uint64_t bytes = storage_.file_bytes();
  if (agrees(found.capacity_bytes, found.segment_bytes, found) ||
      agrees(found.segment_offset[0] - kHomeOffset,
             found.segment_offset[1] - found.segment_offset[0], found))
    return true;
  // Where one segment begins the other one follows.
  for (Offset at = kHomeOffset + kMinArenaBytes; at + kPageBytes <= bytes;
       at =
           std::max(at + kPageBytes, round_down(storage_.next_data(at + kPageBytes), kPageBytes))) {
    if (!is_head(storage_, at)) continue;
    if (agrees(at - kHomeOffset, (bytes - at) / 2, found) ||
        agrees(bytes - kHomeOffset - 2 * (bytes - at), bytes - at, found))
      return true;
  }
  return false;
}

/// Takes an arena of these sizes as super_ if the file is one.
bool ArenaWreck::agrees(std::uint64_t capacity, std::uint64_t segment,
                        const ArenaSuperblock& found) {
  const auto planned = [&](std::uint64_t address) -> std::optional<ArenaSuperblock> {
    auto plan = EpochStore::plan(path_, capacity, segment, address);
    if (!plan || plan.value().segment_bytes != segment ||
        file_bytes(plan.value()) != storage_.file_bytes())
      return {};
    ArenaSuperblock super = plan.value();
    std::copy(std::begin(found.uuid), std::end(found.uuid), super.uuid);
    super.compatible = found.compatible;
    super.crc = crc_of(super);
    return super;
  };
  const auto take = [&](const std::optional<ArenaSuperblock>& super, const char* why) {
    if (!super) return false;
    super_ = *super;
    mended_.push_back(std::string("the superblock: made anew, ") + why);
    return true;
  };
  const char* const by_sum = "as its checksum confirms";
  const auto by_itself = planned(found.address);
  if (by_itself && by_itself->crc == found.crc) return take(by_itself, by_sum);
  const auto anywhere = planned(kMinArenaBytes);
  if (!anywhere) return false;
  super_ = *anywhere;
  auto log = LogSalvage::of(storage_, super_, path_);
  if (!log) return false;
  log_ = std::make_unique<LogSalvage>(std::move(log).value());
  const auto by_heap = planned(recorded_address());
  if (by_heap && by_heap->crc == found.crc) return take(by_heap, by_sum);
  return (is_head(storage_, super_.segment_offset[0]) ||
          is_head(storage_, super_.segment_offset[1])) &&
         take(by_heap, "of the sizes that the log shows and the address that the heap has");
}

/// Where the heap says that it is.
std::uint64_t ArenaWreck::recorded_address() {
  alignas(ArenaHeap) std::byte page[kPageBytes];
  (void)storage_.read(page, sizeof(page), super_.home_offset);
  (void)log_->for_each_piece([&](std::uint64_t, const Piece& piece) {
    if (piece.page != 0) return;
    if (piece.data == nullptr) {
      std::memset(page + piece.at, 0, piece.bytes);
    } else {
      std::memcpy(page + piece.at, piece.data, piece.bytes);
    }
  });
  const auto* const heap = reinterpret_cast<const ArenaHeap*>(page);
  if (!heap->has_head(super_.capacity_bytes)) return 0;
  return is_aligned(heap->recorded_address(), kPlaceBytes) ? heap->recorded_address() : 0;
}

// ---- the epoch ----------------------------------------------------------------------------------

std::uint64_t ArenaWreck::dropped_epochs() const {
  return log_->newest() > epoch() ? log_->newest() - epoch() : 0;
}

Result<void> ArenaWreck::find_epoch() {
  auto log = LogSalvage::of(storage_, super_, path_);
  if (!log) return log.error();
  log_ = std::make_unique<LogSalvage>(std::move(log).value());
  mended_.insert(mended_.end(), log_->mended().begin(), log_->mended().end());
  if (dropped_epochs() != 0) {
    const std::string missing = std::to_string(epoch() + 1);
    if (epoch() == 0)
      return refusal(
          "epoch 1 of the log is damaged, and no epoch before it was ever saved; "
          "restore it from a backup");
    lost_.push_back("epochs " + missing + " to " + std::to_string(log_->newest()) + ": epoch " +
                    missing + " of the log does not check, although " + log_->proof_of_newest());
  }
  const Offset end = log_->end().value_or(super_.segment_offset[0]);
  for (const Offset at : {super_.segment_offset[0], super_.segment_offset[1], end}) {
    if (!storage_.has_gap(at, kPageRecordBytes)) continue;
    lost_.push_back("the log cannot be read from byte " + std::to_string(at) +
                    " on: whether epochs after epoch " + std::to_string(epoch()) +
                    " were there is not known");
    break;
  }
  if (auto pieces = log_->for_each_piece(
          [&](std::uint64_t, const Piece& piece) { covered_[piece.page] |= mask_of(piece); });
      !pieces)
    return pieces;
  return judge_home();
}

/// Home must not show what later epochs wrote: bringing them home had begun then, and of what the
/// damaged one wrote nobody knows where it is. Each first change of a block makes it another than it
/// was, so a block of home that has that value is later. Of a whole page only some blocks changed, which may
/// all be among those that the log has.
Result<void> ArenaWreck::judge_home() {
  std::unordered_map<std::uint64_t, std::uint64_t> seen;
  std::vector<std::byte> home(kPageBytes);
  std::uint64_t later = 0;
  std::uint64_t of_epoch = 0;
  const auto count = [&](std::uint64_t epoch) {
    ++later;
    of_epoch = epoch;
  };
  log_->for_each_later_piece([&](std::uint64_t epoch, const Piece& piece) {
    std::uint64_t mask = mask_of(piece) & ~covered(piece.page) & ~seen[piece.page];
    seen[piece.page] |= mask;
    const bool whole = piece.bytes == kPageBytes;
    if (mask == 0 || piece.data == nullptr || (whole && mask != kAllBlocks)) return;
    if (!storage_.read(home.data(), piece.bytes, byte_of(piece.page) + piece.at)) return;
    const auto same = [&](std::uint32_t block) {
      const std::size_t at = block * kLineBytes - piece.at;
      return std::memcmp(home.data() + at, piece.data + at, kLineBytes) == 0;
    };
    bool all = true;
    for (std::uint64_t left = mask; left != 0; left &= left - 1) {
      const bool one = same(static_cast<std::uint32_t>(std::countr_zero(left)));
      all = all && one;
      if (one && !whole) count(epoch);
    }
    if (all && whole) count(epoch);
  });
  if (later == 0) return {};
  return refusal("epoch " + std::to_string(epoch() + 1) +
                 " of the log is damaged, and home already has some of epoch " +
                 std::to_string(of_epoch) + " (" + std::to_string(later) +
                 " blocks or pages): no epoch can be proved as a whole, and a mixture of two would "
                 "have pointers that lead nowhere; restore it from a backup");
}

// ---- the copy -----------------------------------------------------------------------------------

Result<void> ArenaWreck::write(int fd, const std::string& path, bool zero_lost_pages) {
  auto plan = EpochStore::plan(path, super_.capacity_bytes, super_.segment_bytes, super_.address);
  if (!plan) return plan.error();
  const ArenaSuperblock& super = plan.value();
  if (auto reserved = reserve_arena(fd, super, usual_log_bytes(super.capacity_bytes), path);
      !reserved)
    return reserved;
  FileStorage to(Descriptor(::dup(fd)), checkpoint::file_bytes(super));
  if (auto copied = copy_home(to); !copied) return copied;
  if (!unreadable_.empty()) {
    const std::string which = std::to_string(unreadable_.size()) +
                              " pages of home, the first at byte " +
                              std::to_string(byte_of(unreadable_.front()));
    if (!zero_lost_pages)
      return refusal(
          which +
          ", cannot be read, and the log does not have them; restore it from a backup, or "
          "take them as zeros with --zero-lost-pages");
    for (const std::uint64_t page : unreadable_)
      lost_.push_back("the page at byte " + std::to_string(byte_of(page)) + ", address " +
                      std::to_string(super_.address + page * kPageBytes) +
                      ": cannot be read; zeros, as far as the log does not have it");
  }
  if (auto applied = apply_log(to); !applied) return applied;
  if (epoch() != 0) {
    if (auto judged = judge_heap(fd); !judged) return judged;
  }
  StateSlot state{kStateMagic, epoch(), 0, 0};
  state.crc = crc_of(state);
  if (!EpochStore::format(to, super) || !to.write(&state, sizeof(state), kStateOffset[0]))
    return io_error(path + ": writing the format");
  return {};
}

Result<void> ArenaWreck::copy_home(Storage& to) {
  std::vector<std::byte> buffer(kCopyBytes);
  const Offset end = super_.home_offset + super_.capacity_bytes;
  for (Offset at = super_.home_offset; at < end; at += buffer.size()) {
    at = std::max(at, round_down(storage_.next_data(at), kPageBytes));
    if (at >= end) break;
    buffer.resize(std::min<std::uint64_t>(kCopyBytes, end - at));
    (void)storage_.read(buffer.data(), buffer.size(), at);
    for (std::size_t i = 0; i < buffer.size(); i += kPageBytes) {
      const std::uint64_t page = (at - super_.home_offset + i) / kPageBytes;
      if (is_zero(buffer.data() + i, kPageBytes)) continue;
      unproved_bytes_ += kPageBytes - kLineBytes * std::uint64_t(std::popcount(covered(page)));
      if (!to.write(buffer.data() + i, kPageBytes, byte_of(page)))
        return io_error(path_ + ": writing a copy of home");
    }
  }
  for (const auto& gap : storage_.gaps()) {
    const Offset begin = std::max(gap.begin, super_.home_offset);
    const Offset stop = std::min(gap.begin + gap.bytes, end);
    for (Offset at = round_down(begin, kPageBytes); at < stop; at += kPageBytes) {
      const std::uint64_t page = (at - super_.home_offset) / kPageBytes;
      if (covered(page) != kAllBlocks && (unreadable_.empty() || unreadable_.back() != page))
        unreadable_.push_back(page);
    }
  }
  return {};
}

/// First what home should have already: where it differs, it is damaged.
Result<void> ArenaWreck::apply_log(Storage& to) {
  std::unordered_map<std::uint64_t, std::uint64_t> old;  // blocks whose last change home has
  for (const bool later : {false, true}) {
    HomeWriter home(to, super_);
    bool written = true;
    auto pieces = log_->for_each_piece([&](std::uint64_t epoch, const Piece& piece) {
      if (later != (epoch > log_->home_epoch())) {
        if (!later) old[piece.page] &= ~mask_of(piece);
        return;
      }
      if (!later) old[piece.page] |= mask_of(piece);
      written = written && home.put(piece);
    });
    if (!pieces) return pieces;
    if (!written || !home.finish()) return io_error(path_ + ": writing a copy of the log");
    if (!later) compare_home(to, old);
  }
  for (const auto& [page, mask] : covered_)
    proved_bytes_ += kLineBytes * std::uint64_t(std::popcount(mask));
  return {};
}

void ArenaWreck::compare_home(Storage& copy,
                              const std::unordered_map<std::uint64_t, std::uint64_t>& blocks) {
  std::vector<std::byte> was(kPageBytes);
  std::vector<std::byte> is(kPageBytes);
  std::vector<std::uint64_t> differing;
  for (const auto& [page, mask] : blocks) {
    if (mask == 0 || storage_.has_gap(byte_of(page), kPageBytes)) continue;
    if (!storage_.read(was.data(), kPageBytes, byte_of(page)) ||
        !copy.read(is.data(), kPageBytes, byte_of(page)))
      continue;
    for (std::uint64_t left = mask; left != 0; left &= left - 1) {
      const auto at = static_cast<std::size_t>(std::countr_zero(left)) * kLineBytes;
      if (std::memcmp(was.data() + at, is.data() + at, kLineBytes) == 0) continue;
      differing.push_back(page);
      break;
    }
  }
  std::sort(differing.begin(), differing.end());
  for (const std::uint64_t page : differing) {
    const std::string what = "the page at byte " + std::to_string(byte_of(page)) +
                             ": home differs from what the log says of it, which was taken";
    if (covered(page) == kAllBlocks) {
      mended_.push_back(what);
    } else {
      lost_.push_back(what + "; what stands beside it cannot be proved");
    }
  }
}

Result<void> ArenaWreck::judge_heap(int fd) {
  const std::uint64_t bytes = super_.capacity_bytes;
  if (bytes < ArenaHeap::kLeastCapacity)
    return refusal("an arena of " + std::to_string(bytes) +
                   " bytes has no room for its heap; restore it from a backup");
  void* const got = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                           static_cast<off_t>(super_.home_offset));
  if (got == MAP_FAILED) return io_error(path_ + ": mapping the copy");
  auto* const heap = static_cast<ArenaHeap*>(got);
  std::string fault = heap->find_fault(bytes, super_.address);
  if (!fault.empty()) {
    for (std::string& what : heap->mend(bytes, super_.address)) lost_.push_back(std::move(what));
    lost_.push_back(fault + ": its tables were made anew");
    fault = heap->find_fault(bytes, super_.address);
  }
  ::munmap(got, bytes);
  if (!fault.empty()) return refusal(fault + "; restore it from a backup");
  return {};
}

}  // namespace perdure::checkpoint
