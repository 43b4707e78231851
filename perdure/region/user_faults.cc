// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/user_faults.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "perdure/base/check.h"
#include "perdure/base/quiet_thread.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace perdure {
namespace {

constexpr std::size_t kReservePages = 64;  // a mapping each

uffdio_range range_of(const std::byte* address, std::uint64_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(address), bytes};
}

}  // namespace

Result<std::unique_ptr<UserFaults>> UserFaults::open(Handler handler, bool user_mode_only) {
  std::unique_ptr<UserFaults> self(new UserFaults);
  const auto ask = [](int flags) {
    return Descriptor(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags)));
  };
  if (!user_mode_only) self->faults_ = ask(0);
  if (self->faults_.get() < 0) {
    self->faults_ = ask(UFFD_USER_MODE_ONLY);
    self->sees_system_calls_ = false;
  }
  if (self->faults_.get() < 0)
    return Error{Code::kIo, io_error("userfaultfd").message +
                                "; a frame pool needs a kernel with CONFIG_USERFAULTFD, 5.11 or "
                                "later, and no filter against that system call"};
  // Moving a watched page must leave it watched.
  uffdio_api api{UFFD_API, UFFD_FEATURE_EVENT_REMAP, 0};
  if (::ioctl(self->faults_.get(), UFFDIO_API, &api) != 0)
    return Error{Code::kIo, io_error("userfaultfd: asking for UFFD_FEATURE_EVENT_REMAP").message +
                                "; a frame pool needs a newer kernel"};
  self->stop_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
  self->empty_ = Descriptor(::memfd_create("perdure-no-frame", MFD_CLOEXEC));
  if (self->stop_.get() < 0 || self->empty_.get() < 0) return io_error("userfaultfd: set-up");
  self->refill_reserve();
  self->handler_ = std::move(handler);
  // The threads take no signals: a handler of the program might touch a watched address, and would
  // wait there for itself.
  self->server_ = quiet_thread([raw = self.get()] { raw->serve_queue(); });
  self->reader_ = quiet_thread([raw = self.get()] { raw->read_faults(); });
  return self;
}

UserFaults::~UserFaults() {
  stop();
  spend_reserve();
}

void UserFaults::stop() {
  {
    const std::lock_guard lock(queue_mutex_);
    stopping_ = true;
  }
  queued_.notify_all();
  // The server first: it may be in hide(), which waits for the reader.
  if (server_.joinable()) server_.join();
  const std::uint64_t one = 1;
  if (reader_.joinable()) {
    PERDURE_CHECK(::write(stop_.get(), &one, sizeof(one)) == sizeof(one), "cannot stop a thread");
    reader_.join();
  }
}

Result<void> UserFaults::want_faults(std::byte* address, std::uint64_t bytes) {
  uffdio_register wanted{};
  wanted.range = range_of(address, bytes);
  wanted.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(faults_.get(), UFFDIO_REGISTER, &wanted) == 0) return {};
  return io_error("userfaultfd: watching " + std::to_string(bytes) + " bytes of addresses");
}

Result<std::byte*> UserFaults::watch(std::byte* address, std::uint64_t bytes, int protection) {
  const int flags =
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address != nullptr ? MAP_FIXED : 0);
  void* range = ::mmap(address, bytes, protection, flags, -1, 0);
  if (range == MAP_FAILED)
    return io_error("mapping " + std::to_string(bytes) + " bytes of addresses");
  auto* begin = static_cast<std::byte*>(range);
  // A forked child would see zeros here, and store to frames that were given to another page.
  ::madvise(range, bytes, MADV_DONTFORK);
  if (auto wanted = want_faults(begin, bytes); !wanted) {
    ::munmap(range, bytes);
    return wanted.error();
  }
  return begin;
}

void UserFaults::forget(std::byte* address, std::uint64_t bytes) {
  while (::munmap(address, bytes) != 0 && errno == ENOMEM && spend_reserve()) {
  }
  refill_reserve();
}

