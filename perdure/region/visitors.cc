// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/visitors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <thread>

namespace perdure {
namespace {

/// So many pages are written at once.
constexpr std::size_t kKeptAtOnce = 64;

bool is_opened_for_reading(int fd, int same_as) {
  struct stat a{};
  struct stat b{};
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && (flags & O_PATH) == 0 &&
         ::fstat(fd, &a) == 0 && ::fstat(same_as, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

Visitors::Reader::~Reader() {
  if (header != nullptr) ::munmap(header, kPageBytes);
}
void Visitors::Reader::give_up() noexcept {
  header->count.store(live::kGivenUp, std::memory_order_release);
  socket = Descriptor();
}

Visitors::Visitors() : owner_pid_(::getpid()) {}
Visitors::~Visitors() {
  // Before the lock of the file. A forked child shares both, and gives neither up.
  if (meeting_ != 0 && are_ours()) (void)live::set_lock(fd_, F_UNLCK, meeting_);
}
bool Visitors::are_ours() const { return owner_pid_ == ::getpid(); }

bool Visitors::invite(int fd, const std::string& path) {
  struct stat status{};
  Offset meeting = 0;
  if (::fstat(fd, &status) != 0 || ::getrandom(&meeting, sizeof(meeting), 0) != sizeof(meeting))
    return false;
  meeting = live::kFirstMeeting + meeting % live::kMeetings;
  fd_ = fd;
  directory_ = directory_of(path);
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const live::Meeting at = live::meeting_of(status.st_dev, status.st_ino, meeting);
  if (socket_.get() < 0 ||
      ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&at.address), at.bytes) != 0 ||
      ::listen(socket_.get(), kMost) != 0 || !live::set_lock(fd, F_WRLCK, meeting))
    return false;
  meeting_ = meeting;
  return true;
}

void Visitors::send_away() noexcept {
  if (meeting_ != 0) (void)live::set_lock(fd_, F_UNLCK, meeting_);
  meeting_ = 0;
  socket_ = Descriptor();
  readers_.clear();
}

void Visitors::take_writing_byte() noexcept {
  // A reader has it for microseconds. Who keeps it for longer does not stop this process: readers see
  // that they are no longer welcome.
  constexpr std::chrono::milliseconds kPatience(500);
  if (meeting_ == 0 || live::set_lock(fd_, F_WRLCK, live::kWritingByte)) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (live::set_lock(fd_, F_WRLCK, live::kWritingByte)) return;
  }
  send_away();
}
void Visitors::give_writing_byte_back() const noexcept {
  (void)live::set_lock(fd_, F_UNLCK, live::kWritingByte);
}

void Visitors::prepare_to_wait(int wake) {
  event_count_ = 0;
  events_[event_count_++] = {socket_.get(), POLLIN, 0};
  for (const auto& reader : readers_) events_[event_count_++] = {reader->socket.get(), POLLIN, 0};
  events_[event_count_++] = {wake, POLLIN, 0};
}
bool Visitors::wait(int milliseconds) {
  const int found = ::poll(events_.data(), event_count_, milliseconds);
  // Interrupted: somebody may have come.
  if (found < 0) events_[0].revents = POLLIN;
  return found != 0;
}

void Visitors::forget_gone() {
  for (std::size_t i = readers_.size(); i-- > 0;) {
    // A reader says no more after its first word: what can be read is its end.
    if (events_[i + 1].revents != 0 || readers_[i]->socket.get() < 0)
      readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::unique_ptr<Visitors::Arrivals> Visitors::meet() {
  auto arrivals = std::make_unique<Arrivals>();
  for (std::size_t i = 0; i < 4 * kMost; ++i) {
    const int socket = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) return nullptr;
      return arrivals;
    }
    Descriptor visitor(socket);
    if (readers_.size() + arrivals->readers.size() == kMost) continue;  // sent away
    try {
      if (auto reader = meet(std::move(visitor))) arrivals->readers.push_back(std::move(reader));
    } catch (const std::exception&) {
      // No memory: this one is sent away, too.
    }
  }
  return nullptr;
}

/// Null: it is sent away.
std::unique_ptr<Visitors::Reader> Visitors::meet(Descriptor visitor) const {
  auto reader = std::make_unique<Reader>();
  reader->socket = std::move(visitor);
  const Descriptor proof = live::receive_file(reader->socket.get());
  if (proof.get() < 0 || !is_opened_for_reading(proof.get(), fd_)) return nullptr;
  reader->file = make_file_for_pages();
  const int file = reader->file.get();
  // Written before it is mapped, so that it has space.
  const std::array<std::byte, kPageBytes> zeros{};
  if (file < 0 || !write_at(file, zeros.data(), zeros.size(), 0)) return nullptr;
  void* const header = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (header == MAP_FAILED) return nullptr;
  reader->header = static_cast<live::KeptHeader*>(header);
  return reader;
}

/// A file without a name, in the pool's directory; in memory, where that is not possible.
Descriptor Visitors::make_file_for_pages() const {
  Descriptor file(::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() >= 0) return file;
  file = Descriptor(::memfd_create("perdure-pages", MFD_CLOEXEC));
  if (file.get() >= 0 && ::fchmod(file.get(), 0600) != 0) file = Descriptor();
  return file;
}

void Visitors::let_in(Arrivals& arrivals, std::uint64_t bytes) {
  batch_.reserve(kKeptAtOnce);
  readers_.reserve(readers_.size() + arrivals.readers.size());
  for (auto& reader : arrivals.readers) {
    reader->pages = round_up(bytes, kPageBytes) / kPageBytes;
    reader->kept.resize(reader->pages / 64 + 1);
  }
  for (auto& reader : arrivals.readers) readers_.push_back(std::move(reader));
  arrivals.readers.clear();
}

void Visitors::tell() {
  for (auto& reader : readers_) {
    if (reader->told || reader->socket.get() < 0) continue;
    reader->told = true;
    // The reader cannot change it, or cut it.
    const std::string self = "/proc/self/fd/" + std::to_string(reader->file.get());
    const Descriptor to_read(::open(self.c_str(), O_RDONLY | O_CLOEXEC));
    if (to_read.get() < 0 || !live::send_file(reader->socket.get(), to_read.get()))
      reader->give_up();
  }
}

bool Visitors::keep(Offset offset, std::uint64_t bytes) noexcept {
  bool gave_up = false;
  for (auto& reader : readers_) {
    if (keep_for(*reader, offset, bytes)) continue;
    reader->give_up();
    gave_up = true;
  }
  return gave_up;
}

void Visitors::give_up() noexcept {
  for (auto& reader : readers_) reader->give_up();
}

bool Visitors::keep_for(Reader& reader, Offset offset, std::uint64_t bytes) noexcept {
  if (reader.socket.get() < 0 || bytes == 0) return true;
  const std::uint64_t end = std::min((offset + bytes - 1) / kPageBytes + 1, reader.pages);
  for (std::uint64_t page = offset / kPageBytes; page < end;) {
    batch_.clear();
    for (; page < end && batch_.size() < kKeptAtOnce; ++page) {
      if (reader.has(page)) continue;
      live::KeptPage& next = batch_.emplace_back();  // there is room: let_in()
      next.number = page;
      // What the file does not have reads as zeros.
      if (!read_at(fd_, next.bytes.data(), kPageBytes, page * kPageBytes) && errno != 0)
        return false;
    }
    if (batch_.empty()) continue;
    if (!write_at(reader.file.get(), batch_.data(), batch_.size() * sizeof(live::KeptPage),
                  live::kept_page_at(reader.count)))
      return false;
    for (const live::KeptPage& kept : batch_)
      reader.kept[kept.number / 64] |= std::uint64_t{1} << kept.number % 64;
    reader.count += batch_.size();
    // Release: who sees the count finds the pages.
    reader.header->count.store(reader.count, std::memory_order_release);
  }
  return true;
}

}  // namespace perdure
