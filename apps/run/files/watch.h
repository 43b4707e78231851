// SPDX-License-Identifier: BSD-3-Clause
// SyscallWatch: has a program's file-changing system calls wait until FileHistory has recorded what takes them back.
//
//   1. the program's thread calls; the filter (filter.h) makes it wait, and the kernel notifies the listener
//   2. run() receives the notification, takes FileHistory::gate(), reads the arguments, finds the notification still
//      valid, and has the change recorded
//   3. the call is let through; 4. the gate is given back
//
// Why a change is recorded in the epoch in which it happens: begin_epoch() is called while every thread of the program is
// parked, that is, has left its system call for the handler of a signal. A call that waited has thereby become void: letting
// it through fails, and after the thread's release it is made, notified and recorded anew. Should the signal come between
// 3 and the thread's waking up, the kernel does the same: the call was let through in vain. So there are two cases:
//   - run() holds the gate when begin_epoch() comes: begin_epoch() waits until 4. What was let through has been done before
//     its thread parked, in the old epoch; or it is void, and is recorded in the new one, too.
//   - run() comes to a notification of the old epoch after begin_epoch(): 2 finds it void.
// Without the gate, a call could be made anew, and its new notification be recorded, while the epoch is half changed. A call
// that was let through is done before its thread parks: writes to files are not cut short by signals, or begin anew at 1.
//
// What was recorded for a call that did not come about, or came about later, takes back nothing more than it should:
// records say what was there, not what was done.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/run/files/caller.h"
#include "apps/run/files/history.h"
#include "perdure/region/file.h"

namespace perdure::run::files {

/// A system call that waits.
struct Call {
  std::uint64_t id;  // of the notification
  pid_t thread;      // as this process's namespace numbers it
  int number;        // SYS_...
  std::uint64_t arguments[6];
};

/// Called in run(), without the gate. Those that are not set do nothing, and the call goes on.
struct Hooks {
  /// Before a call is looked at: the place to begin an epoch, when none is begun while the threads are parked.
  std::function<void()> before_call;
  /// fsync and its like. True: the call waits until answer(call.id). A thread that is parked meanwhile calls again.
  std::function<bool(const Call&)> on_sync;
  /// Before execve and execveat; descriptors may be put into the thread (SECCOMP_IOCTL_NOTIF_ADDFD).
  std::function<void(const Call&, int listener)> on_exec;
  /// The call goes on, and cannot be taken back: no resume of an epoch before this one (FileHistory::broken()). Of the
  /// first such call of an epoch.
  std::function<void(const Call&, const std::string& cause)> on_refused;
};

class SyscallWatch {
 public:
  struct Options {
    bool thread_handles = true;  // false: as on kernels before 6.9
  };
  SyscallWatch(Descriptor listener, FileHistory& history, Hooks hooks, Options options);
  SyscallWatch(Descriptor listener, FileHistory& history, Hooks hooks)
      : SyscallWatch(std::move(listener), history, std::move(hooks), Options{}) {}

  /// Serves the program until its last process with the filter has ended, or stop(). One thread.
  /// Errors: Exception: kIo: the kernel refuses; the program waits for ever and is to be killed.
  void run();
  /// Makes run() return. What waits then, waits until the listener is closed, and gets ENOSYS. Threads: any.
  void stop();
  /// Lets a call go on that on_sync held. False: it does not wait any more. Threads: any.
  bool answer(std::uint64_t id);
  int listener() const { return listener_.get(); }

  /// Notifications so far. A program of one thread stands still in a call if one more was received than answered.
  std::uint64_t received() const { return received_; }
  std::uint64_t answered() const { return answered_; }

 private:
  void serve(const Call& call);
  void record(const Call& call);
  bool still_waits(std::uint64_t id) const;

  // Of a call that changes contents: which of its arguments say where.
  struct Range {
    int descriptor;
    std::uint64_t bytes;
    std::uint64_t offset = 0;
    bool at_position = true;  // of the descriptor; else at `offset`
    bool appends = false;
  };
  void record_write(const Call& call, const Caller& caller, const Range& range);
  void record_contents(const Call& call, const Caller& caller);
  void record_open(const Call& call, const Caller& caller);
  void record_names(const Call& call, const Caller& caller);
  void record_facts(const Call& call, const Caller& caller);
  void record_mapping(const Call& call, const Caller& caller);
  /// With what the arguments were found to mean; not when the call is void by now.
  template <class Do>
  void if_waiting(const Call& call, Do&& record);

  Descriptor listener_;
  Descriptor stop_;
  FileHistory& history_;
  Hooks hooks_;
  ThreadHandles handles_;
  std::atomic<std::uint64_t> received_{0}, answered_{0};
  std::string refused_;  // why the call in hand cannot be taken back
};

}  // namespace perdure::run::files
