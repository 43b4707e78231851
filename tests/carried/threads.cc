// SPDX-License-Identifier: BSD-3-Clause
// What run_tool_test carries through crashes: four threads that fill a map, vectors and strings of
// their own, meet at every round, and write what they found to a file that only grows.
// usage: threads FILE ROUNDS
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 4;

std::mutex mutex;
std::condition_variable all_here;
int arrived = 0, round_now = 0;

void meet() {
  std::unique_lock lock(mutex);
  const int mine = round_now;
  if (++arrived == kThreads) {
    arrived = 0;
    ++round_now;
    all_here.notify_all();
  } else {
    all_here.wait(lock, [&] { return round_now != mine; });
  }
}

std::string lines[kThreads];
thread_local std::uint64_t state;

std::uint64_t next() {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

void work(int self, int rounds, std::FILE* file) {
  state = 88172645463325252ULL + static_cast<std::uint64_t>(self);
  std::map<std::uint64_t, std::string> words;
  std::vector<std::uint64_t> sums;
  for (int round = 0; round < rounds; ++round) {
    std::uint64_t sum = 0;
    for (int step = 0; step < 2000; ++step) {
      std::string& word = words[next() % 5000];
      word += static_cast<char>('a' + next() % 26);
      if (word.size() > 100) word.clear();
      sum = sum * 31 + word.size();
    }
    sums.push_back(sum);
    lines[self] = std::to_string(words.size()) + " " + std::to_string(sums[next() % sums.size()]) +
                  " " + words.begin()->second;
    meet();
    if (self == 0) {
      for (const std::string& line : lines) std::fprintf(file, "%d %s\n", round, line.c_str());
      std::fflush(file);
    }
    meet();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::FILE* file = std::fopen(argv[1], "w");
  if (file == nullptr) return 1;
  std::vector<std::thread> threads;
  for (int self = 1; self < kThreads; ++self)
    threads.emplace_back(work, self, std::atoi(argv[2]), file);
  work(0, std::atoi(argv[2]), file);
  for (std::thread& thread : threads) thread.join();
  return std::fclose(file);
}
