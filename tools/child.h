// SPDX-License-Identifier: BSD-3-Clause
// A worker process to be killed: this same program, started anew with other arguments, and a pipe
// through which it tells what was acknowledged to it. What has entered the pipe outlives the
// worker.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perdure::tools {

/// One message: a word, so that a write of it is atomic.
struct Message {
  std::uint8_t tag;
  std::uint64_t value;  // 56 bits
};

class Child {
 public:
  /// Starts `perdure <arguments>`. Errors: throws Exception kIo.
  explicit Child(const std::vector<std::string>& arguments);
  /// Kills what still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The next message, waiting for it; nothing when the child has ended and all has been read.
  std::optional<Message> receive();
  /// SIGKILL, at once. Messages sent before can still be received.
  void kill();
  /// Waits for the end. The exit code, or minus the signal that ended it.
  int wait();

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
  std::vector<std::uint64_t> buffer_;
  std::size_t next_ = 0;
};

/// In the worker: sends to the parent. A parent that is gone ends this process (SIGPIPE).
void send_to_parent(Message message);

}  // namespace perdure::tools
