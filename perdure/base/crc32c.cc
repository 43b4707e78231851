// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/base/crc32c.h"

#include <array>
#include <cstring>

namespace perdure {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

std::uint32_t crc_portable(const unsigned char* data, std::size_t bytes, std::uint32_t crc) {
  for (std::size_t i = 0; i < bytes; ++i) crc = (crc >> 8) ^ kTable[(crc ^ data[i]) & 0xff];
  return crc;
}

#if defined(__x86_64__)
// What zero bytes after a message do to its checksum is linear in its bits: one table for each byte
// of it.
using Operator = std::array<std::uint32_t, 32>;  // by bit
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr std::uint32_t carried_over(const Operator& to_bits, std::uint32_t crc) {
  std::uint32_t result = 0;
  for (std::size_t bit = 0; crc != 0; ++bit, crc >>= 1) result ^= (crc & 1) != 0 ? to_bits[bit] : 0;
  return result;
}

constexpr Shift make_shift(std::size_t zeros) {
  Operator power{}, all{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    all[bit] = std::uint32_t{1} << bit;
    power[bit] = (all[bit] >> 8) ^ kTable[all[bit] & 0xff];
  }
  for (; zeros != 0; zeros >>= 1) {
    Operator square{};
    for (std::size_t bit = 0; bit < 32; ++bit) {
      if ((zeros & 1) != 0) all[bit] = carried_over(power, all[bit]);
      square[bit] = carried_over(power, power[bit]);
    }
    power = square;
  }
  Shift shift{};
  for (std::size_t byte = 0; byte < 4; ++byte)
    for (std::uint32_t value = 0; value < 256; ++value)
      shift[byte][value] = carried_over(all, value << (8 * byte));
  return shift;
}
template <std::size_t kZeros>
constexpr Shift kShift = make_shift(kZeros);

template <std::size_t kZeros>
std::uint32_t shifted(std::uint32_t crc) {
  const Shift& shift = kShift<kZeros>;
  return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^
         shift[3][crc >> 24];
}

/// Takes thirds of kThird bytes, a multiple of 8, off the data: each instruction takes three
/// cycles, and one can begin in each.
template <std::size_t kThird>
__attribute__((target("sse4.2"))) std::uint32_t crc_of_thirds(const unsigned char*& data,
                                                              std::size_t& bytes,
                                                              std::uint32_t crc) {
  for (; bytes >= 3 * kThird; bytes -= 3 * kThird, data += 3 * kThird) {
    std::uint64_t first = crc, second = 0, third = 0;
    for (std::size_t at = 0; at < kThird; at += 8) {
      std::uint64_t words[3];
      std::memcpy(&words[0], data + at, 8);
      std::memcpy(&words[1], data + kThird + at, 8);
      std::memcpy(&words[2], data + 2 * kThird + at, 8);
      first = __builtin_ia32_crc32di(first, words[0]);
      second = __builtin_ia32_crc32di(second, words[1]);
      third = __builtin_ia32_crc32di(third, words[2]);
    }
    crc = shifted<kThird>(static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second);
    crc = shifted<kThird>(crc) ^ static_cast<std::uint32_t>(third);
  }
  return crc;
}

__attribute__((target("sse4.2"))) std::uint32_t crc_sse42(const unsigned char* data,
                                                          std::size_t bytes, std::uint32_t crc) {
  crc = crc_of_thirds<1360>(data, bytes, crc);  // of a page
  crc = crc_of_thirds<168>(data, bytes, crc);
  std::uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, data += 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; --bytes, ++data) narrow = __builtin_ia32_crc32qi(narrow, *data);
  return narrow;
}
const bool kHasSse42 = __builtin_cpu_supports("sse4.2") != 0;
#endif

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed) noexcept {
  const auto* bytes_in = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  if (kHasSse42) return ~crc_sse42(bytes_in, bytes, ~seed);
#endif
  return ~crc_portable(bytes_in, bytes, ~seed);
}

bool has_crc32c_step() noexcept {
#if defined(__x86_64__)
  return kHasSse42;
#else
  return true;
#endif
}

}  // namespace perdure
