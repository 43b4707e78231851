// SPDX-License-Identifier: BSD-3-Clause
// Those who look at a pool on memory, which is changed by stores that nobody hears of.
//
//   1. A thread waits until somebody comes.
//   2. It makes all pages of the pool read-only, by one system call. Stores before its return are seen by
//      the reader, those after it are faults: what is there between is what a kill would have left. No
//      store can be seen without one that it depends on, which would be waiting at its own fault.
//   3. What is seen leaves the caches, so that a power cut does not take it back.
//   4. The reader is told.
//   5. The first store to a piece of some pages is a fault: its handler keeps them for each reader, and
//      makes them writable.
//   6. When the last reader has gone, all pages are made writable.
//
// So nothing is slower while nobody looks.
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "perdure/base/quiet_thread.h"
#include "perdure/domain/any_memory.h"
#include "perdure/region/onlookers.h"
#include "perdure/region/store_faults.h"
#include "perdure/region/visitors.h"

namespace perdure {
namespace {

/// Of handlers of signals, too. Whoever holds it stores to no pool.
class SpinLock {
 public:
  void lock() noexcept {
    while (locked_.exchange(true, std::memory_order_acquire)) ::sched_yield();
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

class MemoryOnlookers final : public Onlookers, private StoreFaults {
 public:
  MemoryOnlookers(int fd, std::byte* base, std::uint64_t bytes, bool persistent)
      : StoreFaults(base, bytes), fd_(fd), bytes_(bytes), persistent_(persistent) {}
  ~MemoryOnlookers() override {
    if (!visitors_.are_ours()) {
      hear_no_more();
      if (thread_.joinable()) thread_.detach();  // a forked child has none
      return;
    }
    stopping_.store(true);
    wake();
    if (thread_.joinable()) thread_.join();
    make_writable();
    hear_no_more();
  }
  bool start(const std::string& path) {
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake_.get() < 0 || !hear() || !visitors_.invite(fd_, path)) return false;
    // Whoever comes waits until it is told.
    visitors_.take_writing_byte();
    thread_ = quiet_thread([this] { run(); });
    return true;
  }
  bool any() override {
    const std::lock_guard lock(lock_);
    return !visitors_.none();
  }

 private:
  // ---- stores, and writes of the file -------------------------------------------------------------
  void before_store(std::uint64_t offset) noexcept override {
    const std::lock_guard lock(lock_);
    const std::uint64_t piece = offset / piece_bytes_;
    if (piece >= writable_.size() || writable_[piece] != 0) return;  // another thread was quicker
    const std::uint64_t begin = piece * piece_bytes_;
    keep(begin, piece_bytes_);
    writable_[piece] = 1;
    if (protect(begin, std::min(piece_bytes_, bytes_ - begin), PROT_READ | PROT_WRITE)) return;
    // This process has no mapping left.
    visitors_.give_up();
    make_writable();
    wake();
  }
  void begin(Offset offset, std::uint64_t bytes) noexcept override {
    lock_.lock();
    keep(offset, bytes);
  }
  void end() noexcept override { lock_.unlock(); }
  bool any_while_writing() override { return !visitors_.none(); }

  void keep(Offset offset, std::uint64_t bytes) noexcept {
    if (visitors_.keep(offset, bytes)) wake();
  }
  bool protect(Offset offset, std::uint64_t bytes, int protection) noexcept {
    return ::mprotect(base() + offset, bytes, protection) == 0;
  }
  void make_writable() noexcept {
    if (!writable_.empty()) protect(0, bytes_, PROT_READ | PROT_WRITE);
    writable_.clear();
  }
  void wake() const noexcept {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
  }

  // ---- the thread that welcomes -------------------------------------------------------------------
  void run() {
    for (;;) {
      {
        const std::lock_guard lock(lock_);
        visitors_.prepare_to_wait(wake_.get());
      }
      visitors_.wait(-1);
      if (stopping_.load()) return;
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof(count));
      {
        const std::lock_guard lock(lock_);
        visitors_.forget_gone();
        if (visitors_.none()) make_writable();
      }
      if (!visitors_.somebody_comes() || welcome()) continue;
      const std::lock_guard lock(lock_);
      visitors_.send_away();
      make_writable();
      return;
    }
  }
  /// False: somebody may be waiting who was not seen.
  bool welcome() {
    try {
      const auto arrivals = visitors_.meet();
      if (arrivals == nullptr) return false;
      if (arrivals->readers.empty() || !are_heard()) return true;
      {
        const std::lock_guard lock(lock_);
        struct stat status{};
        if (::fstat(fd_, &status) != 0) return false;
        const auto bytes = static_cast<std::uint64_t>(status.st_size);
        if (!make_read_only(bytes)) return true;  // and they are sent away
        visitors_.let_in(*arrivals, bytes);
      }
      if (persistent_) write_back();
      const std::lock_guard lock(lock_);
      visitors_.tell();
      return true;
    } catch (const std::exception&) {  // no memory
      return false;
    }
  }
  /// Of the first `bytes` of the file.
  bool make_read_only(std::uint64_t bytes) {
    constexpr std::uint64_t kLeast = 16 * kPageBytes;
    // Each piece may become a mapping, of which a process has some 65,000.
    constexpr std::uint64_t kMostPieces = 8192;
    piece_bytes_ = std::max(kLeast, round_up(bytes / kMostPieces, kPageBytes));
    writable_.assign(round_up(bytes, piece_bytes_) / piece_bytes_, 0);
    if (protect(0, bytes, PROT_READ)) return true;
    make_writable();
    return false;
  }
  /// 3. Where the file has blocks: what was never written has nothing in the caches.
  void write_back() const {
    const AnyMemory memory(DomainKind::kAdr);
    for (off_t at = 0; (at = ::lseek(fd_, at, SEEK_DATA)) >= 0;) {
      const off_t hole = ::lseek(fd_, at, SEEK_HOLE);
      if (hole < 0) break;
      memory.flush(base() + at, static_cast<std::size_t>(hole - at), Site::kAdopt);
      at = hole;
    }
    // Orders: what the image shows before what its reader tells of it.
    (void)memory.fence(Site::kAdoptFence);
  }

  const int fd_;
  const std::uint64_t bytes_;  // of addresses
  const bool persistent_;
  Descriptor wake_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  SpinLock lock_;  // of what follows
  Visitors visitors_;
  std::uint64_t piece_bytes_ = 1;
  std::vector<std::uint8_t> writable_;  // which pieces; empty: all pages are
};

}  // namespace

std::unique_ptr<Onlookers> Onlookers::on_memory(int fd, const std::string& path, std::byte* base,
                                                std::uint64_t bytes, bool persistent) {
  auto self = std::make_unique<MemoryOnlookers>(fd, base, bytes, persistent);
  if (!self->start(path)) return nullptr;
  return self;
}

}  // namespace perdure
