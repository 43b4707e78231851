// SPDX-License-Identifier: BSD-3-Clause
// What run_proof_tool_test carries through crashes: threads that do to their memory whatever mmap, mremap,
// mprotect, madvise, malloc, read and recursion allow, and know at every moment what each block of 64 bytes
// must hold: it follows from a number, and the number from the seed.
// usage: random_memory FILE STEPS SEED; writes FILE.<thread>. Ends with 1 at the first block that is wrong.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kPage = 4096, kBlock = 64, kBlocks = kPage / kBlock;
constexpr std::size_t kFilePages = 64;
constexpr std::uint64_t kOfFile = std::uint64_t{1} << 60;  // numbers of the file's blocks
constexpr int kThreads = 3;

int source = -1;  // a file that follows the same rule

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ x >> 31;
}

using Words = std::array<std::uint64_t, kBlock / 8>;
Words contents(std::uint64_t number) {
  Words words{};
  for (std::size_t i = 0; number != 0 && i < words.size(); ++i) words[i] = mix(number * 8 + i);
  return words;
}

struct Page {
  int protection = PROT_READ | PROT_WRITE;
  std::uint64_t of_file = 0;  // number of its first block in the file; 0: anonymous
  std::array<std::uint64_t, kBlocks> numbers{};
};

struct Region {
  char* at = nullptr;
  std::vector<Page> pages;
  bool one = true;       // mapping, as mremap wants it
  bool of_heap = false;  // from malloc; begins in the middle of a page
};

class Worker {
 public:
  Worker(int self, int steps, std::uint64_t seed, std::FILE* log)
      : self_(self),
        steps_(steps),
        state_(mix(seed * 16 + static_cast<std::uint64_t>(self) + 1)),
        log_(log) {}

  void run() {
    for (step_ = 0; step_ < steps_; ++step_) {
      act();
      if (!regions_.empty()) check(regions_[below(regions_.size())]);
      if (step_ % 64 != 63) continue;
      std::uint64_t sum = 0;
      for (const Region& each : regions_) {
        check(each);
        for (const Page& page : each.pages)
          for (const std::uint64_t number : page.numbers) sum = mix(sum + number);
      }
      std::fprintf(log_, "%d %zu %zu %016lx\n", step_, regions_.size(), pages(), sum);
      std::fflush(log_);
    }
    while (!regions_.empty()) drop(regions_.size() - 1);
  }

 private:
  std::uint64_t next() { return state_ = mix(state_ + 0x9e3779b97f4a7c15); }
  std::size_t below(std::size_t count) { return next() % count; }

  std::size_t pages() const {
    std::size_t count = 0;
    for (const Region& each : regions_) count += each.pages.size();
    return count;
  }

  [[noreturn]] void wrong(const char* what, const void* at) const {
    std::fprintf(stderr, "random_memory: thread %d, step %d: %s at %p\n", self_, step_, what, at);
    std::fprintf(log_, "WRONG\n");
    std::fflush(log_);
    ::_exit(1);
  }

  void check(const Region& region) const {
    for (std::size_t p = 0; p < region.pages.size(); ++p) {
      const Page& page = region.pages[p];
      if ((page.protection & PROT_READ) == 0) continue;
      for (std::size_t b = 0; b < kBlocks; ++b) {
        const char* const at = region.at + p * kPage + b * kBlock;
        const Words want = contents(page.numbers[b]);
        if (std::memcmp(at, want.data(), kBlock) == 0) continue;
        Words there;
        std::memcpy(there.data(), at, kBlock);
        std::fprintf(
            stderr, "%s, page %zu of %zu, block %zu: wanted %lx, there is %s; of file %lx\n",
            region.of_heap ? "heap" : "mapping", p, region.pages.size(), b, page.numbers[b],
            there == Words{}                      ? "zeros"
            : there == contents(page.of_file + b) ? "the file's"
                                                  : "other",
            page.of_file);
        wrong("other contents", at);
      }
    }
  }

  /// What a page holds that nobody has written to.
  static void forget(Page& page) {
    for (std::size_t b = 0; b < kBlocks; ++b)
      page.numbers[b] = page.of_file == 0 ? 0 : page.of_file + b;
  }

  static void write(Region& region, std::size_t p, std::size_t b, std::uint64_t number) {
    const Words words = contents(number);
    std::memcpy(region.at + p * kPage + b * kBlock, words.data(), kBlock);
    region.pages[p].numbers[b] = number;
  }

  static Page page_of_file(std::size_t index) {
    Page page;
    page.of_file = kOfFile + index * kBlocks;
    forget(page);
    return page;
  }

