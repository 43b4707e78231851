// SPDX-License-Identifier: BSD-3-Clause
// EpochStore: making a file, judging one, and recovery.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "perdure/base/check.h"
#include "perdure/checkpoint/epoch_store.h"

namespace perdure::checkpoint {
namespace {

Error damaged(const std::string& name, const std::string& what) {
  return {Code::kCorrupt, name + ": " + what + "; restore it from a backup"};
}

/// The offsets that follow from the two sizes.
void lay_out(ArenaSuperblock& super) {
  super.home_offset = kHomeOffset;
  super.segment_offset[0] = kHomeOffset + super.capacity_bytes;
  super.segment_offset[1] = super.segment_offset[0] + super.segment_bytes;
}

Result<void> check_sizes(const ArenaSuperblock& super, const std::string& name) {
  const auto bad = [&](const std::string& field, std::uint64_t value, const std::string& rule) {
    return Error{Code::kInvalid,
                 name + ": " + field + " is " + std::to_string(value) + ", must be " + rule};
  };
  if (super.capacity_bytes < kMinArenaBytes || super.capacity_bytes > kMaxArenaBytes ||
      !is_aligned(super.capacity_bytes, kPageBytes))
    return bad("capacity_bytes", super.capacity_bytes, "whole pages, from 64 KiB to 1 TiB");
  const std::uint64_t least = least_segment_bytes(super.capacity_bytes);
  if (super.segment_bytes < least || super.segment_bytes > 2 * kMaxArenaBytes ||
      !is_aligned(super.segment_bytes, kPageBytes))
    return bad("segment_bytes", super.segment_bytes,
               "whole pages, from " + std::to_string(least) + " to 2 TiB");
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 47;
  if (!is_aligned(super.address, kPageBytes) || super.address < (1 << 16) ||
      super.address > kEnd - super.capacity_bytes)
    return bad("address", super.address, "whole pages, inside the addresses that programs have");
  return {};
}

}  // namespace

Result<ArenaSuperblock> EpochStore::plan(const std::string& name, std::uint64_t capacity_bytes,
                                         std::uint64_t log_bytes, std::uint64_t address,
                                         std::uint64_t features) {
  ArenaSuperblock super{};
  super.magic = kArenaMagic;
  super.version = kArenaVersion;
  super.superblock_bytes = sizeof(super);
  if (::getrandom(super.uuid, sizeof(super.uuid), 0) != sizeof(super.uuid))
    return io_error(name + ": drawing a uuid");
  super.incompatible = features;
  super.address = address;
  super.capacity_bytes = capacity_bytes;
  if (capacity_bytes <= kMaxArenaBytes)
    super.segment_bytes = std::max(least_segment_bytes(capacity_bytes),
                                   round_up(std::min(log_bytes, kMaxArenaBytes), kPageBytes));
  if (auto sizes = check_sizes(super, name); !sizes) return sizes.error();
  lay_out(super);
  super.crc = crc_of(super);
  return super;
}

bool EpochStore::format(Storage& storage, const ArenaSuperblock& super) {
  StateSlot state{kStateMagic, 0, 0, 0};
  state.crc = crc_of(state);
  return storage.write(&state, sizeof(state), kStateOffset[0]) &&
         storage.write(&super, sizeof(super), 0);
}

Result<ArenaSuperblock> EpochStore::read_superblock(Storage& storage, const std::string& name,
                                                    std::uint64_t features) {
  const auto foreign = [&] {
    return Error{Code::kForeign,
                 name + ": not a Perdure arena (no magic at byte 0); Arena::create makes one"};
  };
  ArenaSuperblock super{};
  if (storage.bytes() < sizeof(super)) return foreign();
  if (!storage.read(&super, sizeof(super), 0)) return io_error(name + ": reading the superblock");
  if (super.magic != kArenaMagic) return foreign();
  if (super.version > kArenaVersion)
    return Error{Code::kVersion, name + ": arena format version " + std::to_string(super.version) +
                                     ", this release reads up to " + std::to_string(kArenaVersion) +
                                     "; use a newer release"};
  if (crc_of(super) != super.crc)
    return damaged(name, "the superblock (bytes 0-103) fails its checksum");
  if (super.version < 1 || super.superblock_bytes != sizeof(super))
    return Error{Code::kVersion, name + ": arena format version " + std::to_string(super.version) +
                                     " with a superblock of " +
                                     std::to_string(super.superblock_bytes) + " bytes is unknown"};
  if (super.incompatible == kHoldsProgram && features == 0)
    return Error{Code::kForeign,
                 name + ": holds the memory of a program; `perdure resume` brings it back"};
  if (super.incompatible == 0 && features == kHoldsProgram)
    return Error{Code::kForeign, name + ": is an arena, and holds no program"};
  if (super.incompatible != features)
    return Error{Code::kVersion,
                 name + ": uses features that this release does not know; use a newer release"};
  if (auto sizes = check_sizes(super, name); !sizes)
    return damaged(name, sizes.error().message.substr(name.size() + 2));
  ArenaSuperblock expected = super;
  lay_out(expected);
  if (std::memcmp(&expected, &super, sizeof(super)) != 0)
    return damaged(name, "the superblock's offsets do not follow from its sizes");
  if (storage.bytes() < file_bytes(super))
    return Error{Code::kTruncated, name + ": has " + std::to_string(storage.bytes()) +
                                       " bytes, its superblock says " +
                                       std::to_string(file_bytes(super)) +
                                       "; restore it from a backup"};
  return super;
}

Result<void> EpochStore::read_state() {
  bool found = false;
  for (int slot = 0; slot < 2; ++slot) {
    StateSlot state{};
    if (!log_.read(&state, sizeof(state), kStateOffset[slot]))
      return io_error(name_ + ": reading a state slot");
    if (state.magic != kStateMagic || crc_of(state) != state.crc || state.home_epoch >= kMostEpochs)
      continue;
    if (found && state.home_epoch <= home_epoch()) continue;
    found = true;
    newest_state_ = slot;
    home_epoch_.store(state.home_epoch, std::memory_order_release);
  }
  if (!found) return damaged(name_, "neither state slot (bytes 4096 and 8192) checks");
  return {};
}

/// Which epochs after H there are, and where; L.
Result<void> EpochStore::read_segments() {
  std::vector<int> order;  // older first
  bool spoilt[2] = {false, false};
  for (int i = 0; i < 2; ++i) {
    SegmentHead& head = segments_[i].head;
    if (!log_.read(&head, sizeof(head), super_.segment_offset[i]))
      return io_error(name_ + ": reading the head of a log segment");
    if (head.magic != kSegmentMagic || crc_of(head) != head.crc || head.first_epoch == 0 ||
        head.first_epoch >= kMostEpochs || head.generation >= kMostEpochs) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&head);
      spoilt[i] =
          std::any_of(bytes, bytes + sizeof(head), [](auto b) { return b != std::byte{0}; });
      head = {};
      continue;
    }
    generation_ = std::max(generation_, head.generation);
    order.push_back(i);
  }
  if (order.size() == 2 && segments_[0].head.generation > segments_[1].head.generation)
    std::swap(order[0], order[1]);

  std::uint64_t last = home_epoch();
  const auto gap = [&](std::uint64_t epoch) {
    return damaged(name_, "the log has epoch " + std::to_string(epoch) +
                              " and does not have epoch " + std::to_string(last + 1));
  };
  for (std::size_t turn = 0; turn < order.size(); ++turn) {
    const int i = order[turn];
    const std::uint64_t successor =
        turn + 1 < order.size() ? segments_[order[turn + 1]].head.first_epoch : ~std::uint64_t{0};
    LogReader log = reader(log_, i);
    for (auto group = log.next(); group && group->epoch < successor; group = log.next()) {
      if (group->epoch > last + 1) return gap(group->epoch);
      segments_[i].last_epoch = group->epoch;
      segments_[i].used = group->end - super_.segment_offset[i];
      if (group->epoch != last + 1) continue;  // home has it
      last = group->epoch;
      found_.push_back({i, *group});
    }
    if (log.failed()) return io_error(name_ + ": reading the log");
    // A segment that was only begun says that the epoch before was there. If that one is damaged,
    // the one before it counts, as in the middle of a segment; if more are, too much is gone.
    const std::uint64_t first = segments_[i].head.first_epoch;
    if (first < successor && first > last + 2) return gap(first);
  }
  committed_.store(last, std::memory_order_release);
  // The group of L stays where it is; with none, a segment whose epochs are all home is as good as
  // the other.
  next_segment_ = !found_.empty()  ? 1 - found_.back().segment
                  : !order.empty() ? 1 - order.back()
                                   : 0;
  for (int i = 0; i < 2; ++i) {
    if (std::find(order.begin(), order.end(), i) != order.end()) continue;
    const bool synced = order.empty() ? options_.power : segments_[order.back()].head.synced == 1;
    if (auto looked = look_without_head(i, spoilt[i], synced); !looked) return looked;
  }
  return order.empty() ? Result<void>() : look_behind(order.back());
}

