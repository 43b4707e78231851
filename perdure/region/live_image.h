// SPDX-License-Identifier: BSD-3-Clause
// LiveImage: a pool's file as it stood at one moment, while another process has it open and goes on
//            writing: see perdure/region/live_protocol.h.
//
// The moment is that of open(). All that the file says is durable then: open() waits for the device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "perdure/base/words.h"
#include "perdure/error.h"
#include "perdure/region/file.h"
#include "perdure/region/live_protocol.h"

namespace perdure {

class UserFaults;

class LiveImage {
 public:
  /// `fd`: the file, opened for reading.
  /// Errors: kNotFound: nobody has it open, or lets others look on; kBusy: who has it open comes and
  ///         goes, or cannot be reached; kIo.
  static Result<std::unique_ptr<LiveImage>> open(Descriptor fd, const std::string& path);
  ~LiveImage();
  LiveImage(const LiveImage&) = delete;
  LiveImage& operator=(const LiveImage&) = delete;

  /// How long the file was.
  std::uint64_t bytes() const { return bytes_; }

  /// Whole pages. What the file did not have reads as zeros.
  /// Errors: kBusy: the writer has closed the pool meanwhile; kNoSpace: what it kept for this image had
  ///         no space; kIo.   Threads: any.
  Result<void> read(Offset offset, std::byte* to, std::uint64_t bytes);

  /// The image at addresses of this process, `bytes` of them: pages are read when they are touched
  /// first; all at once if there are few, or the system does not let us see faults. What is stored
  /// there is this process's own.
  /// Errors: as read().
  Result<std::byte*> map(std::uint64_t bytes);
  /// From now on `lost(offset, error)` is called, on another thread, when a page cannot be read, which is zeros
  /// then. Requires: called before a page is touched.
  void tell_losses_to(std::function<void(Offset, const Error&)> lost);

 private:
  LiveImage() = default;
  Result<void> meet(const std::string& path);
  Result<void> await_moment();
  Result<void> take_note_of_kept_pages();
  bool writer_is_there() const;
  bool serve(std::byte* address);
  Error gone() const;

  std::string path_;
  Descriptor fd_;
  Descriptor socket_;
  Offset meeting_ = 0;
  bool sent_away_ = false;
  std::uint64_t bytes_ = 0;

  std::mutex mutex_;
  Descriptor file_;  // with the pages that were kept; none yet: nothing was written
  std::byte* kept_ = nullptr;
  std::uint64_t kept_bytes_ = 0;  // of addresses
  std::uint64_t noted_ = 0;       // so many of the kept pages are in the next
  std::unordered_map<std::uint64_t, std::uint64_t> place_of_;

  std::byte* base_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::function<void(Offset, const Error&)> lost_;
  std::vector<std::byte> chunk_;
  std::unique_ptr<UserFaults> faults_;
};

}  // namespace perdure
