// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/held_output.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <fmt/format.h>

#include "perdure/error.h"

namespace perdure::run {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;
constexpr std::uint64_t kKept = std::uint64_t{1} << 20;  // of what was released

bool same_file(int a, int b) {
  struct stat left{}, right{};
  return ::fstat(a, &left) == 0 && ::fstat(b, &right) == 0 && left.st_dev == right.st_dev &&
         left.st_ino == right.st_ino;
}

bool is_regular(int descriptor) {
  struct stat attributes{};
  return ::fstat(descriptor, &attributes) != 0 || S_ISREG(attributes.st_mode);
}

Descriptor open_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) throw Exception(io_error(path));
  return file;
}

}  // namespace

HeldOutput::Which HeldOutput::of_this_process() {
  Which which{!is_regular(1), !is_regular(2), false};
  which.error_is_output = which.output && which.error && same_file(1, 2);
  if (which.error_is_output) which.error = false;
  return which;
}

HeldOutput::HeldOutput(const std::string& directory, bool power, Shared& shared, Which which,
                       const std::uint64_t (&ends)[kOutputs])
    : directory_(directory), power_(power), shared_(shared), which_(which) {
  counts_file_ = open_file(directory + "/released");
  if (::ftruncate(counts_file_.get(), sizeof(std::uint64_t) * kOutputs) != 0)
    throw Exception(io_error(directory + "/released"));
  void* const counts = ::mmap(nullptr, sizeof(std::uint64_t) * kOutputs, PROT_READ | PROT_WRITE,
                              MAP_SHARED, counts_file_.get(), 0);
  if (counts == MAP_FAILED) throw Exception(io_error(directory + "/released"));
  released_ = static_cast<std::uint64_t*>(counts);
  for (int i = 0; i < kOutputs; ++i) {
    if (!(i == 0 ? which.output : which.error)) continue;
    auto output = std::make_unique<Output>();
    output->file = open_file(directory + "/held-" + std::to_string(i + 1));
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0) throw Exception(io_error("a pipe"));
    output->reading = Descriptor(pipe_ends[0]);
    output->writing = Descriptor(pipe_ends[1]);
    shared.drained[i] = shared.output_end[i] = ends[i];
    output->may_release = ends[i];
    released_[i] = std::min(released_[i], ends[i]);
    outputs_[i] = std::move(output);
  }
}

HeldOutput::~HeldOutput() {
  stop(false);
  ::munmap(released_, sizeof(std::uint64_t) * kOutputs);
}

int HeldOutput::writing_end(int descriptor) const {
  const int index = descriptor == 2 && which_.error_is_output ? 0 : descriptor - 1;
  return outputs_[index] ? outputs_[index]->writing.get() : -1;
}

void HeldOutput::start() {
  for (int i = 0; i < kOutputs; ++i) {
    if (!outputs_[i]) continue;
    drains_.emplace_back([this, i] { drain(i); });
  }
  releases_ = std::thread([this] { release(); });
}

void HeldOutput::drain(int index) {
  Output& output = *outputs_[index];
  std::vector<char> bytes(kPiece);
  for (;;) {
    // Not within the read: the runtime waits while `draining` is odd. A child of the program may outlive it.
    pollfd ready{output.reading.get(), POLLIN, 0};
    const bool gone = gone_;
    const int found = ::poll(&ready, 1, gone ? 0 : 50);
    if (output.unwanted) {  // As without epochs, the program's next write ends it, or tells it.
      output.reading = Descriptor();
      return;
    }
    if (found == 0 && gone) return;
    if (found <= 0) continue;
    ++shared_.draining[index];
    const ssize_t got = ::read(output.reading.get(), bytes.data(), bytes.size());
    const std::uint64_t at = shared_.drained[index];
    const bool kept =
        got > 0 && write_at(output.file.get(), bytes.data(), static_cast<std::size_t>(got), at);
    if (kept) shared_.drained[index] = at + static_cast<std::uint64_t>(got);
    ++shared_.draining[index];
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    if (kept) continue;
    // No epoch may end that would hold what is lost.
    if (shared_.poisoned.exchange(1) == 0)
      fmt::print(stderr,
                 "perdure: {}; the program goes on, no epoch ends any more, and what it writes is "
                 "not held\n",
                 io_error(directory_ + "/held-" + std::to_string(index + 1)).message);
    return pass_on(index, bytes, static_cast<std::size_t>(got));
  }
}

