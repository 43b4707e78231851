// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/onlookers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "perdure/region/live_protocol.h"

namespace perdure {
namespace {

constexpr std::size_t kMostReaders = 64;

bool is_opened_for_reading(int fd, int same_as) {
  struct stat a{};
  struct stat b{};
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && (flags & O_PATH) == 0 &&
         ::fstat(fd, &a) == 0 && ::fstat(same_as, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

struct Onlookers::Reader {
  ~Reader() {
    if (header != nullptr) ::munmap(header, kPageBytes);
  }
  void give_up() {
    header->count.store(live::kGivenUp, std::memory_order_release);
    socket = Descriptor();
  }
  bool has(std::uint64_t page) const { return ((kept[page / 64] >> page % 64) & 1) != 0; }

  Descriptor socket;
  Descriptor file;
  live::KeptHeader* header = nullptr;
  std::uint64_t count = 0;
  std::uint64_t pages = 0;          // of the pool's file when the reader came
  std::vector<std::uint64_t> kept;  // a bit for each of these
};

Onlookers::Onlookers() : owner_pid_(::getpid()) {}
Onlookers::~Onlookers() {
  // Before the lock of the file. A forked child shares both, and gives neither up.
  if (meeting_ != 0 && owner_pid_ == ::getpid()) (void)live::set_lock(fd_, F_UNLCK, meeting_);
}

std::unique_ptr<Onlookers> Onlookers::of(int fd, const std::string& path) {
  struct stat status{};
  Offset meeting = 0;
  if (::fstat(fd, &status) != 0 || ::getrandom(&meeting, sizeof(meeting), 0) != sizeof(meeting))
    return nullptr;
  meeting = live::kFirstMeeting + meeting % live::kMeetings;
  std::unique_ptr<Onlookers> self(new Onlookers);
  self->fd_ = fd;
  self->directory_ = directory_of(path);
  self->socket_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const live::Meeting at = live::meeting_of(status.st_dev, status.st_ino, meeting);
  if (self->socket_.get() < 0 ||
      ::bind(self->socket_.get(), reinterpret_cast<const sockaddr*>(&at.address), at.bytes) != 0 ||
      ::listen(self->socket_.get(), kMostReaders) != 0 || !live::set_lock(fd, F_WRLCK, meeting))
    return nullptr;
  self->meeting_ = meeting;
  return self;
}

void Onlookers::take_writing_byte() noexcept {
  // A reader has it for microseconds. Who keeps it for longer does not stop this process: readers see
  // that they are no longer welcome.
  constexpr std::chrono::milliseconds kPatience(500);
  if (meeting_ == 0 || live::set_lock(fd_, F_WRLCK, live::kWritingByte)) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (live::set_lock(fd_, F_WRLCK, live::kWritingByte)) return;
  }
  leave();
}

/// Lets nobody look on any more. Who does sees that.
void Onlookers::leave() noexcept {
  if (meeting_ != 0) (void)live::set_lock(fd_, F_UNLCK, meeting_);
  meeting_ = 0;
  socket_ = Descriptor();
  readers_.clear();
}

void Onlookers::begin(Offset offset, std::uint64_t bytes) noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !welcoming_; });
  if (writing_++ == 0) take_writing_byte();
  look_around(lock);
  for (auto& reader : readers_) {
    try {
      keep(*reader, offset, bytes);
    } catch (const std::exception&) {
      reader->give_up();
    }
  }
}

void Onlookers::end() noexcept {
  const std::lock_guard lock(mutex_);
  if (--writing_ == 0) (void)live::set_lock(fd_, F_UNLCK, live::kWritingByte);
  if (welcoming_) changed_.notify_all();
}

bool Onlookers::any() {
  std::unique_lock lock(mutex_);
  return !readers_.empty();
}