  char* map(void* where, std::size_t count, int flags, int file = -1, std::size_t index = 0) const {
    void* const at = ::mmap(where, count * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | flags, file,
                            static_cast<off_t>(index * kPage));
    if (at == MAP_FAILED) wrong("no mapping", where);
    return static_cast<char*>(at);
  }

  void drop(std::size_t index) {
    Region& region = regions_[index];
    if (region.of_heap) {
      std::free(region.at);
    } else {
      ::munmap(region.at, region.pages.size() * kPage);
    }
    regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void make() {
    Region region;
    switch (below(8)) {
      case 0:
      case 1: {  // of the heap; some are zeroed, some are not
        region.of_heap = true;
        region.pages.resize(1 + below(40));
        region.at = static_cast<char*>(std::malloc(region.pages.size() * kPage));
        for (std::size_t p = 0; p < region.pages.size(); ++p)
          for (std::size_t b = 0; b < kBlocks; ++b)
            write(region, p, b, below(3) == 0 ? 0 : next() >> 8);
        break;
      }
      case 2: {  // of the file
        const std::size_t count = 1 + below(16), first = below(kFilePages - count);
        region.at = map(nullptr, count, 0, source, first);
        for (std::size_t i = 0; i < count; ++i) region.pages.push_back(page_of_file(first + i));
        break;
      }
      case 3: {  // perhaps of huge pages
        region.pages.resize(1024);
        region.at = map(nullptr, 1024, MAP_ANONYMOUS);
        ::madvise(region.at, 1024 * kPage, MADV_HUGEPAGE);
        break;
      }
      default:
        region.pages.resize(1 + below(64));
        region.at =
            map(nullptr, region.pages.size(), MAP_ANONYMOUS | (below(4) == 0 ? MAP_POPULATE : 0));
    }
    regions_.push_back(std::move(region));
  }

  void act() {
    if (regions_.size() < 3) return make();
    const std::size_t index = below(regions_.size());
    Region& region = regions_[index];
    const std::size_t first = below(region.pages.size());
    const std::size_t count = 1 + below(std::min<std::size_t>(region.pages.size() - first, 24));
    char* const at = region.at + first * kPage;
    const bool mapped = !region.of_heap;
    switch (below(20)) {
      case 0:
      case 1: return pages() < 2500 ? make() : drop(index);
      case 2: return drop(index);
      case 3: return mapped ? cut(index, first, count) : scatter(region);
      case 4: return mapped ? move(region) : resize_heap(region);
      case 5: return mapped ? protect(region, first, count) : scatter(region);
      case 6:  // gives pages back
        if (mapped) {
          if (::madvise(at, count * kPage, MADV_DONTNEED) != 0) wrong("madvise", at);
          for (std::size_t i = 0; i < count; ++i) forget(region.pages[first + i]);
        }
        return;
      case 7:  // maps new ones over what is there
        if (mapped) {
          map(at, count, MAP_ANONYMOUS | MAP_FIXED);
          for (std::size_t i = 0; i < count; ++i) region.pages[first + i] = Page{};
          region.one = false;
        }
        return;
      case 8:
        if (mapped) {
          const std::size_t from = below(kFilePages - count);
          map(at, count, MAP_FIXED, source, from);
          for (std::size_t i = 0; i < count; ++i) region.pages[first + i] = page_of_file(from + i);
          region.one = false;
        }
        return;
      case 9: return receive(region, first, count);
      case 10: recurse(static_cast<int>(1 + below(150)), next()); return;
      case 11: return below(8) == 0 ? fork_and_check() : scatter(region);
      case 12:
      case 13:
      case 14:  // all of some pages
        for (std::size_t p = first; p < first + count; ++p) {
          if (region.pages[p].protection != (PROT_READ | PROT_WRITE)) continue;
          for (std::size_t b = 0; b < kBlocks; ++b)
            write(region, p, b, below(9) == 0 ? 0 : next() >> 8);
        }
        return;
      default: return scatter(region);
    }
  }

  /// A few blocks of a few pages.
  void scatter(Region& region) {
    for (std::size_t i = 1 + below(30); i > 0; --i) {
      const std::size_t p = below(region.pages.size());
      if (region.pages[p].protection == (PROT_READ | PROT_WRITE))
        write(region, p, below(kBlocks), next() >> 8);
    }
  }

  /// Unmaps a part; what is behind it becomes a region.
  void cut(std::size_t index, std::size_t first, std::size_t count) {
    Region& region = regions_[index];
    ::munmap(region.at + first * kPage, count * kPage);
    Region behind;
    behind.at = region.at + (first + count) * kPage;
    behind.one = region.one;
    behind.pages.assign(region.pages.begin() + static_cast<std::ptrdiff_t>(first + count),
                        region.pages.end());
    region.pages.resize(first);
    if (first == 0) regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!behind.pages.empty()) regions_.push_back(std::move(behind));
  }

