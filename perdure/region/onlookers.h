// SPDX-License-Identifier: BSD-3-Clause
// Onlookers: the processes that read a pool's file while this one has it open, and what is kept for
//            them: see perdure/region/live_protocol.h.
//
// Cost without any: three system calls for a write of the device, which takes a hundred times as long.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "perdure/base/words.h"
#include "perdure/region/file.h"

namespace perdure {

class Onlookers {
 public:
  /// From now on others may look on. Null where the system does not allow it: then they are told that
  /// the pool is in use.
  /// `fd`: the file, locked, opened for reading and writing, and open for longer than this.
  static std::unique_ptr<Onlookers> of(int fd, const std::string& path);
  ~Onlookers();
  Onlookers(const Onlookers&) = delete;
  Onlookers& operator=(const Onlookers&) = delete;

  /// A write of [offset, offset + bytes) of the file, or what changes it in another way: as long as
  /// this lives. Null: nobody may look on.
  /// Threads: any; none may have two at a time.
  class Writing {
   public:
    Writing(Onlookers* onlookers, Offset offset, std::uint64_t bytes) : onlookers_(onlookers) {
      if (onlookers_ != nullptr) onlookers_->begin(offset, bytes);
    }
    ~Writing() {
      if (onlookers_ != nullptr) onlookers_->end();
    }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    Onlookers* onlookers_;
  };
  /// Whether there are any: then no space is given back.
  bool any();

 private:
  struct Reader;
  Onlookers();
  void begin(Offset offset, std::uint64_t bytes) noexcept;
  void end() noexcept;
  void take_writing_byte() noexcept;
  void look_around(std::unique_lock<std::mutex>& lock);
  bool welcome_all() noexcept;
  std::unique_ptr<Reader> welcome(Descriptor visitor) const;
  void leave() noexcept;
  Descriptor make_file_for_pages() const;
  void keep(Reader& reader, Offset offset, std::uint64_t bytes);

  int fd_ = -1;
  std::string directory_;
  const int owner_pid_;
  Offset meeting_ = 0;  // the byte whose lock says that this one is there; 0: none
  Descriptor socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned writing_ = 0;
  bool welcoming_ = false;
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace perdure
