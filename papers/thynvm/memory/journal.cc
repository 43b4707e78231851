// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/journal.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace perdure::memory {

Journal::Journal(const Model& model, bool with_contents, std::uint64_t most_lines)
    : MemorySystem(model, with_contents),
      table_entries_(std::uint64_t{model.block_entries} + model.page_entries),
      directory_(most_lines),
      journal_(most_lines + most_lines / 4),
      seals_(2 * most_lines + most_lines / 4) {}

Time Journal::read(std::uint64_t line, Time now, Line* data) {
  now += model_.lookup;
  nvm_.advance(now);
  dram_.advance(now);
  const auto found = places_.find(line);
  Device& from = found == places_.end() ? nvm_ : dram_;
  const std::uint64_t at = found == places_.end() ? line : found->second;
  if (data != nullptr) *data = from.contents().read(at);
  return from.read(at, now);
}

Time Journal::write(std::uint64_t line, Time now, const Line* data, bool) {
  ++traffic_.cpu_lines;
  traffic_.dram_bytes += kLineBytes;
  now += model_.lookup;
  const auto [found, added] = places_.try_emplace(line, std::uint32_t(blocks_.size()));
  if (added) {
    blocks_.push_back(line);
    epochs_.spilled += blocks_.size() > table_entries_ ? 1 : 0;
  }
  return dram_.write(found->second, now, data);
}

std::vector<unsigned char> Journal::directory() const {
  std::vector<unsigned char> bytes(blocks_.size() * kEntryBytes);
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    std::memcpy(&bytes[i * kEntryBytes], &blocks_[i], 8);
  return bytes;
}

Time Journal::seal(Time now, std::uint64_t position, bool in_place) {
  const std::vector<unsigned char> entries = directory();
  Seal seal{epochs_.epochs,
            position,
            blocks_.size(),
            in_place ? 1U : 0U,
            crc32c(entries.data(), entries.size()),
            0};
  // The later of two seals of an epoch is the one in place: it is looked for first.
  now = save(seals_ + std::uint64_t(seal_), now, seal.line());
  seal_ = 1 - seal_;
  return settle(now);
}

Time Journal::end_epoch(Time now, std::uint64_t position) {
  count_epoch(now, is_full());
  const Time began = now;
  if (stops_by_bytes()) {
    const std::uint64_t bytes = blocks_.size() * (2 * kLineBytes + kEntryBytes);
    traffic_.checkpoint_bytes += bytes;
    now += time_of_bytes(double(bytes));
  }

  const std::vector<unsigned char> entries = directory();
  for (std::size_t at = 0; at < entries.size(); at += kLineBytes) {
    Line line{};
    std::memcpy(line.data(), &entries[at], std::min<std::size_t>(kLineBytes, entries.size() - at));
    now = save(directory_ + at / kLineBytes, now, line);
  }
  const auto block = [&](std::size_t i) {
    return with_contents_ ? dram_.contents().read(i) : Line{};
  };
  for (std::size_t i = 0; i < blocks_.size(); ++i) now = save(journal_ + i, now, block(i));
  now = settle(now);
  now = seal(now, position, false);
  committed_ = epochs_.epochs;
  for (std::size_t i = 0; i < blocks_.size(); ++i) now = save(blocks_[i], now, block(i));
  now = settle(now);
  now = seal(now, position, true);
  places_.clear();
  blocks_.clear();
  epochs_.stopped += now - began;
  return now;
}

// Where a block belongs, of each that the seal counts; nothing when it is not what the seal checks.
std::vector<unsigned char> Journal::directory_of(const Contents& left, const Seal& seal) const {
  std::vector<unsigned char> entries(std::min(seal.count, journal_ - directory_) * kEntryBytes);
  for (std::size_t at = 0; at < entries.size(); at += kLineBytes) {
    const Line line = left.read(directory_ + at / kLineBytes);
    std::memcpy(&entries[at], line.data(), std::min<std::size_t>(kLineBytes, entries.size() - at));
  }
  if (crc32c(entries.data(), entries.size()) != seal.payload_crc) entries.clear();
  return entries;
}

Recovery Journal::recover(Contents contents) const {
  auto left = std::make_shared<Contents>(std::move(contents));
  std::array<Seal, 2> seals = {Seal::of(left->read(seals_)), Seal::of(left->read(seals_ + 1))};
  const auto age = [](const Seal& seal) { return std::pair(seal.epoch, seal.in_place); };
  if (age(seals[0]) < age(seals[1])) std::swap(seals[0], seals[1]);
  for (const Seal& seal : seals) {
    std::vector<unsigned char> entries;
    if (seal.in_place == 0) entries = directory_of(*left, seal);
    if (seal.in_place == 0 && entries.size() != seal.count * kEntryBytes) continue;
    for (std::size_t i = 0; i * kEntryBytes < entries.size(); ++i) {
      std::uint64_t line = 0;
      std::memcpy(&line, &entries[i * kEntryBytes], 8);
      left->write(line, left->read(journal_ + i));
    }
    return {seal.epoch, seal.position, [left](std::uint64_t line) { return left->read(line); }};
  }
  return {0, 0, [left](std::uint64_t line) { return left->read(line); }};
}

}  // namespace perdure::memory