/// What a segment tells of epochs after L if its head does not check; so its records cannot be
/// checked, but read. A head lies in one sector, so a spoilt one is damage. One of zeros may be that
/// of a segment whose first epoch was on its way when the power failed, but not of one with two.
Result<void> EpochStore::look_without_head(int i, bool spoilt, bool synced) {
  Record record{};
  if (!log_.read(&record, sizeof(record), super_.segment_offset[i] + kSegmentHeadBytes))
    return io_error(name_ + ": reading the log");
  const std::uint64_t first = record.epoch;
  if (first <= epoch() || first >= kMostEpochs) return {};
  LogReader log(log_, super_, i, SegmentHead{kSegmentMagic, 0, first, 0, 0, 0}, true);
  std::uint64_t groups = 0;
  while (log.next()) ++groups;
  if (log.failed()) return io_error(name_ + ": reading the log");
  if (groups < (spoilt ? 1 : 2)) return {};
  lost_ = {first + groups - 1, spoilt || synced,
           "the segment at byte " + std::to_string(super_.segment_offset[i]) +
               ", whose head is damaged, has epoch " + std::to_string(first)};
  return {};
}

/// What the newest segment tells of epochs after L.
Result<void> EpochStore::look_behind(int newest) {
  constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20;
  const Segment& segment = segments_[newest];
  const std::uint64_t missing = epoch() + 1;
  lost_.was_durable = lost_.was_durable || segment.head.synced == 1;
  if (segment.head.first_epoch > missing) {
    lost_.newest = segment.head.first_epoch - 1;
    lost_.proof = "the segment at byte " + std::to_string(super_.segment_offset[newest]) +
                  " was begun behind it";
  }
  const std::uint32_t seed = seed_of(segment.head);
  const Offset end = super_.segment_offset[newest] + super_.segment_bytes;
  std::vector<std::byte> window(kWindowBytes);
  // Each record, with what follows it, is a multiple of its head long.
  for (Offset at = super_.segment_offset[newest] + std::max(segment.used, kSegmentHeadBytes);;
       at += window.size()) {
    at = std::min(end, round_down(log_.next_data(at), sizeof(Record)));
    window.resize(std::min(kWindowBytes, end - at));
    if (window.empty()) return {};
    if (!log_.read(window.data(), window.size(), at)) return io_error(name_ + ": reading the log");
    for (std::size_t i = 0; i + sizeof(Record) <= window.size(); i += sizeof(Record)) {
      Record record{};
      std::memcpy(&record, window.data() + i, sizeof(record));
      if (record.kind != RecordKind::kCommit || record.epoch <= std::max(missing, lost_.newest) ||
          record.epoch >= kMostEpochs || crc_of_record(record, nullptr, seed) != record.crc)
        continue;
      lost_.newest = record.epoch;
      lost_.proof = "epoch " + std::to_string(record.epoch) + " was committed behind it at byte " +
                    std::to_string(at + i);
    }
  }
}