/// Forgets readers that have gone, and welcomes those that have come.
void Onlookers::look_around(std::unique_lock<std::mutex>& lock) {
  std::array<pollfd, kMostReaders + 1> sockets;
  std::size_t count = 0;
  sockets[count++] = {socket_.get(), POLLIN, 0};
  for (const auto& reader : readers_) sockets[count++] = {reader->socket.get(), POLLIN, 0};
  const int found = ::poll(sockets.data(), count, 0);
  if (found == 0) return;
  for (std::size_t i = readers_.size(); i-- > 0;) {
    // A reader says no more after its first word: what can be read is its end.
    if (sockets[i + 1].revents != 0 || readers_[i]->socket.get() < 0)
      readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (found > 0 && sockets[0].revents == 0) return;
  // What others are writing was begun without these readers.
  welcoming_ = true;
  changed_.wait(lock, [&] { return writing_ == 1; });
  // Who waits and is not seen would believe that nothing is written.
  if (!welcome_all()) leave();
  welcoming_ = false;
  changed_.notify_all();
}

/// False: somebody may be waiting still.
bool Onlookers::welcome_all() noexcept {
  for (std::size_t i = 0; i < 4 * kMostReaders; ++i) {
    const int socket = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    Descriptor visitor(socket);
    if (readers_.size() == kMostReaders) continue;  // sent away
    try {
      readers_.reserve(readers_.size() + 1);
      if (auto reader = welcome(std::move(visitor))) readers_.push_back(std::move(reader));
    } catch (const std::exception&) {
      // No memory: this one is sent away, too.
    }
  }
  return false;
}

/// Null: it is sent away.
std::unique_ptr<Onlookers::Reader> Onlookers::welcome(Descriptor visitor) const {
  auto reader = std::make_unique<Reader>();
  reader->socket = std::move(visitor);
  struct stat status{};
  const Descriptor proof = live::receive_file(reader->socket.get());
  if (proof.get() < 0 || !is_opened_for_reading(proof.get(), fd_) || ::fstat(fd_, &status) != 0)
    return nullptr;
  reader->pages = round_up(static_cast<std::uint64_t>(status.st_size), kPageBytes) / kPageBytes;
  reader->kept.resize(reader->pages / 64 + 1);
  reader->file = make_file_for_pages();
  const int file = reader->file.get();
  // Written before it is mapped, so that it has space.
  const std::array<std::byte, kPageBytes> zeros{};
  if (file < 0 || !write_at(file, zeros.data(), zeros.size(), 0)) return nullptr;
  void* const header = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (header == MAP_FAILED) return nullptr;
  reader->header = static_cast<live::KeptHeader*>(header);
  // The reader cannot change it, or cut it.
  const std::string self = "/proc/self/fd/" + std::to_string(file);
  const Descriptor to_read(::open(self.c_str(), O_RDONLY | O_CLOEXEC));
  if (to_read.get() < 0 || !live::send_file(reader->socket.get(), to_read.get())) return nullptr;
  return reader;
}

/// A file without a name, in the pool's directory; in memory, where that is not possible.
Descriptor Onlookers::make_file_for_pages() const {
  Descriptor file(::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() >= 0) return file;
  file = Descriptor(::memfd_create("perdure-pages", MFD_CLOEXEC));
  if (file.get() >= 0 && ::fchmod(file.get(), 0600) != 0) file = Descriptor();
  return file;
}

void Onlookers::keep(Reader& reader, Offset offset, std::uint64_t bytes) {
  constexpr std::uint64_t kAtOnce = 64;
  if (reader.socket.get() < 0 || bytes == 0) return;
  const std::uint64_t end = std::min((offset + bytes - 1) / kPageBytes + 1, reader.pages);
  std::vector<live::KeptPage> pages;
  for (std::uint64_t page = offset / kPageBytes; page < end;) {
    pages.clear();
    for (; page < end && pages.size() < kAtOnce; ++page) {
      if (reader.has(page)) continue;
      live::KeptPage& next = pages.emplace_back();
      next.number = page;
      // What the file does not have reads as zeros.
      if (!read_at(fd_, next.bytes.data(), kPageBytes, page * kPageBytes) && errno != 0)
        return reader.give_up();
    }
    if (pages.empty()) continue;
    if (!write_at(reader.file.get(), pages.data(), pages.size() * sizeof(live::KeptPage),
                  live::kept_page_at(reader.count)))
      return reader.give_up();
    for (const live::KeptPage& kept : pages)
      reader.kept[kept.number / 64] |= std::uint64_t{1} << kept.number % 64;
    reader.count += pages.size();
    // Release: who sees the count finds the pages.
    reader.header->count.store(reader.count, std::memory_order_release);
  }
}

}  // namespace perdure