void HeldOutput::pass_on(int index, std::vector<char>& bytes, std::size_t count) {
  Output& output = *outputs_[index];
  {
    const std::lock_guard lock(mutex_);
    output.may_release = shared_.drained[index].load();
    wanted_.notify_all();
  }
  while (__atomic_load_n(&released_[index], __ATOMIC_SEQ_CST) < output.may_release)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (;;) {
    for (std::size_t at = 0; at < count && !output.unwanted;) {
      const ssize_t done = ::write(index + 1, bytes.data() + at, count - at);
      if (done > 0) at += static_cast<std::size_t>(done);
      if (done < 0 && errno != EINTR && errno != EAGAIN) output.unwanted = true;
      if (done < 0 && errno == EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (output.unwanted) output.reading = Descriptor();
    pollfd ready{output.reading.get(), POLLIN, 0};
    const bool gone = gone_;
    const int found = output.unwanted ? 0 : ::poll(&ready, 1, gone ? 0 : 50);
    if (output.unwanted || (found == 0 && gone)) return;
    count = 0;
    if (found <= 0) continue;
    const ssize_t got = ::read(output.reading.get(), bytes.data(), bytes.size());
    if (got == 0) return;
    if (got > 0) count = static_cast<std::size_t>(got);
  }
}

void HeldOutput::before_commit() {
  for (int i = 0; i < kOutputs; ++i) {
    if (!outputs_[i] || outputs_[i]->unwanted) continue;
    while (shared_.drained[i] < shared_.output_end[i] && shared_.poisoned == 0 &&
           !outputs_[i]->unwanted)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (power_ && ::fdatasync(outputs_[i]->file.get()) != 0) shared_.poisoned = 1;
  }
}

void HeldOutput::after_commit() {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < kOutputs; ++i) {
    if (outputs_[i]) outputs_[i]->may_release = shared_.output_end[i];
  }
  wanted_.notify_all();
}

bool HeldOutput::release_piece(int index) {
  if (!outputs_[index]) return false;
  Output& output = *outputs_[index];
  const std::uint64_t from = released_[index];
  const std::uint64_t to = output.may_release;
  if (from >= to) return false;
  const std::size_t count = std::min<std::uint64_t>(to - from, kPiece);
  // The count is mapped and may be written: the kernel must not fail to, even when this process was killed.
  __atomic_store_n(&released_[index], from, __ATOMIC_SEQ_CST);
  ssize_t done =
      ::sendfile(index + 1, output.file.get(), reinterpret_cast<off_t*>(&released_[index]), count);
  if (done < 0 && errno == EINVAL) done = write_piece(index, count);
  if (done < 0 && errno == EINTR) return true;
  if (done < 0 && errno == EAGAIN) {
    pollfd writable{index + 1, POLLOUT, 0};
    ::poll(&writable, 1, 100);
    return true;
  }
  // Whoever should have read it is gone, or a copy of the directory lacks it: it is as good as released.
  if (done <= 0) released_[index] = from + count;
  if (done < 0) output.unwanted = true;
  if (released_[index] / kKept != from / kKept)
    ::fallocate(output.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(released_[index] / kKept * kKept));
  return true;
}

ssize_t HeldOutput::write_piece(int index, std::size_t count) {
  char bytes[PIPE_BUF];
  count = std::min(count, sizeof bytes);
  if (!read_at(outputs_[index]->file.get(), bytes, count, released_[index])) return -1;
  const ssize_t done = ::write(index + 1, bytes, count);
  if (done > 0) released_[index] += static_cast<std::uint64_t>(done);
  return done;
}

void HeldOutput::release() {
  for (;;) {
    bool some = false;
    for (int index = 0; index < kOutputs; ++index) some |= release_piece(index);
    if (some) continue;
    std::unique_lock lock(mutex_);
    const auto owed = [&] {
      for (int i = 0; i < kOutputs; ++i) {
        if (outputs_[i] && released_[i] < outputs_[i]->may_release) return true;
      }
      return false;
    };
    if (owed()) continue;
    if (ended_) return;
    wanted_.wait(lock, [&] { return ended_ || owed(); });
  }
}

void HeldOutput::stop(bool all) {
  if (!releases_.joinable()) return;
  gone_ = true;
  for (std::thread& each : drains_) each.join();
  {
    const std::lock_guard lock(mutex_);
    for (int i = 0; all && i < kOutputs; ++i) {
      if (outputs_[i]) outputs_[i]->may_release = shared_.drained[i].load();
    }
    ended_ = true;
    wanted_.notify_all();
  }
  releases_.join();
}

}  // namespace perdure::run