  void move(Region& region) {
    if (!region.one || region.pages[0].of_file != 0) return;
    const std::size_t old = region.pages.size();
    const std::size_t wanted = below(3) == 0 ? 1 + below(old) : old + below(32);
    void* there = nullptr;
    int flags = MREMAP_MAYMOVE;
    if (below(2) == 0) {  // to a place where something else was
      there = map(nullptr, wanted, MAP_ANONYMOUS | MAP_POPULATE);
      flags |= MREMAP_FIXED;
    }
    void* const at = ::mremap(region.at, old * kPage, wanted * kPage, flags, there);
    if (at == MAP_FAILED) wrong("mremap", region.at);
    region.at = static_cast<char*>(at);
    Page fresh;
    fresh.protection = region.pages[0].protection;
    region.pages.resize(wanted, fresh);
  }

  void resize_heap(Region& region) {
    const std::size_t old = region.pages.size();
    region.pages.resize(1 + below(60));
    region.at = static_cast<char*>(std::realloc(region.at, region.pages.size() * kPage));
    for (std::size_t p = old; p < region.pages.size(); ++p)
      for (std::size_t b = 0; b < kBlocks; ++b) write(region, p, b, next() >> 8);
  }

  void protect(Region& region, std::size_t first, std::size_t count) {
    constexpr int kKinds[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE};
    const int protection = kKinds[below(4)];
    if (below(3) == 0) {
      first = 0;
      count = region.pages.size();
    } else {
      region.one = false;
    }
    if (::mprotect(region.at + first * kPage, count * kPage, protection) != 0)
      wrong("mprotect", region.at);
    for (std::size_t i = 0; i < count; ++i) region.pages[first + i].protection = protection;
  }

  /// read(2): the kernel writes.
  void receive(Region& region, std::size_t first, std::size_t count) {
    std::size_t writable = 0;
    while (writable < count &&
           region.pages[first + writable].protection == (PROT_READ | PROT_WRITE))
      ++writable;
    if (writable == 0) return;
    const std::size_t skip = below(kBlocks), from = below((kFilePages - writable) * kBlocks);
    const std::size_t blocks = writable * kBlocks - skip;
    char* const at = region.at + first * kPage + skip * kBlock;
    std::size_t done = 0;
    while (done < blocks * kBlock) {
      const ssize_t got = ::pread(source, at + done, blocks * kBlock - done,
                                  static_cast<off_t>(from * kBlock + done));
      if (got <= 0) wrong("pread", at);
      done += static_cast<std::size_t>(got);
    }
    for (std::size_t i = 0; i < blocks; ++i)
      region.pages[first + (skip + i) / kBlocks].numbers[(skip + i) % kBlocks] = kOfFile + from + i;
  }

  void recurse(int depth, std::uint64_t number) {
    Words words[16];
    for (std::size_t i = 0; i < 16; ++i) words[i] = contents(number + i);
    if (depth > 0) recurse(depth - 1, mix(number));
    for (std::size_t i = 0; i < 16; ++i) {
      if (words[i] != contents(number + i)) wrong("other contents of the stack", &words[i]);
    }
  }

  /// A child sees what its parent does, and what it writes is its own.
  void fork_and_check() {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const Region& each : regions_) check(each);
      for (Region& each : regions_) scatter(each);
      ::_exit(0);
    }
    int status = -1;
    while (::waitpid(child, &status, 0) < 0) continue;
    if (status != 0) wrong("the child's status, as an address,", reinterpret_cast<void*>(status));
  }

  const int self_, steps_;
  int step_ = 0;
  std::uint64_t state_;
  std::FILE* const log_;
  std::vector<Region> regions_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string name = argv[1];
  const std::uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  source = ::open((name + ".source").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (std::size_t block = 0; block < kFilePages * kBlocks; ++block) {
    const Words words = contents(kOfFile + block);
    if (::write(source, words.data(), kBlock) != kBlock) return 1;
  }
  std::vector<std::thread> threads;
  std::vector<Worker> workers;
  for (int self = 0; self < kThreads; ++self) {
    std::FILE* const log = std::fopen((name + "." + std::to_string(self)).c_str(), "w");
    if (log == nullptr) return 1;
    workers.emplace_back(self, std::atoi(argv[2]), seed, log);
  }
  for (int self = 1; self < kThreads; ++self)
    threads.emplace_back([&, self] { workers[static_cast<std::size_t>(self)].run(); });
  workers[0].run();
  for (std::thread& thread : threads) thread.join();
  return 0;
}