void UserFaults::leave_nothing(std::byte* address, std::uint64_t bytes) {
  const auto covered = [&] {
    return ::mmap(address, bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
  };
  while (!covered())
    PERDURE_CHECK(spend_reserve(), "no mapping left for addresses that are given up");
  refill_reserve();
}

bool UserFaults::move(void* from, std::byte* to, std::uint64_t bytes) {
  if (::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED) return true;
  PERDURE_CHECK(errno == ENOMEM, "the kernel moves no mapping over a watched address");
  ::munmap(from, bytes);
  return false;
}

void UserFaults::wake(std::byte* address, std::uint64_t bytes) {
  uffdio_range range = range_of(address, bytes);
  PERDURE_CHECK(::ioctl(faults_.get(), UFFDIO_WAKE, &range) == 0, "cannot wake who faulted");
}

UserFaults::Outcome UserFaults::show(std::byte* address, std::uint64_t bytes, int protection,
                                     int fd, Offset offset, int map_flags) {
  void* made = ::mmap(nullptr, bytes, protection, map_flags, fd, static_cast<off_t>(offset));
  if (made == MAP_FAILED) {
    PERDURE_CHECK(errno == ENOMEM, "the pool's file cannot be mapped any more");
    return Outcome::kFull;
  }
  ::madvise(made, bytes, MADV_DONTFORK);
  if (!move(made, address, bytes)) return Outcome::kFull;
  wake(address, bytes);
  return Outcome::kDone;
}

UserFaults::Outcome UserFaults::hide(std::byte* address, std::uint64_t bytes, int protection) {
  auto made = watch(nullptr, bytes, protection);
  if (!made) return Outcome::kFull;
  // Returns when the reader has taken note of the move: that is how the kernel keeps a page
  // watched.
  return move(made.value(), address, bytes) ? Outcome::kDone : Outcome::kFull;
}

void UserFaults::break_at(std::byte* address, std::uint64_t bytes) {
  const auto broken = [&] {
    return ::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty_.get(),
                  0) != MAP_FAILED;
  };
  while (!broken())
    PERDURE_CHECK(spend_reserve(), "no mapping left for an address whose page cannot be had");
  refill_reserve();
  wake(address, bytes);
}

void UserFaults::fill(std::byte* address, const std::byte* data, std::uint64_t bytes) {
  uffdio_copy copy{};
  int failed = 0;
  do {
    copy = {};
    copy.dst = reinterpret_cast<std::uintptr_t>(address);
    copy.src = reinterpret_cast<std::uintptr_t>(data);
    copy.len = bytes;
    failed = ::ioctl(faults_.get(), UFFDIO_COPY, &copy) == 0 ? 0 : errno;
  } while (failed == EAGAIN && copy.copy <= 0);  // somebody changes mappings
  if (failed == 0) return;
  if (failed == EEXIST) return wake(address, bytes);
  break_at(address, bytes);
}

bool UserFaults::spend_reserve() {
  if (reserve_ == nullptr) return false;
  ::munmap(reserve_, kReservePages * kPageBytes);
  reserve_ = nullptr;
  return true;
}

void UserFaults::refill_reserve() {
  if (reserve_ != nullptr) return;
  void* pages = ::mmap(nullptr, kReservePages * kPageBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return;
  reserve_ = static_cast<std::byte*>(pages);
  // Every second page differs, so that the kernel cannot make one mapping of them. Where it has no
  // more to give, the reserve is what there is.
  for (std::size_t page = 0; page < kReservePages; page += 2)
    ::mprotect(reserve_ + page * kPageBytes, kPageBytes, PROT_READ);
}

/// Never waits for a lock that a caller of hide() may hold: that one waits for this thread.
void UserFaults::read_faults() {
  pollfd waits[] = {{faults_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  for (;;) {
    if (::poll(waits, 2, -1) < 0) {
      PERDURE_CHECK(errno == EINTR, "cannot wait for faults");
      continue;
    }
    if (waits[1].revents != 0) return;
    uffd_msg message{};
    const ssize_t got = ::read(faults_.get(), &message, sizeof(message));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    PERDURE_CHECK(got == sizeof(message), "cannot read faults");
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;  // a move, which reading has acknowledged
    auto* address = reinterpret_cast<std::byte*>(message.arg.pagefault.address);
    if (handler_.quickly(address)) continue;
    {
      const std::lock_guard lock(queue_mutex_);
      queue_.push_back(address);
    }
    queued_.notify_one();
  }
}

void UserFaults::serve_queue() {
  std::unique_lock lock(queue_mutex_);
  for (;;) {
    queued_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    std::byte* address = queue_.front();
    queue_.pop_front();
    lock.unlock();
    handler_.thoroughly(address);
    lock.lock();
  }
}

}  // namespace perdure
