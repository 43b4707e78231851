// What epochs cost: random stores to 64 MB in plain memory and in arenas, as fast as they go ("dense"), and with work in registers
// between them, so that about 1,000 pages are written in 10 ms ("sparse"). Prints a table; the
// figures are in docs/ARENA.md.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/arena.h"

namespace perdure {
namespace {

constexpr std::size_t kWords = (std::size_t{64} << 20) / 8;
constexpr std::size_t kBatch = 64;  // stores in one guard
constexpr int kSparse = 250'000;    // rounds of work after a batch

struct Cost {
  double wall_ns;  // per store
  double cpu_ns;   // of all threads
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class Enclose>
Cost measure(std::uint64_t* words, int work, Enclose enclose) {
  constexpr std::chrono::seconds time(3);
  std::uint64_t random = 88172645463325252;
  std::uint64_t stores = 0;
  const auto begin = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  while (std::chrono::steady_clock::now() - begin < time) {
    enclose([&] {
      for (std::size_t i = 0; i < kBatch; ++i) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        words[random % kWords] = random;
      }
    });
    stores += kBatch;
    for (int i = 0; i < work; ++i) random = random * 6364136223846793005u + 1442695040888963407u;
  }
  const std::chrono::duration<double, std::nano> wall = std::chrono::steady_clock::now() - begin;
  const auto count = static_cast<double>(stores);
  return {wall.count() / count, (cpu_seconds() - cpu) * 1e9 / count};
}

TEST(ArenaCost, RandomStoresTo64Megabytes) {
  const char* asked = std::getenv("PERDURE_ARENA_DIR");
  const std::string directory = asked != nullptr ? asked : std::filesystem::temp_directory_path();
  const std::string file = directory + "/cost.arena";
  std::vector<std::uint64_t> plain(kWords, 1);
  const Cost dense = measure(plain.data(), 0, [](auto body) { body(); });
  const Cost sparse = measure(plain.data(), kSparse, [](auto body) { body(); });
  std::printf("plain memory: dense %.1f ns a store, sparse %.0f\n", dense.wall_ns, sparse.wall_ns);
  std::printf(
      "       tracking   durable epoch | wall x, cpu x | pause p50 p99 max ms | ended late "
      "| pages/epoch | log MB/s home MB/s\n");
  struct Row {
    ArenaTracking tracking;
    bool power;
    int epoch;
    int work;
  };
  std::vector<Row> rows;
  for (const int work : {kSparse, 0}) {
    for (const bool power : {false, true}) {
      for (const int epoch : {10, 100})
        rows.push_back({ArenaTracking::kUserfault, power, epoch, work});
    }
  }
  rows.push_back({ArenaTracking::kMprotect, false, 100, kSparse});
  for (const auto& [tracking, power, epoch, work] : rows) {
    const Cost& base = work == 0 ? dense : sparse;
    ArenaOptions options;
    options.capacity_bytes = std::uint64_t{80} << 20;
    options.epoch = std::chrono::milliseconds(epoch);
    options.durable = power ? ArenaDurable::kPower : ArenaDurable::kProcess;
    options.tracking = tracking;
    std::filesystem::remove(file);
    auto arena = Arena::create(file, options).value();
    auto* words = static_cast<std::uint64_t*>(arena.allocate(kWords * 8));
    {
      const auto guard = arena.pause();
      for (std::size_t i = 0; i < kWords; ++i) words[i] = 1;
    }
    arena.persist().value();
    const ArenaStats before = arena.epoch();
    const Cost cost = measure(words, work, [&](auto body) {
      const auto guard = arena.pause();
      body();
    });
    const ArenaStats after = arena.epoch();
    const auto ms = [](std::chrono::nanoseconds pause) {
      return static_cast<double>(pause.count()) * 1e-6;
    };
    const double seconds = 3;
    const auto ended = after.ended - before.ended;
    std::printf(
        "%-6s %-10s %-7s %4d ms | %5.2f, %5.2f | %6.2f %6.2f %6.2f | %4llu %3llu | %6llu | "
        "%6.1f %6.1f\n",
        work == 0 ? "dense" : "sparse",
        tracking == ArenaTracking::kUserfault ? "userfault" : "mprotect",
        power ? "power" : "process", epoch, cost.wall_ns / base.wall_ns, cost.cpu_ns / base.cpu_ns,
        ms(after.pause_p50), ms(after.pause_p99), ms(after.pause_max),
        static_cast<unsigned long long>(ended),
        static_cast<unsigned long long>(after.late - before.late),
        static_cast<unsigned long long>((after.written_pages - before.written_pages) /
                                        std::max<std::uint64_t>(ended, 1)),
        static_cast<double>(after.log_bytes - before.log_bytes) / seconds / 1e6,
        static_cast<double>(after.home_bytes - before.home_bytes) / seconds / 1e6);
    std::fflush(stdout);
    EXPECT_GT(ended, 0u);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace perdure
