// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/lab.h"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace perdure::crash {
namespace {

class Companion {
 public:
  Companion() : thread_([this] { serve(); }) {}
  ~Companion() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void run(const std::function<void()>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    changed_.notify_all();
    changed_.wait(lock, [&] { return work_ == nullptr; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || work_ != nullptr; });
      if (stop_) return;
      try {
        (*work_)();
      } catch (...) {
        failure_ = std::current_exception();
      }
      work_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

thread_local std::unique_ptr<Companion> companion;
thread_local bool companion_used = false;
thread_local std::function<void(Trace&)> meanwhile;

}  // namespace

void on_second_thread(const std::function<void()>& work) {
  if (companion == nullptr) companion = std::make_unique<Companion>();
  companion_used = true;
  companion->run(work);
}

void while_waiting(std::function<void(Trace&)> work) { meanwhile = std::move(work); }
void run_while_waiting(Trace& trace) {
  if (const auto work = std::exchange(meanwhile, nullptr)) work(trace);
}

Lab::Lab(Model model, std::uint64_t bytes, const Omission& omission)
    : model_(model), bytes_(bytes), memory_(bytes), trace_(memory_.base()), omission_(omission) {
  group_.emplace(SimDevice(trace_, sums_), memory_.base());
}

Lab::~Lab() {
  begin(0);
  companion.reset();
  meanwhile = nullptr;
  companion_used = false;
}

void Lab::begin(std::uint64_t file_bytes) {
  // What the last process flushed but never fenced is forgotten with it. The lists of Sync are per
  // thread.
  trace_.enable(false);
  const auto drain = [this] { (void)SimDomain(model_, trace_, *group_).fence(Site{}); };
  if (model_ == Model::kFile) {
    drain();
    if (companion_used) companion->run(drain);
    companion_used = false;
  }
  sums_ = nullptr;
  group_.emplace(SimDevice(trace_, sums_), memory_.base());
  trace_.enable(true);
  trace_.clear();
  executions();
  file_bytes_ = file_bytes;
  growths_.assign(1, {0, file_bytes});
}

const std::array<std::uint64_t, kSiteCount>& Lab::executions() {
  for (std::size_t site = 0; site < kSiteCount; ++site) executions_[site] += omission_.seen[site];
  omission_.seen = {};
  return executions_;
}

Result<void> Lab::extend(std::uint64_t, std::uint64_t bytes) {
  if (bytes > bytes_) return Error{Code::kNoSpace, "the simulated device is full"};
  if (bytes <= file_bytes_) return {};
  file_bytes_ = bytes;
  growths_.push_back({trace_.events().size(), bytes});
  return {};
}

Result<void> Lab::allocate(Offset, std::uint64_t) { return {}; }

/// In a file such a word has a sector for itself.
bool Lab::tell(Offset offset, Word value) {
  domain().store(reinterpret_cast<Word*>(base() + offset), value);
  std::array<Word, kSectorBytes / kWordBytes> sector{value};
  if (model_ == Model::kFile)
    trace_.add_sectors(offset, reinterpret_cast<const std::byte*>(sector.data()), kSectorBytes);
  return true;
}

// What the file holds is taken from the mapping: when areas come to rest, all that was stored is home.
bool Lab::read(Offset offset, void* to, std::uint64_t bytes) {
  std::memcpy(to, base() + offset, bytes);
  return true;
}

bool Lab::write(Offset offset, const void* data, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += kWordBytes) {
    Word word;
    std::memcpy(&word, static_cast<const std::byte*>(data) + at, sizeof(word));
    auto* const home = reinterpret_cast<Word*>(base() + offset + at);
    if (load_word(home) != word) domain().store(home, word);
  }
  trace_.add_sectors(offset, static_cast<const std::byte*>(data), bytes);
  return true;
}

// Of the one file that there is: also for what a killed process wrote to it.
bool Lab::sync(Site site) {
  if (!omission_.drops(site)) trace_.add(TraceEvent::Kind::kSync, site, 0, 0);
  return true;
}

}  // namespace perdure::crash
