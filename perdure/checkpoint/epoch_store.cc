// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/epoch_store.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "perdure/base/check.h"
#include "perdure/checkpoint/home_writer.h"

namespace perdure::checkpoint {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

std::uint64_t random_salt() {
  std::uint64_t salt = 0;
  PERDURE_CHECK(::getrandom(&salt, sizeof(salt), 0) == sizeof(salt), "no random numbers");
  return salt;
}

Record record_of(const Change& change, std::uint64_t epoch) {
  if (change.zeros != 0) return {0, RecordKind::kZeros, epoch, change.page, change.zeros};
  if (change.mask == ~std::uint64_t{0}) return {0, RecordKind::kPage, epoch, change.page, 0};
  return {0, RecordKind::kBlocks, epoch, change.page, change.mask};
}

/// Puts what changed of a page behind each other.
void gather(std::byte* to, const std::byte* page, std::uint64_t mask) {
  for (; mask != 0; mask &= mask - 1, to += kLineBytes)
    std::memcpy(to, page + static_cast<std::size_t>(std::countr_zero(mask)) * kLineBytes,
                kLineBytes);
}

}  // namespace

EpochStore::EpochStore(Storage& log, Storage& home, std::string name, const ArenaSuperblock& super,
                       Options options)
    : log_(log), home_(home), name_(std::move(name)), super_(super), options_(std::move(options)) {}

Error EpochStore::failed(const std::string& step) {
  poisoned_.store(true, std::memory_order_release);
  return {Code::kPoisoned, io_error(name_ + ": " + step).message +
                               "; nothing is saved any more, and what was acknowledged before is "
                               "recovered at the next open: fix the device and reopen the arena"};
}

Error EpochStore::refusal() const {
  return {Code::kPoisoned, name_ + ": an earlier write or sync failed; reopen the arena"};
}

Result<void> EpochStore::sync(Storage& storage, Barrier why) {
  if (refused()) return refusal();
  if (!storage.sync(why)) return failed("sync");
  return {};
}

Result<void> EpochStore::append(std::span<const std::byte> bytes) {
  Segment& segment = segments_[active_];
  if (refused()) return refusal();
  if (!log_.write(bytes.data(), bytes.size(), super_.segment_offset[active_] + segment.used))
    return failed("writing " + std::to_string(bytes.size()) + " bytes of log");
  segment.used += bytes.size();
  log_written_.fetch_add(bytes.size(), std::memory_order_relaxed);
  return {};
}

Result<void> EpochStore::begin_segment() {
  if (options_.rules.home_before_reuse) {
    if (auto home = bring_home(); !home) return home;
  }
  if (!options_.power) {
    if (auto synced = sync(log_, Barrier::kSegment); !synced) return synced;
  }
  const std::lock_guard lock(home_mutex_);
  active_ = active_ < 0 ? next_segment_ : 1 - active_;
  Segment& segment = segments_[active_];
  PERDURE_CHECK(!options_.rules.home_before_reuse || segment.last_epoch <= home_epoch(),
                "a segment that still matters is begun anew");
  segment = {};
  segment.head = {kSegmentMagic,
                  ++generation_,
                  epoch() + 1,
                  options_.salt ? options_.salt() : random_salt(),
                  options_.power ? 1u : 0u,
                  0};
  segment.head.crc = crc_of(segment.head);
  if (refused()) return refusal();
  if (!log_.write(&segment.head, sizeof(segment.head), super_.segment_offset[active_]))
    return failed("writing the head of a log segment");
  segment.used = kSegmentHeadBytes;
  return {};
}

Result<void> EpochStore::commit(std::span<const Change> changes, const std::byte* image) {
  if (refused()) return refusal();
  const std::uint64_t epoch = this->epoch() + 1;
  std::uint64_t bytes = sizeof(Record);
  for (const Change& change : changes)
    bytes += sizeof(Record) + payload_bytes(record_of(change, epoch));
  const std::uint64_t limit = options_.log_bytes == 0
                                  ? super_.segment_bytes
                                  : std::min(super_.segment_bytes, options_.log_bytes);
  if (active_ < 0 ||
      (segments_[active_].used > kSegmentHeadBytes && segments_[active_].used + bytes > limit)) {
    if (auto begun = begin_segment(); !begun) return begun;
  }

  const std::uint32_t seed = seed_of(segments_[active_].head);
  buffer_.resize(kBufferBytes);
  std::size_t filled = 0;
  std::uint32_t chain = 0;
  for (const Change& change : changes) {
    if (filled + kPageRecordBytes > kBufferBytes) {
      if (auto done = append({buffer_.data(), filled}); !done) return done;
      filled = 0;
    }
    Record record = record_of(change, epoch);
    std::byte* const payload = buffer_.data() + filled + sizeof(record);
    if (change.zeros == 0) gather(payload, image + change.page * kPageBytes, change.mask);
    record.crc = crc_of_record(record, payload, seed);
    chain = crc32c(&record.crc, sizeof(record.crc), chain);
    std::memcpy(payload - sizeof(record), &record, sizeof(record));
    filled += sizeof(record) + payload_bytes(record);
  }
  Record end{0, RecordKind::kCommit, epoch, chain, changes.size()};
  end.crc = crc_of_record(end, nullptr, seed);
  if (filled + sizeof(end) > kBufferBytes) {
    if (auto done = append({buffer_.data(), filled}); !done) return done;
    filled = 0;
  }
  std::memcpy(buffer_.data() + filled, &end, sizeof(end));
  if (auto done = append({buffer_.data(), filled + sizeof(end)}); !done) return done;
  if (options_.power) {
    if (auto synced = sync(log_, Barrier::kCommit); !synced) return synced;
  }
  segments_[active_].last_epoch = epoch;
  committed_.store(epoch, std::memory_order_release);
  return {};
}

Result<void> EpochStore::bring_home() {
  const std::lock_guard lock(home_mutex_);
  if (active_ < 0 || refused()) return refused() ? Result<void>(refusal()) : Result<void>();
  const int old = 1 - active_;
  const std::uint64_t last = segments_[old].last_epoch;
  if (last <= home_epoch()) return {};
  if (epoch() <= last && options_.rules.newer_commit_before_home) return {};
  if (auto applied = apply(old, last); !applied) return applied;
  return write_state(last);
}

Result<void> EpochStore::apply(int segment, std::uint64_t through) {
  LogReader log = reader(home_, segment);
  HomeWriter home(home_, super_);
  std::uint64_t reached = 0;
  while (reached < through) {
    const auto group = log.next();
    if (!group) break;
    reached = group->epoch;
    if (group->epoch <= home_epoch()) continue;
    if (refused()) return refusal();
    if (!log.visit(*group, [&](const Piece& piece) { return home.put(piece); })) break;
  }
  if (reached < through || !home.finish()) {
    if (errno == 0) errno = EIO;
    return failed("bringing epochs up to " + std::to_string(through) + " home");
  }
  home_written_.fetch_add(home.bytes(), std::memory_order_relaxed);
  return {};
}

Result<void> EpochStore::write_state(std::uint64_t epoch) {
  if (auto synced = sync(home_, Barrier::kHome); !synced) return synced;
  StateSlot state{kStateMagic, epoch, 0, 0};
  state.crc = crc_of(state);
  if (!home_.write(&state, sizeof(state), kStateOffset[1 - newest_state_]))
    return failed("writing what home holds");
  if (auto synced = sync(home_, Barrier::kState); !synced) return synced;
  newest_state_ = 1 - newest_state_;
  home_epoch_.store(epoch, std::memory_order_release);
  return {};
}

}  // namespace perdure::checkpoint
