// SPDX-License-Identifier: BSD-3-Clause
// Onlookers: the processes that read a pool's file while this one has it open, and what is kept for
//            them: see perdure/region/live_protocol.h.
//
// On files they are noticed by a write of the device; without any, that takes three more system calls, a
// hundredth of its time. On memory a thread sleeps until one comes. As long as there are any, the pool's
// pages are read-only, and the first store to each is a fault, whose handler keeps what it held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "perdure/base/words.h"

namespace perdure {

class Onlookers {
 public:
  /// From now on others may look on. Null where the system does not allow it: then they are told that
  /// the pool is in use.
  /// `fd`: the file, locked, opened for reading and writing, and open for longer than this.
  static std::unique_ptr<Onlookers> on_file(int fd, const std::string& path);
  /// The same for a file that is changed by stores, too: at `base` it is mapped, shared, for longer than
  /// this. `persistent`: what is stored there is durable once it has left the caches.
  /// They are sent away while a store to a read-only page would end the process: because a thread blocks
  /// SIGSEGV, or the program has a handler of its own.
  static std::unique_ptr<Onlookers> on_memory(int fd, const std::string& path, std::byte* base,
                                              std::uint64_t bytes, bool persistent);
  virtual ~Onlookers() = default;
  Onlookers(const Onlookers&) = delete;
  Onlookers& operator=(const Onlookers&) = delete;

  /// A write of [offset, offset + bytes) of the file, or what changes it in another way but by a store:
  /// as long as this lives. Null: nobody may look on.
  /// Threads: any; none may have two at a time, or store to the pool meanwhile.
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
    /// Whether nobody looks on: only then may space be given back.
    bool is_alone() const { return onlookers_ == nullptr || !onlookers_->any_while_writing(); }

   private:
    Onlookers* onlookers_;
  };
  /// Threads: any, without a Writing.
  virtual bool any() = 0;

 protected:
  Onlookers() = default;

 private:
  virtual void begin(Offset offset, std::uint64_t bytes) noexcept = 0;
  virtual void end() noexcept = 0;
  virtual bool any_while_writing() = 0;
};

}  // namespace perdure
