// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/shadow.h"

#include <algorithm>
#include <memory>

namespace perdure::memory {

Shadow::Shadow(const Model& model, bool with_contents, std::uint64_t most_lines)
    : MemorySystem(model, with_contents),
      most_lines_(most_lines),
      maps_(2 * most_lines),
      map_lines_(most_lines / kLinesPerPage / 8 / kLineBytes),
      seals_(maps_ + 2 * map_lines_),
      buffer_pages_(model.shadow_buffers) {}

std::uint64_t Shadow::nvm_line(std::uint64_t line) const {
  const std::uint64_t page = line / kLinesPerPage;
  return page < in_other_.size() && in_other_[page] ? most_lines_ + line : line;
}

Time Shadow::read(std::uint64_t line, Time now, Line* data) {
  now += model_.lookup;
  nvm_.advance(now);
  dram_.advance(now);
  const auto found = places_.find(line / kLinesPerPage);
  Device& from = found == places_.end() ? nvm_ : dram_;
  const std::uint64_t at = found == places_.end()
                               ? nvm_line(line)
                               : found->second * kLinesPerPage + line % kLinesPerPage;
  if (data != nullptr) *data = from.contents().read(at);
  return from.read(at, now);
}

// A buffer for the page, with its contents. The copy is on the way of the store that wants it, except in
// the published code, which does not charge it.
std::uint32_t Shadow::bring_in(std::uint64_t page, Time& now, bool flushing) {
  std::uint32_t buffer = 0;
  if (buffers_.size() < buffer_pages_) {
    buffer = std::uint32_t(buffers_.size());
    buffers_.push_back({page, false});
  } else {
    std::size_t tried = 0;
    while (tried < buffer_pages_ && buffers_[replacing_].dirty) {
      replacing_ = (replacing_ + 1) % buffer_pages_;
      ++tried;
    }
    if (tried ==
        buffer_pages_) {  // all dirty: this line still belongs to the epoch that has to end
      full_ = true;
      ++epochs_.spilled;
      buffer = std::uint32_t(buffers_.size());
      buffers_.push_back({page, false});
    } else {
      buffer = std::uint32_t(replacing_);
      places_.erase(buffers_[buffer].page);
      buffers_[buffer] = {page, false};
      replacing_ = (replacing_ + 1) % buffer_pages_;
    }
  }
  places_[page] = buffer;
  Time copied = now;
  for (std::uint64_t i = 0; i < kLinesPerPage; ++i) {
    const std::uint64_t from = nvm_line(page * kLinesPerPage + i);
    Line line;
    if (with_contents_) line = nvm_.contents().read(from);
    if (stops_by_bytes()) {
      dram_.put(buffer * kLinesPerPage + i, now, &line);
    } else {
      copied = nvm_.read(from, now);
      dram_.write_in_background(buffer * kLinesPerPage + i, copied, &line);
    }
    traffic_.dram_bytes += kLineBytes;
  }
  if (!flushing) epochs_.waited += copied - now;  // else it is part of the stop
  now = copied;
  return buffer;
}

Time Shadow::write(std::uint64_t line, Time now, const Line* data, bool flushing) {
  ++traffic_.cpu_lines;
  traffic_.dram_bytes += kLineBytes;
  now += model_.lookup;
  const std::uint64_t page = line / kLinesPerPage;
  const auto found = places_.find(page);
  const std::uint32_t buffer =
      found != places_.end() ? found->second : bring_in(page, now, flushing);
  buffers_[buffer].dirty = true;
  return dram_.write(buffer * kLinesPerPage + line % kLinesPerPage, now, data);
}

Time Shadow::end_epoch(Time now, std::uint64_t position) {
  count_epoch(now, full_);
  full_ = false;
  const Time began = now;
  std::uint64_t pages = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    Buffer& buffer = buffers_[i];
    if (!buffer.dirty) continue;
    buffer.dirty = false;
    ++pages;
    if (buffer.page >= in_other_.size()) in_other_.resize(buffer.page + 1);
    in_other_[buffer.page] = !in_other_[buffer.page];
    for (std::uint64_t line = 0; line < kLinesPerPage; ++line)
      now = save(nvm_line(buffer.page * kLinesPerPage + line), now,
                 with_contents_ ? dram_.contents().read(i * kLinesPerPage + line) : Line{});
  }
  now = settle(now);

  const std::uint64_t map = maps_ + std::uint64_t(turn_) * map_lines_;
  std::uint32_t crc = 0;
  std::uint64_t lines = 0;
  for (std::size_t page = 0; page < in_other_.size(); page += kLineBytes * 8, ++lines) {
    Line line{};
    for (std::size_t i = 0; i < kLineBytes * 8 && page + i < in_other_.size(); ++i)
      if (in_other_[page + i]) line[i / 8] = static_cast<unsigned char>(line[i / 8] | 1U << i % 8);
    now = save(map + lines, now, line);
    crc = crc32c(line.data(), line.size(), crc);
  }
  now = settle(now);
  const Seal seal{epochs_.epochs, position, lines, 1, crc, 0};
  now = settle(save(seals_ + std::uint64_t(turn_), now, seal.line()));
  turn_ = 1 - turn_;
  committed_ = epochs_.epochs;
  if (stops_by_bytes()) {
    const std::uint64_t bytes = pages * (kPageBytes + kEntryBytes);
    traffic_.checkpoint_bytes += bytes;
    now += time_of_bytes(double(bytes));
  }
  // Buffers beyond the size were lent for the epoch's last lines only.
  for (std::size_t i = buffer_pages_; i < buffers_.size(); ++i) places_.erase(buffers_[i].page);
  if (buffers_.size() > buffer_pages_) buffers_.resize(buffer_pages_);
  epochs_.stopped += now - began;
  return now;
}

// Whether the map of this turn is the one that the seal checks.
bool Shadow::map_is(const Contents& left, int turn, const Seal& seal) const {
  std::uint32_t crc = 0;
  for (std::uint64_t i = 0; i < seal.count && i < map_lines_; ++i) {
    const Line line = left.read(maps_ + std::uint64_t(turn) * map_lines_ + i);
    crc = crc32c(line.data(), line.size(), crc);
  }
  return seal.count <= map_lines_ && crc == seal.payload_crc;
}

Recovery Shadow::recover(Contents contents) const {
  auto left = std::make_shared<const Contents>(std::move(contents));
  Seal newest;
  int turn = 0;
  for (int i = 0; i < 2; ++i) {
    const Seal seal = Seal::of(left->read(seals_ + std::uint64_t(i)));
    if (seal.epoch <= newest.epoch || !map_is(*left, i, seal)) continue;
    newest = seal;
    turn = i;
  }
  const std::uint64_t map = maps_ + std::uint64_t(turn) * map_lines_;
  const std::uint64_t pages = newest.count * kLineBytes * 8;
  return {newest.epoch, newest.position, [this, left, map, pages](std::uint64_t line) {
            const std::uint64_t page = line / kLinesPerPage;
            bool other = false;
            if (page < pages) {
              const Line bits = left->read(map + page / (kLineBytes * 8));
              const std::uint64_t i = page % (kLineBytes * 8);
              other = (bits[i / 8] >> i % 8 & 1) != 0;
            }
            return left->read(other ? most_lines_ + line : line);
          }};
}

}  // namespace perdure::memory
