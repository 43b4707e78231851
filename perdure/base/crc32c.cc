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
__attribute__((target("sse4.2"))) std::uint32_t crc_sse42(const unsigned char* data,
                                                          std::size_t bytes, std::uint32_t crc) {
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

std::uint16_t crc16(const void* data, std::size_t bytes, std::uint32_t seed) noexcept {
  const std::uint32_t crc = crc32c(data, bytes, seed);
  return static_cast<std::uint16_t>(crc ^ (crc >> 16));
}

}  // namespace perdure
