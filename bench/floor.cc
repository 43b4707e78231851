// SPDX-License-Identifier: BSD-3-Clause
#include "bench/floor.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "bench/workload.h"
#include "measure/scratch_memory.h"
#include "perdure/domain/adr.h"

namespace perdure::bench {
namespace {

constexpr unsigned kMaxThreads = 64;

[[noreturn]] void fail(const std::string& what) {
  throw Exception(Code::kIo, what + ": " + std::strerror(errno));
}

/// One thread's position in its log.
struct alignas(kLineBytes) Lane {
  std::uint64_t line = 0;
  Random random{1};
};

template <class WriteBack>
void append_lines(Word* log, std::uint64_t log_lines, std::uint64_t& at, unsigned lines,
                  std::uint64_t operations) {
  for (; operations > 0; --operations) {
    for (unsigned i = 0; i < lines; ++i) {
      Word* line = log + at % log_lines * 8;
      ++at;
      for (unsigned w = 0; w < 8; ++w) store_word(line + w, operations);
      WriteBack::write_back(line);
    }
    x86::sfence();
  }
}

template <class WriteBack>
void touch_lines(Word* words, std::uint64_t all_lines, Random& random, unsigned lines,
                 std::uint64_t operations) {
  for (; operations > 0; --operations) {
    for (unsigned i = 0; i < lines; ++i) {
      Word* line = words + random.below(all_lines) * 8;
      store_word(line, operations);
      WriteBack::write_back(line);
    }
    x86::sfence();
  }
}

/// Calls `with(WriteBack{})` for the best write-back instruction of this CPU.
template <class With>
void with_write_back(With with) {
  switch (x86::best_write_back()) {
    case x86::WriteBack::kClwb: return with(x86::Clwb{});
    case x86::WriteBack::kClflushopt: return with(x86::Clflushopt{});
    case x86::WriteBack::kClflush: return with(x86::Clflush{});
  }
}

}  // namespace

struct MemoryFloor::Memory {
  static constexpr std::uint64_t kLogBytes = std::uint64_t{1} << 20;  // as the ring of a pool

  Memory(const std::string& dir, std::uint64_t bytes)
      : home(dir, bytes), logs(dir, kMaxThreads * kLogBytes) {}
  Word* log(unsigned thread) const { return logs.words() + thread * kLogBytes / kWordBytes; }

  ScratchMemory home;
  ScratchMemory logs;
  std::array<Lane, kMaxThreads> lanes;
};

MemoryFloor::MemoryFloor(const std::string& dir, std::uint64_t bytes)
    : memory_(std::make_unique<Memory>(dir, bytes)) {}
MemoryFloor::~MemoryFloor() = default;

Contestant MemoryFloor::log_lines(unsigned lines) {
  Memory* memory = memory_.get();
  return {{}, [memory, lines](std::uint64_t operations, unsigned thread) {
            with_write_back([&](auto write_back) {
              append_lines<decltype(write_back)>(memory->log(thread),
                                                 Memory::kLogBytes / kLineBytes,
                                                 memory->lanes[thread].line, lines, operations);
            });
          }};
}

Contestant MemoryFloor::random_lines(unsigned lines) {
  Memory* memory = memory_.get();
  return {{}, [memory, lines](std::uint64_t operations, unsigned thread) {
            with_write_back([&](auto write_back) {
              touch_lines<decltype(write_back)>(memory->home.words(),
                                                memory->home.bytes() / kLineBytes,
                                                memory->lanes[thread].random, lines, operations);
            });
          }};
}

Contestant MemoryFloor::random_stores(unsigned stores) {
  Memory* memory = memory_.get();
  return {{}, [memory, stores](std::uint64_t operations, unsigned thread) {
            Random& random = memory->lanes[thread].random;
            for (; operations > 0; --operations) {
              for (unsigned i = 0; i < stores; ++i) {
                store_word(memory->home.words() + random.below(memory->home.bytes() / kWordBytes),
                           operations);
              }
            }
          }};
}

struct DiskFloor::File {
  static constexpr std::uint64_t kPartPages = 256;

  File(const std::string& dir, unsigned threads) : file(dir, "floor") {
    buffer = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kPageBytes));
    std::memset(buffer, 1, kPageBytes);
    const int plain = ::open(file.path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (plain < 0) fail(file.path());
    for (std::uint64_t page = 0; page < threads * kPartPages; ++page) {
      if (::pwrite(plain, buffer, kPageBytes, static_cast<off_t>(page * kPageBytes)) < 0)
        fail(file.path());
    }
    if (::fsync(plain) != 0) fail(file.path());
    ::close(plain);
    fd = ::open(file.path().c_str(), O_RDWR | O_DIRECT | O_DSYNC | O_CLOEXEC);
    if (fd < 0) fail(file.path() + " (O_DIRECT)");
  }
  ~File() {
    ::close(fd);
    std::free(buffer);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  ScratchFile file;
  int fd = -1;
  std::byte* buffer = nullptr;
};

DiskFloor::DiskFloor(const std::string& dir, unsigned threads)
    : file_(std::make_unique<File>(dir, threads)) {}
DiskFloor::~DiskFloor() = default;

Contestant DiskFloor::writes() {
  File* file = file_.get();
  return {{}, [file](std::uint64_t operations, unsigned thread) {
            for (std::uint64_t i = 0; i < operations; ++i) {
              const std::uint64_t page = thread * File::kPartPages + i % File::kPartPages;
              if (::pwrite(file->fd, file->buffer, kPageBytes,
                           static_cast<off_t>(page * kPageBytes)) < 0)
                fail(file->file.path());
            }
          }};
}

}  // namespace perdure::bench
