// SPDX-License-Identifier: BSD-3-Clause
#include "sim/interleave/interleaver.h"

#include <ucontext.h>

#include <algorithm>
#include <exception>
#include <memory>

namespace perdure::interleave {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

/// Where a fiber, or the explorer, goes on. A fiber's first steps need a ucontext; later ones not, which costs a system call.
class Place {
 public:
  /// Leaves this place for `next`; returns when somebody goes on here.
  void leave_for(Place& next) {
    if (__builtin_setjmp(jump_) == 0) next.go_on();
  }
  /// The next to go on here calls `begin` on `stack`.
  void begin_at(void (*begin)(), char* stack) {
    ::getcontext(&first_);
    first_.uc_stack.ss_sp = stack;
    first_.uc_stack.ss_size = kStackBytes;
    first_.uc_link = nullptr;
    ::makecontext(&first_, begin, 0);
    begun_ = false;
  }

 private:
  [[noreturn]] __attribute__((noinline)) void go_on() {
    if (!begun_) {
      begun_ = true;
      ::setcontext(&first_);
    }
    __builtin_longjmp(jump_, 1);
  }
  void* jump_[5];
  ucontext_t first_;
  bool begun_ = true;
};

struct KeptStore {
  void* place;
  std::uint64_t value;
  void (*apply)(void*, std::uint64_t);
};

struct Fiber {
  Place place;
  Body body;
  std::vector<KeptStore> kept;  // stores that no other thread sees yet, oldest first
  bool finished = false;
  bool waiting = false;
};

/// Stacks are used again by the next schedule.
char* stack_of(std::size_t fiber) {
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() <= fiber)
    stacks.push_back(std::make_unique_for_overwrite<char[]>(kStackBytes));
  return stacks[fiber].get();
}

/// Where a schedule had to choose, and what it took. Replayed up to the last, which takes the next.
struct Choice {
  std::size_t taken;
  std::size_t options;
};

class Schedule {
 public:
  Schedule(std::vector<Body> bodies, std::vector<Choice>& path, const Limits& limits)
      : path_(&path), limits_(&limits), fibers_(bodies.size()) {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      fibers_[i].body = std::move(bodies[i]);
      fibers_[i].place.begin_at(&Schedule::enter, stack_of(i));
    }
  }
  /// What is wrong with it, or nothing.
  std::string run();

  void changed() {
    for (Fiber& fiber : fibers_) fiber.waiting = false;
  }
  void step() {
    if (++steps_ > limits_->steps) return stop("it does not end");
    if (preemptions_ == limits_->preemptions) return;
    std::vector<std::size_t> options{current_};
    add_runnable(options);
    const std::size_t next = options[choose(options.size())];
    if (next == current_) return;
    ++preemptions_;
    go_to(next);
  }
  void wait() {
    fence();
    fibers_[current_].waiting = true;
    go_on_elsewhere();
  }
  void fence() {
    std::vector<KeptStore>& kept = fibers_[current_].kept;
    if (kept.empty()) return;
    for (const KeptStore& store : kept) store.apply(store.place, store.value);
    kept.clear();
    changed();
  }
  bool keep_back(const KeptStore& store) {
    if (limits_->store_buffers) fibers_[current_].kept.push_back(store);
    return limits_->store_buffers;
  }
  const KeptStore* kept_back(const void* place) const {
    const std::vector<KeptStore>& kept = fibers_[current_].kept;
    const auto found = std::find_if(kept.rbegin(), kept.rend(),
                                    [&](const KeptStore& store) { return store.place == place; });
    return found == kept.rend() ? nullptr : &*found;
  }

 private:
  static void enter();
  /// All but the current one.
  void add_runnable(std::vector<std::size_t>& options) const {
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      if (i != current_ && !fibers_[i].finished && !fibers_[i].waiting) options.push_back(i);
    }
  }
  std::size_t choose(std::size_t options) {
    if (options == 1) return 0;
    if (at_ == path_->size()) path_->push_back({0, options});
    return (*path_)[at_++].taken;
  }
  void go_to(std::size_t next) {
    Fiber& from = fibers_[current_];
    current_ = next;
    from.place.leave_for(fibers_[next].place);
  }
  void go_on_elsewhere() {
    std::vector<std::size_t> options;
    add_runnable(options);
    if (!options.empty()) return go_to(options[choose(options.size())]);
    for (const Fiber& fiber : fibers_) {
      if (!fiber.finished) return stop("all threads wait for each other");
    }
    leave();
  }
  void stop(std::string violation) {
    violation_ = std::move(violation);
    leave();
  }
  /// What still runs is given up where it is.
  void leave() { fibers_[current_].place.leave_for(main_); }

  std::vector<Choice>* path_;
  const Limits* limits_;
  std::vector<Fiber> fibers_;
  Place main_;
  std::size_t current_ = 0;
  std::size_t at_ = 0;  // in the path
  unsigned preemptions_ = 0;
  std::uint64_t steps_ = 0;
  std::string violation_;
};

Schedule* running = nullptr;

void Schedule::enter() {
  Schedule& schedule = *running;
  Fiber& me = schedule.fibers_[schedule.current_];
  std::string violation;
  try {
    me.body();
  } catch (const std::exception& error) {
    violation = error.what();
  }
  if (!violation.empty()) schedule.stop(std::move(violation));
  schedule.fence();
  me.finished = true;
  schedule.changed();
  schedule.go_on_elsewhere();
}

std::string Schedule::run() {
  running = this;
  current_ = choose(fibers_.size());
  main_.leave_for(fibers_[current_].place);
  running = nullptr;
  return violation_;
}

/// The path to the next schedule; false when there is none.
bool advance(std::vector<Choice>& path) {
  while (!path.empty() && path.back().taken + 1 == path.back().options) path.pop_back();
  if (path.empty()) return false;
  ++path.back().taken;
  return true;
}

}  // namespace

void step() {
  if (running != nullptr) running->step();
}
void changed() {
  if (running != nullptr) running->changed();
}
void wait() {
  if (running != nullptr) running->wait();
}
void fence() {
  if (running != nullptr) running->fence();
}

namespace detail {

bool keep_back(void* place, std::uint64_t value, void (*apply)(void*, std::uint64_t)) {
  return running != nullptr && running->keep_back({place, value, apply});
}
bool kept_back(const void* place, std::uint64_t& value) {
  const KeptStore* const store = running == nullptr ? nullptr : running->kept_back(place);
  if (store != nullptr) value = store->value;
  return store != nullptr;
}

}  // namespace detail

Report explore(const std::function<std::vector<Body>()>& make, const Limits& limits) {
  Report report;
  std::vector<Choice> path;
  do {
    if (report.schedules == limits.schedules) return report;
    Schedule schedule(make(), path, limits);
    ++report.schedules;
    report.violation = schedule.run();
    if (!report.violation.empty()) return report;
  } while (advance(path));
  report.complete = true;
  return report;
}

}  // namespace perdure::interleave
