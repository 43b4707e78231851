// SPDX-License-Identifier: BSD-3-Clause
// Interleaver: runs a piece of concurrent code in every order that its threads' accesses to shared memory can take, up to a
// number of preemptions. The code is a template over what it uses of the machine; here it gets the Atomic below, whose accesses are
// steps, between two of which another thread may go on. Threads are fibers of one thread, so that a schedule costs
// microseconds.
//
// With `store_buffers` a store that is not sequentially consistent stays with its thread as long as x86 may keep it: until the
// thread's next fence or locked instruction, or until it waits or ends. That is what a fence that is left out needs to show.
// What it does not show: what else a compiler or processor may reorder. (That is for the memory orders, and ThreadSanitizer.)
// Source: bounded preemptions, as in CHESS (OSDI 2008): faults of concurrency need few.
// Threads: one explore() at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace perdure::interleave {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kPossible = false;  // they do not follow fibers
#else
inline constexpr bool kPossible = true;
#endif

struct Limits {
  unsigned preemptions = 2;           // switches away from a thread that could go on
  std::uint64_t schedules = 500'000;  // at most
  std::uint64_t steps = 20'000;       // of one schedule: more means that it never ends
  bool store_buffers = false;         // stores are seen as late as possible, not at once
};

struct Report {
  std::uint64_t schedules = 0;
  bool complete = false;  // every schedule was run; else the limit ended it, or a violation
  std::string violation;  // empty: none
};

using Body = std::function<void()>;

/// Runs what `make` returns, a body for each thread, once for each schedule; `make` also makes the state that they share. A
/// body that throws, a deadlock and a schedule without end are violations.
Report explore(const std::function<std::vector<Body>()>& make, const Limits& limits = {});

/// In a body: another thread may go on here.
void step();
/// In a body: something was changed, so that who waits should look again.
void changed();
/// In a body: nothing to do until another thread has changed something.
void wait();
/// In a body: the next thread in turn that can go on goes on here. Not a preemption.
void give_way();
/// In a body: what the thread has stored is seen by the others from here on.
void fence();
/// In a body: what any thread has stored so far is seen by the others from here on.
void fence_everywhere();
/// In a body: the schedule ends here, and is a violation.
[[noreturn]] void fail(const std::string& violation);
/// In a body: which of the bodies. Elsewhere 0.
std::size_t current();
/// Whether a body is running.
bool in_body();

namespace detail {
/// Keeps a store back, which `apply(place, value)` makes later. False: it is to be made now.
bool keep_back(void* place, std::uint64_t value, void (*apply)(void*, std::uint64_t));
/// Whether the thread keeps back a store to `place`, and which.
bool kept_back(const void* place, std::uint64_t& value);
}  // namespace detail

/// An atomic value whose accesses are steps. Outside of explore() they are plain.
template <class T>
class Atomic {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);

 public:
  Atomic() : value_{} {}
  explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;
  T load(std::memory_order = std::memory_order_seq_cst) const {
    step();
    std::uint64_t mine = 0;
    return detail::kept_back(this, mine) ? from_bits(mine) : value_;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    if (order == std::memory_order_seq_cst) {
      change([&](T&) { return value; });
      return;
    }
    step();
    const auto apply = [](void* me, std::uint64_t kept) {
      static_cast<Atomic*>(me)->value_ = from_bits(kept);
    };
    if (detail::keep_back(this, to_bits(value), apply)) return;
    value_ = value;
    changed();
  }
  bool compare_exchange_strong(T& expected, T desired,
                               std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
    const T wanted = expected;
    expected = change([&](T& now) { return now == wanted ? desired : now; });
    return expected == wanted;
  }
  T fetch_or(T bits, std::memory_order = std::memory_order_seq_cst) {
    return change([&](T& now) { return static_cast<T>(now | bits); });
  }
  T fetch_and(T bits, std::memory_order = std::memory_order_seq_cst) {
    return change([&](T& now) { return static_cast<T>(now & bits); });
  }
  T fetch_add(T more, std::memory_order = std::memory_order_seq_cst) {
    return change([&](T& now) { return static_cast<T>(now + more); });
  }
  T fetch_sub(T less, std::memory_order = std::memory_order_seq_cst) {
    return change([&](T& now) { return static_cast<T>(now - less); });
  }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
    return change([&](T&) { return value; });
  }

  static std::uint64_t to_bits(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    return bits;
  }
  static T from_bits(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

 private:
  /// A locked instruction. Returns what was there before.
  template <class Next>
  T change(Next next) {
    step();
    fence();
    const T before = value_;
    value_ = next(value_);
    if (value_ != before) changed();
    return before;
  }
  T value_;
};

}  // namespace perdure::interleave
