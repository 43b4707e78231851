// SPDX-License-Identifier: BSD-3-Clause
#include "sim/interleave/interleaver.h"

#include <cxxabi.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

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

/// What the C++ runtime knows of the exceptions that a thread handles (__cxa_eh_globals of the
/// Itanium ABI). Each fiber has its own.
struct Exceptions {
  void* caught;
  unsigned uncaught;
  static Exceptions& of_this_thread() {
    return *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  }
};

struct Fiber {
  Place place;
  Body body;
  std::vector<KeptStore> kept;  // stores that no other thread sees yet, oldest first
  Exceptions exceptions{};      // while it does not run
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
  void stop(std::string violation) {
    violation_ = std::move(violation);
    leave();
  }
  std::size_t current() const { return current_; }

  void changed() {
    for (Fiber& fiber : fibers_) fiber.waiting = false;
  }
  void step() {
    if (++steps_ > limits_->steps) return stop("it does not end");
    if (preemptions_ == limits_->preemptions) return;
    const std::size_t chosen = choose(1 + others());
    if (chosen == 0) return;
    ++preemptions_;
    go_to(other(chosen - 1));
  }
  void give_way() {
    if (++steps_ > limits_->steps) return stop("it does not end");
    fence();
    // In turn, with no choice: threads that give way to each other must come to the one that they
    // wait for.
    for (std::size_t i = 1; i < fibers_.size(); ++i) {
      const std::size_t next = (current_ + i) % fibers_.size();
      if (is_other(next)) return go_to(next);
    }
  }
  void wait() {
    fence();
    fibers_[current_].waiting = true;
    go_on_elsewhere();
  }
  void fence() { fence(fibers_[current_]); }
  void fence_everywhere() {
    for (Fiber& fiber : fibers_) fence(fiber);
  }
  void fence(Fiber& fiber) {
    std::vector<KeptStore>& kept = fiber.kept;
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
  /// How many but the current one could go on.
  std::size_t others() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < fibers_.size(); ++i) count += is_other(i) ? 1 : 0;
    return count;
  }
  /// One of them.
  std::size_t other(std::size_t number) const {
    std::size_t i = 0;
    while (!is_other(i) || number-- != 0) ++i;
    return i;
  }
  bool is_other(std::size_t i) const {
    return i != current_ && !fibers_[i].finished && !fibers_[i].waiting;
  }
  std::size_t choose(std::size_t options) {
    if (options == 1) return 0;
    if (at_ == path_->size()) path_->push_back({0, options});
    return (*path_)[at_++].taken;
  }
  void go_to(std::size_t next) {
    Fiber& from = fibers_[current_];
    current_ = next;
    from.exceptions = std::exchange(Exceptions::of_this_thread(), fibers_[next].exceptions);
    from.place.leave_for(fibers_[next].place);
  }
  void go_on_elsewhere() {
    if (const std::size_t options = others(); options != 0) return go_to(other(choose(options)));
    for (const Fiber& fiber : fibers_) {
      if (!fiber.finished) return stop("all threads wait for each other");
    }
    leave();
  }
  /// What still runs is given up where it is.
  void leave() {
    Exceptions::of_this_thread() = main_exceptions_;
    fibers_[current_].place.leave_for(main_);
  }

  std::vector<Choice>* path_;
  const Limits* limits_;
  std::vector<Fiber> fibers_;
  Place main_;
  Exceptions main_exceptions_{};
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
  main_exceptions_ = std::exchange(Exceptions::of_this_thread(), Exceptions{});
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
void give_way() {
  if (running != nullptr) running->give_way();
}
void fence() {
  if (running != nullptr) running->fence();
}
void fence_everywhere() {
  if (running != nullptr) running->fence_everywhere();
}
void fail(const std::string& violation) {
  if (running != nullptr) running->stop(violation);
  std::abort();
}
bool in_body() { return running != nullptr; }
std::size_t current() { return running == nullptr ? 0 : running->current(); }

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
