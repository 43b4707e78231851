// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/live_image.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "perdure/region/user_faults.h"

namespace perdure {
namespace {

/// So much is read at once, and where it is all, at once and for all.
constexpr std::uint64_t kChunkBytes = 16 * kPageBytes;
constexpr std::uint64_t kFewBytes = std::uint64_t{64} << 20;

constexpr std::chrono::seconds kMeetWithin(10);

/// Whether `socket` leads to a process of the file's owner, root's or our own: another might say
/// anything.
bool is_trusted(int socket, const struct stat& file) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         (peer.uid == 0 || peer.uid == file.st_uid || peer.uid == ::geteuid());
}

}  // namespace

LiveImage::~LiveImage() {
  if (faults_) faults_->stop();
  faults_.reset();
  if (base_ != nullptr) ::munmap(base_, mapped_bytes_);
  if (kept_ != nullptr) ::munmap(kept_, kept_bytes_);
}

Result<std::unique_ptr<LiveImage>> LiveImage::open(Descriptor fd, const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + kMeetWithin;
  std::unique_ptr<LiveImage> self(new LiveImage);
  self->path_ = path;
  self->fd_ = std::move(fd);
  for (;;) {
    auto met = self->meet(path);
    if (met) break;
    // A writer that comes or goes is no longer there, or not yet.
    if (met.error().code != Code::kBusy || self->sent_away_ ||
        std::chrono::steady_clock::now() > end)
      return met.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  struct stat status{};
  if (::fstat(self->fd_.get(), &status) != 0) return io_error(path);
  self->bytes_ = static_cast<std::uint64_t>(status.st_size);
  // What this process is about to tell must not be taken back.
  if (::fdatasync(self->fd_.get()) != 0) return io_error(path + ": waiting for the device");
  if (!self->writer_is_there()) return self->gone();
  return self;
}

Result<void> LiveImage::meet(const std::string& path) {
  file_ = Descriptor();  // of a writer that has gone
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) return io_error(path);
  meeting_ = live::find_lock(fd_.get(), live::kFirstMeeting, live::kMeetings);
  if (meeting_ == 0)
    return Error{Code::kNotFound, path + ": nobody who has it open lets others look on"};
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const live::Meeting at = live::meeting_of(status.st_dev, status.st_ino, meeting_);
  if (socket_.get() < 0 ||
      ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&at.address), at.bytes) != 0)
    return Error{Code::kBusy,
                 io_error(path + ": in use by a program that cannot be reached").message};
  if (!is_trusted(socket_.get(), status))
    return Error{Code::kBusy, path + ": in use by a program of a user who is not its owner"};
  if (!live::send_file(socket_.get(), fd_.get())) return gone();
  return await_moment();
}

/// Returns when no write is under way that was begun before the writer could know of us.
Result<void> LiveImage::await_moment() {
  const auto end = std::chrono::steady_clock::now() + kMeetWithin;
  for (;;) {
    if (live::set_lock(fd_.get(), F_RDLCK, live::kWritingByte)) {
      (void)live::set_lock(fd_.get(), F_UNLCK, live::kWritingByte);
      break;
    }
    if (errno != EAGAIN && errno != EACCES) return io_error(path_ + ": locking");
    pollfd answer{socket_.get(), POLLIN, 0};
    if (::poll(&answer, 1, 1) > 0) {
      file_ = live::receive_file(socket_.get());
      if (file_.get() >= 0) break;
      // Of one that is killed the socket may go a moment before its locks.
      for (int i = 0; i < 20; ++i) {
        if (!writer_is_there()) return gone();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      sent_away_ = true;
      return Error{Code::kBusy,
                   path_ +
                       ": the program that has it open cannot let others look now: there are 64 of "
                       "them, or on memory a thread blocks SIGSEGV, or another handler has taken "
                       "the place of the library's; try again, or close it there"};
    }
    if (std::chrono::steady_clock::now() > end)
      return Error{
          Code::kBusy,
          path_ + ": in use by a program that has been writing for ten seconds; try again"};
  }
  return writer_is_there() ? Result<void>() : gone();
}

bool LiveImage::writer_is_there() const { return live::find_lock(fd_.get(), meeting_, 1) != 0; }
Error LiveImage::gone() const {
  return {Code::kBusy,
          path_ +
              ": the program that had it open closed it, or lets nobody look on any more, while it "
              "was being read; try again"};
}

/// After it, all is known that was kept before it was called.
Result<void> LiveImage::take_note_of_kept_pages() {
  if (file_.get() < 0) {
    file_ = live::receive_file(socket_.get());
    if (file_.get() < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};  // nothing was written yet
      return gone();
    }
  }
  if (kept_ == nullptr) {
    const std::uint64_t pages = round_up(bytes_, kPageBytes) / kPageBytes;
    kept_bytes_ = round_up(live::kept_page_at(pages + 1), kPageBytes);
    void* const kept = ::mmap(nullptr, kept_bytes_, PROT_READ, MAP_SHARED, file_.get(), 0);
    if (kept == MAP_FAILED) return io_error(path_ + ": mapping the pages that were kept");
    kept_ = static_cast<std::byte*>(kept);
  }
  const std::uint64_t count =
      reinterpret_cast<const live::KeptHeader*>(kept_)->count.load(std::memory_order_acquire);
  if (count == live::kGivenUp)
    return Error{Code::kNoSpace, path_ +
                                     ": the program that has it open had no space to keep pages "
                                     "for those who look on"};
  if (live::kept_page_at(count) > kept_bytes_)
    return Error{Code::kIo,
                 path_ + ": the program that has it open kept more pages than there are"};
  for (; noted_ < count; ++noted_) {
    std::uint64_t page = 0;
    std::memcpy(&page, kept_ + live::kept_page_at(noted_), sizeof(page));
    place_of_.emplace(page, noted_);
  }
  return {};
}

