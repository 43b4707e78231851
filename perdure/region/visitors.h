// SPDX-License-Identifier: BSD-3-Clause
// Visitors: the writer's side of perdure/region/live_protocol.h: the processes that have come to look at
//           the file, and the pages that are kept for each.
//
// Threads: one at a time, but for wait().
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "perdure/region/file.h"
#include "perdure/region/live_protocol.h"

namespace perdure {

class Visitors {
 public:
  static constexpr std::size_t kMost = 64;

  Visitors();
  ~Visitors();
  Visitors(const Visitors&) = delete;
  Visitors& operator=(const Visitors&) = delete;

  /// From now on they may come. `fd`: as of Onlookers::on_file().   False: the system does not allow it.
  bool invite(int fd, const std::string& path);
  /// Lets nobody look on any more. Who does sees that.
  void send_away() noexcept;
  bool none() const { return readers_.empty(); }
  /// Whether this is the process that invited them, and no forked child of it.
  bool are_ours() const;

  /// Takes the lock of the writing byte; nobody may look on any more if somebody keeps it from us for
  /// longer than a reader does.
  void take_writing_byte() noexcept;
  void give_writing_byte_back() const noexcept;

  /// wait() waits until somebody comes or goes, or `wake` can be read; `milliseconds` at most, or for
  /// ever: -1. False: it was the time. To be called by one thread only, which alone lets in and forgets.
  void prepare_to_wait(int wake = -1);
  bool wait(int milliseconds);
  /// What the last wait() has seen.
  bool somebody_comes() const { return events_[0].revents != 0; }
  void forget_gone();

  /// Those who have come, before they are let in. Those who may not look, or are too many, are sent away.
  struct Arrivals;
  /// Null: somebody may be waiting still who was not seen.
  std::unique_ptr<Arrivals> meet();
  /// From now on what the first `bytes` bytes of the file hold is kept for them.
  void let_in(Arrivals& arrivals, std::uint64_t bytes);
  /// Tells those that have been let in: they go on.
  void tell();

  /// Keeps for each of them what these bytes of the file hold, once. Who cannot be served is told, and
  /// true is returned. Async-signal-safe.
  bool keep(Offset offset, std::uint64_t bytes) noexcept;
  /// Tells all of them that there was no space.
  void give_up() noexcept;

 private:
  struct Reader;
  std::unique_ptr<Reader> meet(Descriptor visitor) const;
  Descriptor make_file_for_pages() const;
  bool keep_for(Reader& reader, Offset offset, std::uint64_t bytes) noexcept;

  int fd_ = -1;
  std::string directory_;
  const int owner_pid_;
  Offset meeting_ = 0;  // the byte whose lock says that this one is there; 0: none
  Descriptor socket_;
  std::vector<std::unique_ptr<Reader>> readers_;
  std::array<pollfd, kMost + 2> events_{};  // of the socket, of the readers, of what wakes
  std::size_t event_count_ = 0;
  std::vector<live::KeptPage> batch_;  // what keep() writes at once
};

struct Visitors::Reader {
  ~Reader();
  void give_up() noexcept;
  bool has(std::uint64_t page) const { return ((kept[page / 64] >> page % 64) & 1) != 0; }

  Descriptor socket;
  Descriptor file;
  live::KeptHeader* header = nullptr;
  bool told = false;
  std::uint64_t count = 0;
  std::uint64_t pages = 0;          // of the pool's file when the reader was let in
  std::vector<std::uint64_t> kept;  // a bit for each of these
};
struct Visitors::Arrivals {
  std::vector<std::unique_ptr<Reader>> readers;
};

}  // namespace perdure
