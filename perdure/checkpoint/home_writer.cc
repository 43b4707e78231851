// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/home_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace perdure::checkpoint {

bool HomeWriter::put(const Piece& piece) {
  if (!data_) {
    data_ = std::make_unique_for_overwrite<std::byte[]>(kMostPages * kPageBytes);
    pages_.reserve(kMostPages);
    places_.reserve(kMostPages);
  }
  const auto place = static_cast<std::uint32_t>(pages_.size());
  const auto [known, is_new] = places_.try_emplace(piece.page, place);
  if (is_new) pages_.push_back({piece.page, 0, place});
  Page& page = pages_[known->second];
  if (piece.data == nullptr) {
    std::memset(data_of(page) + piece.at, 0, piece.bytes);
  } else {
    std::memcpy(data_of(page) + piece.at, piece.data, piece.bytes);
  }
  const std::uint64_t count = piece.bytes / kLineBytes;
  page.mask |= (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1)
               << (piece.at / kLineBytes);
  return pages_.size() < kMostPages || finish();
}

bool HomeWriter::finish() {
  std::sort(pages_.begin(), pages_.end(),
            [](const Page& a, const Page& b) { return a.number < b.number; });
  const auto is_whole = [](const Page& page) { return page.mask == ~std::uint64_t{0}; };
  for (std::size_t i = 0; i < pages_.size();) {
    const Page& first = pages_[i];
    if (!is_whole(first)) {
      if (!write_blocks(first)) return false;
      ++i;
      continue;
    }
    // Whole pages that follow each other, there and here, go at once.
    std::size_t count = 1;
    for (; i + count < pages_.size() && count < kMostAtOnce; ++count) {
      const Page& next = pages_[i + count];
      if (!is_whole(next) || next.number != first.number + count ||
          next.place != first.place + count)
        break;
    }
    if (!write(data_of(first), count * kPageBytes, home_offset_ + first.number * kPageBytes))
      return false;
    i += count;
  }
  pages_.clear();
  places_.clear();
  return true;
}

bool HomeWriter::write(const std::byte* data, std::size_t bytes, Offset offset) {
  bytes_ += bytes;
  return storage_->write(data, bytes, offset);
}

bool HomeWriter::write_blocks(const Page& page) {
  for (std::uint64_t mask = page.mask; mask != 0;) {
    const auto first = static_cast<unsigned>(std::countr_zero(mask));
    const auto count = static_cast<unsigned>(std::countr_one(mask >> first));
    const std::size_t at = first * kLineBytes;
    if (!write(data_of(page) + at, count * kLineBytes,
               home_offset_ + page.number * kPageBytes + at))
      return false;
    mask = first + count == 64 ? 0 : mask >> (first + count) << (first + count);
  }
  return true;
}

}  // namespace perdure::checkpoint
