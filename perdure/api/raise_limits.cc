// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/raise_limits.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "perdure/api/pool_storage.h"
#include "perdure/domain/any_memory.h"
#include "perdure/heap/layout.h"
#include "perdure/log/log_area.h"

namespace perdure {
namespace {

class Raising {
 public:
  /// `version`: that the pool has afterwards.
  Raising(Region& region, Primitives& primitives, const Limits& limits, std::uint32_t version)
      : region_(&region),
        primitives_(&primitives),
        now_(region.superblock()),
        next_(now_),
        first_segment_(region.segments()) {
    Geometry& g = next_.geometry;
    g.capacity_bytes = std::max(g.capacity_bytes, limits.capacity_bytes);
    g.log_slots = std::max(g.log_slots, limits.log_slots);
    g.root_entries = std::max(g.root_entries, limits.root_entries);
    next_.version = version;
    ++next_.generation;
    place_tables();
  }

  /// Errors: kInvalid, kNoSpace for limits that no pool, or not this one, can have.
  Result<void> plan() {
    if (auto valid = seal_superblock(next_, region_->path()); valid || end_ <= capacity())
      return valid;
    return Error{Code::kNoSpace,
                 region_->path() + ": the tables for these limits take " +
                     std::to_string(end_ - begin_) +
                     " bytes of a capacity that is used up; raise the capacity, too, to at least " +
                     std::to_string(end_)};
  }

  Result<void> recover() {  // so that the logs are empty
    LogArea logs(*region_);
    if (auto opened = logs.open(); !opened) return opened;
    if (auto recovered = logs.recover(*primitives_); !recovered) return recovered.error();
    return {};
  }

  Result<void> run() {
    // From here on an open does not take for granted that what it finds is durable.
    if (!region_->say_changed()) return sync_failed();
    if (logs_move()) {  // 1
      fill_heads(now_);
      flush(heads_of(now_), Site::kHead);
      if (!primitives_->fence(Site::kHeadFence)) return sync_failed();
    }
    if (end_ > begin_) {  // 2
      if (auto extended = region_->backing().extend(small_tables_, end_); !extended)
        return extended;
    }
    write_tables();
    // Orders: the tables before a superblock that leads to them.
    if (!primitives_->fence(Site::kRaiseFence)) return sync_failed();
    write_superblock(region_->other_superblock_at());  // 3
    // Orders: one whole copy before the other one is overwritten.
    if (!primitives_->fence(Site::kRaiseFence)) return sync_failed();
    write_superblock(other_superblock(region_->other_superblock_at()));  // 4
    if (end_ > begin_) {
      Word* const grown = &region_->state()->grown_bytes.word;
      primitives_->store(grown, seal(end_, kSaltGrown));
      primitives_->flush(grown, kWordBytes, Site::kRaise);
    }
    // Orders: the copies before transactions whose records count on them.
    if (!primitives_->fence(Site::kRaiseFence)) return sync_failed();
    const auto before = tables_of(now_);
    const auto after = tables_of(next_);
    for (std::size_t i = 0; i < before.size(); ++i) {  // 5
      if (before[i].begin != after[i].begin)
        region_->backing().release(before[i].begin, before[i].bytes);
    }
    return {};
  }

 private:
  std::uint64_t capacity() const { return next_.geometry.capacity_bytes; }
  bool logs_move() const { return next_.ring_offset != now_.ring_offset; }

  static std::uint64_t rings_and_sums(const Superblock& super) {
    return page_sums_of(super).end() - super.ring_offset;
  }
  /// A table that is too small gets a place behind the end of the pool: first the rings and the sums
  /// behind them, which take no blocks before they are used.
  void place_tables() {
    begin_ = end_ = small_tables_ = region_->grown_bytes();
    const auto place = [&](Offset& table, std::uint64_t bytes_now, std::uint64_t bytes) {
      if (bytes <= bytes_now) return;
      table = end_;
      end_ += bytes;
    };
    place(next_.ring_offset, rings_and_sums(now_), rings_and_sums(next_));
    small_tables_ = end_;
    place(next_.head_offset, heads_of(now_).bytes, heads_of(next_).bytes);
    place(next_.root_offset, roots_of(now_).bytes, roots_of(next_).bytes);
    place(next_.segment_table_offset, segment_table_of(now_).bytes, segment_table_of(next_).bytes);
    const std::uint64_t segment_bytes = next_.geometry.segment_bytes;
    end_ = begin_ + round_up(end_ - begin_, segment_bytes);
    small_tables_ = std::min(small_tables_, end_ - kPageBytes);  // so that the file is as long
  }