Result<void> EpochStore::rewrite(const Placed& placed) {
  const SegmentHead& head = segments_[placed.segment].head;
  std::vector<std::byte> bytes(
      std::min<std::uint64_t>(placed.group.end - placed.group.begin, std::uint64_t{1} << 20));
  if (!log_.write(&head, sizeof(head), super_.segment_offset[placed.segment]))
    return failed("writing the log anew");
  for (Offset at = placed.group.begin; at < placed.group.end; at += bytes.size()) {
    const std::size_t piece = std::min<std::uint64_t>(bytes.size(), placed.group.end - at);
    if (!log_.read(bytes.data(), piece, at) || !log_.write(bytes.data(), piece, at))
      return failed("writing the log anew");
  }
  return {};
}

Result<void> EpochStore::settle() {
  if (!found_.empty()) {
    if (auto written = rewrite(found_.back()); !written) return written;
  }
  if (auto synced = sync(log_, Barrier::kAccept); !synced) return synced;
  const std::uint64_t through = found_.empty() ? home_epoch() : epoch() - 1;
  for (int turn = 0; turn < 2; ++turn) {  // the segment of L last
    const int i = turn == 0 ? next_segment_ : 1 - next_segment_;
    const auto here = std::find_if(found_.rbegin(), found_.rend(), [&](const Placed& placed) {
      return placed.segment == i && placed.group.epoch <= through;
    });
    if (here == found_.rend()) continue;
    if (auto applied = apply(i, here->group.epoch); !applied) return applied;
  }
  if (auto state = write_state(through); !state) return state;
  // What of L's group is needed on top of home, and what the segments still hold.
  if (found_.size() > 1) found_.erase(found_.begin(), found_.end() - 1);
  segments_[next_segment_].last_epoch = 0;
  if (found_.empty()) segments_[1 - next_segment_].last_epoch = 0;
  return {};
}

