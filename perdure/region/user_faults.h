// SPDX-License-Identifier: BSD-3-Clause
// UserFaults: handles page faults of a range of addresses in this process (userfaultfd), and
//             atomically puts a frame, nothing, or an error at an address.
//
// Why every change goes by mremap: a page must at no time be something else than the frame or a
// fault. To map something over it and *then* tell the kernel that faults are wanted there would
// leave a moment in which a store goes to memory that nobody keeps. So the new mapping is made
// elsewhere, completely, and moved to the address by one system call, which excludes all faults.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "perdure/base/words.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure {

class UserFaults {
 public:
  struct Handler {
    /// Serves the fault if that needs no hide() and no lock that a caller of hide() holds; false if
    /// it does: the other is called then. Called on the thread that reads the faults.
    std::function<bool(std::byte* address)> quickly;
    /// Serves the fault, by show() or break_at() at least. Called on a thread of its own.
    std::function<void(std::byte* address)> thoroughly;
  };

  /// Starts both threads. `user_mode_only` asks for no more than a process without privileges gets;
  /// a process that gets no more has it anyway, see sees_system_calls().
  /// Errors: kIo when the kernel has no userfaultfd, or not for this process.
  static Result<std::unique_ptr<UserFaults>> open(Handler handler, bool user_mode_only);
  /// Requires: nobody touches watched addresses any more; the process that opened it: a forked
  /// child has none of its threads and must leave the object alone.
  ~UserFaults();
  /// Ends both threads, and waits for what they are at; faults are not served any more. To be
  /// called before anything that the handler uses goes, this object included.
  void stop();
  UserFaults(const UserFaults&) = delete;
  UserFaults& operator=(const UserFaults&) = delete;

  /// False: a system call that is handed an address whose page is not there fails with EFAULT;
  /// touch the page first.
  bool sees_system_calls() const { return sees_system_calls_; }

  /// Makes [address, address + bytes) fault at each page. A null address is chosen here.
  /// Errors: kIo, kInvalid (the kernel refuses the range).
  Result<std::byte*> watch(std::byte* address, std::uint64_t bytes, int protection);
  /// Gives the addresses back to the system.
  void forget(std::byte* address, std::uint64_t bytes);
  /// Keeps the addresses reserved, but watches them no more: an access is a SIGSEGV.
  void leave_nothing(std::byte* address, std::uint64_t bytes);

  /// The results of show(), hide() and break_at(): kFull when this process has no mapping left
  /// (vm.max_map_count); nothing has changed then.
  enum class Outcome : std::uint8_t { kDone, kFull };

  /// Maps bytes of the file there, and wakes the threads that wait for them.
  Outcome show(std::byte* address, std::uint64_t bytes, int protection, int fd, Offset offset,
               int map_flags);
  /// Unmaps them: after the return, nobody loads from or stores to them, and the next access
  /// faults. Requires: not on the thread of Handler::quickly.
  Outcome hide(std::byte* address, std::uint64_t bytes, int protection);
  /// A thread that waits for the bytes, or accesses them later, gets a SIGBUS, as with any mapped
  /// file whose storage fails.
  void break_at(std::byte* address, std::uint64_t bytes);

  /// Puts a copy of `data` there, unless there is something, and wakes the threads that wait for it. Where
  /// there is no memory, it is as break_at().
  void fill(std::byte* address, const std::byte* data, std::uint64_t bytes);

  /// Wakes the threads that wait for the bytes, because these are there now.
  void wake(std::byte* address, std::uint64_t bytes);

  /// Frees some mappings that are held back for this: after kFull there must be a way to change
  /// something. False when they are used up.
  bool spend_reserve();
  /// Fills the reserve again: mappings of this process that have no other use.
  void refill_reserve();

 private:
  UserFaults() = default;
  Result<void> want_faults(std::byte* address, std::uint64_t bytes);
  bool move(void* from, std::byte* to, std::uint64_t bytes);
  void read_faults();
  void serve_queue();

  Descriptor faults_;
  Descriptor stop_;
  Descriptor empty_;  // a file without a byte: mapped, every access to it is a SIGBUS
  Handler handler_;
  bool sees_system_calls_ = true;
  std::byte* reserve_ = nullptr;
  std::mutex queue_mutex_;
  std::condition_variable queued_;
  std::deque<std::byte*> queue_;
  bool stopping_ = false;
  std::thread server_;
  std::thread reader_;
};

}  // namespace perdure
