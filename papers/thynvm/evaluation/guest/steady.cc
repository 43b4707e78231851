// SPDX-License-Identifier: BSD-3-Clause
// A load that is said in time: threads that write whole pages, one after the other in a part of the memory for each, so many
// KiB in 10 ms together.
//
//   perdure_guest_steady MIB THREADS KIB SECONDS [FILE]
//
// Into FILE goes what CLOCK_MONOTONIC says, eight bytes every millisecond: signs of life. MIB is 256 at most.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kMostMib = 256;
alignas(kPageBytes) std::uint64_t memory[(kMostMib << 20) / sizeof(std::uint64_t)];
constexpr std::uint64_t kPageWords = kPageBytes / sizeof(std::uint64_t);

std::uint64_t mib_of(int argc, char** argv) {
  return argc < 5 ? 0 : std::min<std::uint64_t>(std::strtoull(argv[1], nullptr, 10), kMostMib);
}

// Before libraries that were loaded ahead of the program look at its memory: it is all there in the first epoch, whose
// pause is told from the others' so, as there is one.
void fill(int argc, char** argv, char** /*environment*/) {
  const std::uint64_t words = (mib_of(argc, argv) << 20) / sizeof(std::uint64_t);
  for (std::uint64_t i = 0; i < words; ++i) memory[i] = i * 0x9e3779b97f4a7c15;
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const fill_early)(int, char**, char**) = &fill;

using Clock = std::chrono::steady_clock;

struct Part {
  std::uint64_t first_page, pages;
};

/// However late it gets its turn, the thread has written what was due by then.
void write_steadily(Part part, double pages_per_s, Clock::time_point begin, Clock::time_point end) {
  std::uint64_t written = 0;
  for (Clock::time_point now = begin; now < end;) {
    const auto due = static_cast<std::uint64_t>(pages_per_s *
                                                std::chrono::duration<double>(now - begin).count());
    for (; written < due; ++written) {
      std::uint64_t* const page = memory + (part.first_page + written % part.pages) * kPageWords;
      for (std::uint64_t i = 0; i < kPageWords; ++i) page[i] += written + 1;
    }
    now += std::chrono::milliseconds(1);
    std::this_thread::sleep_until(now);
    now = std::max(now, Clock::now());
  }
}

void tell_life(const char* path, Clock::time_point end) {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  while (file >= 0 && Clock::now() < end) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    if (::write(file, &ns, sizeof ns) != sizeof ns) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): an error ends it
  const std::uint64_t pages = (mib_of(argc, argv) << 20) / kPageBytes;
  const auto threads = static_cast<unsigned>(argc < 5 ? 0 : std::atoi(argv[2]));
  if (threads == 0 || pages < threads) {
    std::fputs("usage: perdure_guest_steady MIB THREADS KIB SECONDS [FILE]\n", stderr);
    return 2;
  }
  const double pages_per_s = std::strtod(argv[3], nullptr) * 1024 / kPageBytes * 100 / threads;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(std::strtod(argv[4], nullptr)));
  std::vector<std::jthread> writers;
  for (unsigned i = 0; i < threads; ++i)
    writers.emplace_back(write_steadily, Part{i * (pages / threads), pages / threads}, pages_per_s,
                         begin, end);
  if (argc > 5) tell_life(argv[5], end);
  return 0;
}