Result<std::unique_ptr<EpochStore>> EpochStore::open(Storage& log, Storage& home,
                                                     const std::string& name, Options options,
                                                     bool inspect) {
  auto super = read_superblock(log, name, options.features);
  if (!super) return super.error();
  std::unique_ptr<EpochStore> store(
      new EpochStore(log, home, name, super.value(), std::move(options)));
  if (auto state = store->read_state(); !state) return state.error();
  if (auto segments = store->read_segments(); !segments) return segments.error();
  if (!inspect) {
    const Lost& lost = store->lost();
    if (lost.newest != 0 && lost.was_durable && !store->options_.accept_older)
      return Error{Code::kCorrupt, name + ": epoch " + std::to_string(store->epoch() + 1) +
                                       " of the log is damaged, although " + lost.proof +
                                       "; restore it from a backup, or accept epoch " +
                                       std::to_string(store->epoch()) +
                                       " in its place (accept_older, `perdure resume --back`)"};
    if (auto settled = store->settle(); !settled) return settled.error();
  }
  return store;
}

Result<void> EpochStore::forget_last() {
  if (found_.empty() || epoch() == 1)
    return Error{Code::kNotFound, name_ + ": has no epoch before its last one"};
  // Its first record is spoilt, and it ends there.
  const Record nothing{};
  if (!log_.write(&nothing, sizeof(nothing), found_.back().group.begin))
    return failed("forgetting the last epoch");
  return sync(log_, Barrier::kAccept);
}

Result<void> EpochStore::for_each_piece_of_last(const std::function<void(const Piece&)>& visit) {
  for (const Placed& placed : found_) {
    LogReader log = reader(log_, placed.segment);
    const bool whole = log.visit(placed.group, [&](const Piece& piece) {
      visit(piece);
      return true;
    });
    if (!whole)
      return damaged(name_, "epoch " + std::to_string(placed.group.epoch) +
                                " of the log changed while it was read");
  }
  return {};
}

}  // namespace perdure::checkpoint