Result<void> LiveImage::read(Offset offset, std::byte* to, std::uint64_t bytes) {
  if (!read_at(fd_.get(), to, bytes, offset)) {
    if (errno != 0) return io_error(path_ + ": reading at " + std::to_string(offset));
    // The file ends there, or it is cut short: then the writer knows.
    std::memset(to, 0, bytes);
    if (offset < bytes_ && !read_at(fd_.get(), to, std::min(bytes, bytes_ - offset), offset))
      return Error{Code::kTruncated, path_ + ": was cut short while it was read"};
  }
  // Acquire: what has been read before what is known of it.
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::lock_guard lock(mutex_);
  if (auto noted = take_note_of_kept_pages(); !noted) return noted;
  for (std::uint64_t at = 0; at < bytes; at += kPageBytes) {
    const auto found = place_of_.find((offset + at) / kPageBytes);
    if (found == place_of_.end()) continue;
    std::memcpy(to + at, kept_ + live::kept_page_at(found->second) + sizeof(std::uint64_t),
                kPageBytes);
  }
  return writer_is_there() ? Result<void>() : gone();
}

void LiveImage::tell_losses_to(std::function<void(Offset, const Error&)> lost) {
  const std::lock_guard lock(mutex_);
  lost_ = std::move(lost);
}

Result<std::byte*> LiveImage::map(std::uint64_t bytes) {
  mapped_bytes_ = bytes;
  if (bytes_ > kFewBytes) {
    auto faults = UserFaults::open(
        {[this](std::byte* address) { return serve(address); }, [](std::byte*) {}}, false);
    if (faults) {
      auto base = faults.value()->watch(nullptr, bytes, PROT_READ | PROT_WRITE);
      if (!base) return base.error();
      const std::lock_guard lock(mutex_);
      base_ = base.value();
      chunk_.resize(kChunkBytes);
      faults_ = std::move(faults).value();
      return base_;
    }
  }
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return io_error(path_ + ": mapping " + std::to_string(bytes) + " bytes of address space");
  base_ = static_cast<std::byte*>(base);
  ::madvise(base, bytes, MADV_DONTFORK);
  constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 20;
  std::vector<std::byte> chunk(kAtOnce);
  const std::uint64_t end = std::min(round_up(bytes_, kPageBytes), bytes);
  for (Offset offset = 0; offset < end; offset += kAtOnce) {
    const std::uint64_t now = std::min(kAtOnce, end - offset);
    if (auto got = read(offset, chunk.data(), now); !got) return got.error();
    // Pages of zeros take no memory.
    for (std::uint64_t at = 0; at < now; at += kPageBytes) {
      const std::byte* const page = chunk.data() + at;
      const bool zero = page[0] == std::byte{} && std::memcmp(page, page + 1, kPageBytes - 1) == 0;
      if (!zero) std::memcpy(base_ + offset + at, page, kPageBytes);
    }
  }
  return base_;
}

/// Serves a fault.
bool LiveImage::serve(std::byte* address) {
  // That all is set before the first fault is known to the kernel only.
  std::unique_lock lock(mutex_);
  const auto lost = lost_;
  UserFaults& faults = *faults_;
  std::byte* const base = base_;
  lock.unlock();
  const Offset offset = round_down(static_cast<Offset>(address - base), kChunkBytes);
  const std::uint64_t bytes = std::min(kChunkBytes, mapped_bytes_ - offset);
  if (auto got = read(offset, chunk_.data(), bytes); !got) {
    if (lost) lost(offset, got.error());
    std::fill(chunk_.begin(), chunk_.end(), std::byte{});
  }
  faults.fill(base + offset, chunk_.data(), bytes);
  return true;
}

}  // namespace perdure
