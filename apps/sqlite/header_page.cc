// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/header_page.h"

#include <cstring>

namespace perdure::sqlite {
namespace {

constexpr std::size_t kWriteVersion = 18;
constexpr std::size_t kReadVersion = 19;
constexpr std::size_t kChangeCounter = 24;
constexpr std::size_t kVersionValidFor =
    92;  // the change counter of which the page count in the header is
constexpr std::size_t kHeaderBytes = 100;
constexpr unsigned char kRollback = 1;
constexpr unsigned char kWal = 2;

void count_one_more(std::vector<unsigned char>& page, std::size_t at) {
  for (std::size_t digit = 4; digit-- > 0;) {
    if (++page[at + digit] != 0) return;
  }
}

}  // namespace

std::optional<std::vector<unsigned char>> without_wal(const void* page, std::size_t bytes) {
  const auto* const from = static_cast<const unsigned char*>(page);
  if (bytes < kHeaderBytes || std::memcmp(from, "SQLite format 3", 16) != 0 ||
      (from[kWriteVersion] != kWal && from[kReadVersion] != kWal))
    return std::nullopt;
  std::vector<unsigned char> copy(from, from + bytes);
  copy[kWriteVersion] = copy[kReadVersion] = kRollback;
  const bool page_count_holds = std::memcmp(from + kChangeCounter, from + kVersionValidFor, 4) == 0;
  count_one_more(copy, kChangeCounter);
  if (page_count_holds) count_one_more(copy, kVersionValidFor);
  return copy;
}

}  // namespace perdure::sqlite
