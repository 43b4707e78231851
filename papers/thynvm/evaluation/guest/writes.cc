// SPDX-License-Identifier: BSD-3-Clause
// Writes to an array in a pattern, and nothing else: what costs epochs most.
//
//   perdure_guest_writes random|sequential MIB MILLIONS
//
// So many million writes of eight bytes: to random places, or one after the other, around and around.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

std::uint64_t write_random(std::vector<std::uint64_t>& words, std::uint64_t writes) {
  std::uint64_t state = 1;
  for (std::uint64_t i = 0; i < writes; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    words[(state >> 32) % words.size()] += i;
  }
  return words[state % words.size()];
}

std::uint64_t write_in_order(std::vector<std::uint64_t>& words, std::uint64_t writes) {
  std::uint64_t place = 0;
  for (std::uint64_t i = 0; i < writes; ++i) {
    words[place] += i;
    if (++place == words.size()) place = 0;
  }
  return words[place];
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): an error ends it
  const std::string_view pattern = argc == 4 ? argv[1] : "";
  const std::uint64_t mib = argc == 4 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if ((pattern != "random" && pattern != "sequential") || mib == 0) {
    std::fputs("usage: perdure_guest_writes random|sequential MIB MILLIONS\n", stderr);
    return 2;
  }
  const auto writes = static_cast<std::uint64_t>(std::strtod(argv[3], nullptr) * 1e6);
  std::vector<std::uint64_t> words((mib << 20) / sizeof(std::uint64_t));
  const std::uint64_t last =
      pattern == "random" ? write_random(words, writes) : write_in_order(words, writes);
  std::printf("%llu\n", static_cast<unsigned long long>(last));
  return 0;
}
