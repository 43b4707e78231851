#include "perdure/checkpoint/home_writer.h"

#include <bit>
#include <cstring>

namespace perdure::checkpoint {

bool HomeWriter::put(const Piece& piece) {
  auto& page = pages_[piece.page];
  if (!page) page = std::make_unique<Page>();
  if (piece.data == nullptr) {
    std::memset(page->data + piece.at, 0, piece.bytes);
  } else {
    std::memcpy(page->data + piece.at, piece.data, piece.bytes);
  }
  const std::uint64_t count = piece.bytes / kLineBytes;
  page->mask |= (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1)
                << (piece.at / kLineBytes);
  return pages_.size() < kMostPages || finish();
}

bool HomeWriter::finish() {
  for (const auto& [number, page] : pages_) {
    for (std::uint64_t mask = page->mask; mask != 0;) {
      const auto first = static_cast<unsigned>(std::countr_zero(mask));
      const auto count = static_cast<unsigned>(std::countr_one(mask >> first));
      const std::size_t bytes = count * kLineBytes;
      if (!storage_->write(page->data + first * kLineBytes, bytes,
                           home_offset_ + number * kPageBytes + first * kLineBytes))
        return false;
      bytes_ += bytes;
      mask = first + count == 64 ? 0 : mask >> (first + count) << (first + count);
    }
  }
  pages_.clear();
  return true;
}

}  // namespace perdure::checkpoint
