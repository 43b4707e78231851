// SPDX-License-Identifier: BSD-3-Clause
// Those who look at a pool on a file: they are noticed, and pages are kept for them, before each write of
// the device.
#include "perdure/region/onlookers.h"

#include <sys/stat.h>

#include <condition_variable>
#include <exception>
#include <mutex>

#include "perdure/region/visitors.h"

namespace perdure {
namespace {

class FileOnlookers final : public Onlookers {
 public:
  bool start(int fd, const std::string& path) {
    fd_ = fd;
    return visitors_.invite(fd, path);
  }
  bool any() override {
    const std::lock_guard lock(mutex_);
    return !visitors_.none();
  }

 private:
  void begin(Offset offset, std::uint64_t bytes) noexcept override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !welcoming_; });
    if (writing_++ == 0) visitors_.take_writing_byte();
    look_around(lock);
    (void)visitors_.keep(offset, bytes);
  }
  void end() noexcept override {
    const std::lock_guard lock(mutex_);
    if (--writing_ == 0) visitors_.give_writing_byte_back();
    if (welcoming_) changed_.notify_all();
  }
  bool any_while_writing() override { return any(); }
  /// Forgets readers that have gone, and welcomes those that have come.
  void look_around(std::unique_lock<std::mutex>& lock) {
    visitors_.prepare_to_wait();
    if (!visitors_.wait(0)) return;
    visitors_.forget_gone();
    if (!visitors_.somebody_comes()) return;
    // What others are writing was begun without these readers.
    welcoming_ = true;
    changed_.wait(lock, [&] { return writing_ == 1; });
    // Who waits and is not seen would believe that nothing is written.
    if (!welcome()) visitors_.send_away();
    welcoming_ = false;
    changed_.notify_all();
  }
  bool welcome() {
    try {
      struct stat status{};
      const auto arrivals = visitors_.meet();
      if (arrivals == nullptr || ::fstat(fd_, &status) != 0) return false;
      visitors_.let_in(*arrivals, static_cast<std::uint64_t>(status.st_size));
      visitors_.tell();
      return true;
    } catch (const std::exception&) {  // no memory
      return false;
    }
  }

  int fd_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned writing_ = 0;
  bool welcoming_ = false;
  Visitors visitors_;
};

}  // namespace

std::unique_ptr<Onlookers> Onlookers::on_file(int fd, const std::string& path) {
  auto self = std::make_unique<FileOnlookers>();
  if (!self->start(fd, path)) return nullptr;
  return self;
}

}  // namespace perdure
