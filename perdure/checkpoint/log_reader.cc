// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/log_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace perdure::checkpoint {
namespace {

constexpr std::uint64_t kReadBytes = std::uint64_t{64} << 10;

}  // namespace

const std::byte* LogReader::window(Offset offset, std::uint64_t bytes) {
  if (!inside(offset, bytes, buffer_begin_, buffer_begin_ + buffer_bytes_)) {
    buffer_.resize(kReadBytes);
    buffer_begin_ = offset;
    buffer_bytes_ = std::min(kReadBytes, end_ - offset);
    if (!storage_->read(buffer_.data(), buffer_bytes_, offset)) {
      failed_ = true;
      buffer_bytes_ = 0;
      return nullptr;
    }
  }
  return buffer_.data() + (offset - buffer_begin_);
}

std::optional<LogReader::Found> LogReader::record_at(Offset offset, std::uint64_t epoch) {
  Found found{};
  if (offset > end_ || end_ - offset < sizeof(Record)) return {};
  const std::byte* head = window(offset, sizeof(Record));
  if (head == nullptr) return {};
  std::memcpy(&found.record, head, sizeof(Record));
  const Record& record = found.record;
  if (epoch == kAnyEpoch ? record.epoch == 0 || record.epoch >= kMostEpochs : record.epoch != epoch)
    return {};
  switch (record.kind) {
    case RecordKind::kBlocks:
      if (record.page >= pages_ || record.argument == 0) return {};
      break;
    case RecordKind::kPage:
      if (record.page >= pages_ || record.argument != 0) return {};
      break;
    case RecordKind::kZeros:
      if (record.argument == 0 || !inside(record.page, record.argument, 0, pages_)) return {};
      break;
    case RecordKind::kCommit: break;
    default: return {};
  }
  const std::uint64_t bytes = payload_bytes(record);
  if (end_ - offset - sizeof(Record) < bytes) return {};
  const std::byte* whole = window(offset, sizeof(Record) + bytes);
  if (whole == nullptr) return {};
  found.payload = whole + sizeof(Record);
  if (!trust_ && crc_of_record(record, found.payload, seed_) != record.crc) return {};
  return found;
}

std::optional<Group> LogReader::next() {
  Group group{epoch_, at_, at_};
  std::uint32_t chain = 0;
  for (std::uint64_t count = 0;; ++count) {
    const auto found = record_at(group.end, epoch_);
    if (!found) return {};
    group.end += sizeof(Record) + payload_bytes(found->record);
    if (found->record.kind == RecordKind::kCommit) {
      if (found->record.argument != count || (!trust_ && found->record.page != chain)) return {};
      break;
    }
    chain = crc32c(&found->record.crc, sizeof(found->record.crc), chain);
  }
  at_ = group.end;
  ++epoch_;
  return group;
}

}  // namespace perdure::checkpoint
