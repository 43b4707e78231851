// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/program_files.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "apps/run/files/filter.h"

namespace perdure::run {

ProgramFiles::ProgramFiles(const std::string& directory, bool power, Shared& shared,
                           std::function<void(const files::Call&, int listener)> on_exec)
    : power_(power), shared_(shared), on_exec_(std::move(on_exec)), history_(directory, power) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    throw Exception(io_error("a socket"));
  ours_ = Descriptor(pair[0]);
  programs_ = Descriptor(pair[1]);
  history_.begin_epoch(shared.epoch);
  committed_ = shared.epoch - 1;
}

ProgramFiles::~ProgramFiles() { stop(); }

int ProgramFiles::prepare(int least) {
  programs_ = Descriptor(::fcntl(programs_.get(), F_DUPFD_CLOEXEC, least));
  if (programs_.get() < 0)
    throw Exception(Code::kIo, "no descriptors are left; raise the limit (ulimit -n)");
  return programs_.get();
}

void ProgramFiles::enter_program() const {
  const int listener = files::install_filter();
  if (listener < 0) {
    fmt::print(stderr,
               "perdure: the kernel does not tell of system calls here (seccomp: {}); nothing of "
               "the program has run\n",
               std::strerror(errno));
    ::_exit(3);
  }
  // From here on a write waits for whoever has the listener.
  if (!files::send_descriptor(programs_.get(), listener)) ::_exit(3);
  ::close(listener);
}

bool ProgramFiles::start() {
  programs_ = Descriptor();
  Descriptor listener(files::receive_descriptor(ours_.get()));
  if (listener.get() < 0) return false;
  files::Hooks hooks;
  hooks.before_call = [this] { follow_epoch(); };
  hooks.on_sync = [this](const files::Call& call) { return on_sync(call); };
  hooks.on_exec = [this](const files::Call& call, int listener_now) {
    if (program_ == 0) {
      program_ = call.thread;
    } else if (is_program(call.thread)) {
      on_exec_(call, listener_now);
    }
  };
  hooks.on_refused = [this](const files::Call&, const std::string& cause) {
    if (!told_)
      fmt::print(stderr, "perdure: a resume does not go back to before this: {}\n", cause);
    told_ = true;
  };
  watch_ = std::make_unique<files::SyscallWatch>(std::move(listener), history_, std::move(hooks));
  thread_ = std::thread([this] {
    try {
      watch_->run();
    } catch (const std::exception& error) {
      fmt::print(stderr, "perdure: {}; the program cannot go on\n", error.what());
      ::kill(program_ != 0 ? program_ : ::getpid(), SIGKILL);  // It follows its supervisor.
    }
  });
  return true;
}

void ProgramFiles::stop() {
  if (!thread_.joinable()) return;
  watch_->stop();
  thread_.join();
  watch_.reset();
}

bool ProgramFiles::is_program(pid_t thread) const {
  if (thread == program_) return true;
  // A thread that is not the main one has its own number.
  return ::access(fmt::format("/proc/{}/task/{}", program_, thread).c_str(), F_OK) == 0;
}

bool ProgramFiles::on_sync(const files::Call& call) {
  if (!is_program(call.thread)) return false;
  const std::lock_guard lock(mutex_);
  const auto known = waiting_.find(call.thread);
  if (known != waiting_.end()) {
    const bool over = known->second.epoch <= committed_;
    // A parked call comes again in the epoch after its own. A later one is another call.
    if (shared_.poisoned != 0 || (over && shared_.epoch == known->second.epoch + 1)) {
      waiting_.erase(known);
      return false;
    }
    if (!over) {
      known->second.call = call.id;
      return true;
    }
  }
  if (shared_.poisoned != 0) return false;
  waiting_[call.thread] = {shared_.epoch, call.id};
  ++shared_.wanted;
  ::syscall(SYS_futex, &shared_.wanted, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return true;
}

void ProgramFiles::give_up_waiting() {
  const std::lock_guard lock(mutex_);
  for (const auto& [thread, waiting] : waiting_) {
    if (waiting.call) watch_->answer(*waiting.call);
  }
  waiting_.clear();
}

void ProgramFiles::follow_epoch() {
  const std::lock_guard lock(epoch_mutex_);
  if (const std::uint64_t epoch = shared_.epoch; epoch != history_.epoch())
    history_.begin_epoch(epoch);
}

Result<void> ProgramFiles::before_commit() {
  follow_epoch();
  if (!power_) return {};
  return history_.sync_touched();
}

void ProgramFiles::after_commit(std::uint64_t epoch) {
  std::vector<files::FileId> nameless;
  for (std::uint32_t i = 0; i < shared_.nameless_count && i < kMostNameless; ++i)
    nameless.push_back({shared_.nameless[i].device, shared_.nameless[i].inode});
  history_.committed(epoch, nameless);
  const std::lock_guard lock(mutex_);
  committed_ = epoch;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    // One that was parked calls again, and finds its epoch committed.
    const bool done =
        at->second.epoch <= epoch && at->second.call && watch_->answer(*at->second.call);
    at = done ? waiting_.erase(at) : std::next(at);
  }
}

}  // namespace perdure::run