  void write_tables() {
    if (logs_move()) {
      fill_heads(next_);
      flush(heads_of(next_), Site::kRaise);
      // Sums do not move with the rings: all areas are open.
      const Section words = area_words_of(next_);
      for (Offset at = words.begin; at < words.end(); at += kWordBytes)
        primitives_->store(region_->word(at), 0);
      flush(words, Site::kRaise);
    }
    if (next_.root_offset != now_.root_offset) copy(roots_of(now_), roots_of(next_));
    const bool other_segments = next_.segment_table_offset != now_.segment_table_offset;
    if (other_segments) copy(segment_table_of(now_), segment_table_of(next_));
    Word* const table = region_->word(next_.segment_table_offset);
    const std::uint64_t segments = (end_ - begin_) / next_.geometry.segment_bytes;
    for (std::uint64_t i = 0; i < segments; ++i)
      primitives_->store(table + first_segment_ + i,
                         heap_layout::segment_word(heap_layout::SegmentKind::kTables));
    if (segments != 0)
      primitives_->flush(table + first_segment_, segments * kWordBytes, Site::kRaise);
  }

  /// What lies behind the end of the pool may be what a crash has left there.
  void copy(const Section& from, const Section& to) {
    const Word* const source = region_->word(from.begin);
    Word* const target = region_->word(to.begin);
    const std::uint64_t words = from.bytes / kWordBytes;
    for (std::uint64_t i = 0; i < to.bytes / kWordBytes; ++i)
      primitives_->store(target + i, i < words ? load_word(source + i) : 0);
    flush(to, Site::kRaise);
  }
  void fill_heads(const Superblock& super) {
    for (std::uint64_t slot = 0; slot < super.geometry.log_slots; ++slot)
      primitives_->store(region_->word(super.head_offset + slot * kLineBytes), seal(0, kSaltHead));
  }
  void write_superblock(Offset at) {
    std::array<Word, sizeof(Superblock) / kWordBytes> words{};
    std::memcpy(words.data(), &next_, sizeof(next_));
    for (std::size_t i = 0; i < words.size(); ++i)
      primitives_->store(region_->word(at) + i, words[i]);
    primitives_->flush(region_->word(at), sizeof(next_), Site::kRaise);
  }
  void flush(const Section& table, Site site) {
    primitives_->flush(region_->word(table.begin), table.bytes, site);
  }

  Error sync_failed() const {
    return {Code::kPoisoned,
            region_->path() + ": a sync failed while limits were raised; nothing was lost, reopen"};
  }

  Region* region_;
  Primitives* primitives_;
  const Superblock now_;
  Superblock next_;
  const std::uint64_t first_segment_;  // of the new ones
  Offset begin_ = 0;                   // of the new segments
  Offset small_tables_ = 0;            // behind the rings, if they are there
  Offset end_ = 0;
};

}  // namespace

Result<void> raise_limits(Region& region, Primitives& primitives, const Limits& limits) {
  if (!limits.are_above(Limits::of(region.geometry()))) return {};
  Raising newest(region, primitives, limits, kFormatVersion);
  // The tables of a newer version may take more than there is.
  Raising as_it_is(region, primitives, limits,
                   std::max(region.superblock().version, kTwoSuperblocksSinceVersion));
  auto planned = newest.plan();
  const bool upgrades = planned.ok();
  if (!upgrades) planned = as_it_is.plan();
  if (!planned) return planned;
  Raising& raising = upgrades ? newest : as_it_is;
  if (auto recovered = raising.recover(); !recovered) return recovered;
  return raising.run();
}

Result<void> raise_limits(const std::string& path, const ExpertOptions& options) {
  if (auto valid = check_options(path, options); !valid) return valid;
  const Limits limits = Limits::of(options);
  auto super = Region::read_superblock(path);
  if (!super) return super.error();
  if (!limits.are_above(Limits::of(super->geometry))) return {};
  Region::OpenOptions how;
  how.room_bytes = std::min(limits.capacity_bytes, kMaxCapacityBytes);
  auto opened = Region::open_file(path, options.domain, Region::Access::kReadWrite, how);
  if (!opened) return opened.error();
  Region& region = *opened.value();
  if (region.domain() != DomainKind::kSync) {
    AnyMemory domain(region.domain());
    PrimitivesOf primitives(domain);
    return raise_limits(region, primitives, limits);
  }
  SyncGroup<RegionDevice> group(RegionDevice(region), region.base());
  Sync<RegionDevice> domain(group);
  PrimitivesOf primitives(domain);
  return raise_limits(region, primitives, limits);
}

}  // namespace perdure
