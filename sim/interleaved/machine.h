// SPDX-License-Identifier: BSD-3-Clause
// base/shared.h and base/waiting.h in the build whose threads are fibers of the interleaver: each
// access is a step.
//
// A test can leave an access out (Fault), named by the function it stands in. So it shows that the
// access is needed, and the code that is tested says nothing about tests.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>  // for the locks of a Mutex
#include <optional>
#include <source_location>
#include <string_view>
#include <utility>

#include "sim/interleave/interleaver.h"

namespace perdure {

namespace interleaved {

enum class Access : std::uint8_t {
  kLoad,     // left out: what the thread saw there last is seen again; 0, if it never looked
  kAgain,    // the same, but only where it has looked before
  kStore,    // left out: it is not made
  kNew,      // of a store; left out: what the thread has changed there is as before again
  kOrder,    // of a store; left out: it stays with the thread as long as it may
  kChange,   // a locked instruction; left out: it is not made, and says that it was
  kLock,     // of a Mutex; left out: whoever wants it has it
  kBarrier,  // of all threads
};

/// What a test leaves out.
struct Fault {
  Access access;
  std::string_view function = {};  // part of the name of the function that it stands in
  std::optional<std::memory_order> order = {};
  /// A store is made late: when the thread stores in this function next.
  std::string_view late_until = {};
  /// Whether it is left out now; null: always.
  bool (*when)() = nullptr;
};

/// While it exists, the fault is there, in what the threads of a schedule do.
class WithFault {
 public:
  explicit WithFault(const Fault& fault);
  ~WithFault();
  WithFault(const WithFault&) = delete;
  WithFault& operator=(const WithFault&) = delete;
  /// How often something was left out.
  std::uint64_t met() const;
};

/// The memory whose words are shared: accesses to others are no steps.
void share(const void* begin, std::size_t bytes);
/// Forgets what the threads have seen.
void forget_seen();

namespace detail {

using Here = std::source_location;

inline const Fault* fault = nullptr;
inline const std::byte* shared_begin = nullptr;
inline std::size_t shared_bytes = 0;

bool is_left_out(Access access, std::memory_order order, const Here& here);
/// Makes the store later, if it is to be late.
bool put_off(void* place, std::uint64_t bits, void (*store)(void*, std::uint64_t),
             const Here& here);
void make_late_stores(const Here& here);
void note(const void* place, std::uint64_t bits);
std::optional<std::uint64_t> seen(const void* place);
void note_change(const void* place, std::uint64_t before);
std::uint64_t changed_from(const void* place);

inline bool leaves_out(Access access, std::memory_order order, const Here& here) {
  return fault != nullptr && is_left_out(access, order, here);
}
inline bool is_shared(const void* place) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(place) - shared_begin) <
         shared_bytes;
}

}  // namespace detail
}  // namespace interleaved

/// As std::atomic, as far as heap and engine use it.
template <class T>
class Shared {
  using Access = interleaved::Access;
  using Here = interleaved::detail::Here;

 public:
  Shared() = default;
  explicit Shared(T value) : value_(value) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst, Here here = Here::current()) const {
    if (interleaved::detail::leaves_out(Access::kLoad, order, here))
      return Value::from_bits(interleaved::detail::seen(this).value_or(0));
    if (interleaved::detail::leaves_out(Access::kAgain, order, here)) {
      if (const auto bits = interleaved::detail::seen(this)) return Value::from_bits(*bits);
    }
    return note(value_.load(order));
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst,
             Here here = Here::current()) {
    if (interleaved::detail::fault != nullptr) interleaved::detail::make_late_stores(here);
    if (interleaved::detail::leaves_out(Access::kStore, order, here)) return;
    if (interleaved::detail::leaves_out(Access::kNew, order, here))
      value = Value::from_bits(interleaved::detail::changed_from(this));
    value_.store(value, interleaved::detail::leaves_out(Access::kOrder, order, here)
                            ? std::memory_order_relaxed
                            : order);
  }
  bool compare_exchange_strong(T& expected, T desired,
                               std::memory_order order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst,
                               Here here = Here::current()) {
    if (interleaved::detail::leaves_out(Access::kChange, order, here)) return true;
    const bool changed = value_.compare_exchange_strong(expected, desired, order);
    note(changed ? desired : expected);
    if (changed && interleaved::detail::fault != nullptr)
      interleaved::detail::note_change(this, Value::to_bits(expected));
    return changed;
  }
  bool compare_exchange_weak(T& expected, T desired,
                             std::memory_order order = std::memory_order_seq_cst,
                             std::memory_order other = std::memory_order_seq_cst,
                             Here here = Here::current()) {
    return compare_exchange_strong(expected, desired, order, other, here);
  }
  T fetch_or(T bits, std::memory_order order = std::memory_order_seq_cst,
             Here here = Here::current()) {
    return change(order, here, [&] { return value_.fetch_or(bits); });
  }
  T fetch_and(T bits, std::memory_order order = std::memory_order_seq_cst,
              Here here = Here::current()) {
    return change(order, here, [&] { return value_.fetch_and(bits); });
  }
  T fetch_add(T more, std::memory_order order = std::memory_order_seq_cst,
              Here here = Here::current()) {
    return change(order, here, [&] { return value_.fetch_add(more); });
  }
  T fetch_sub(T less, std::memory_order order = std::memory_order_seq_cst,
              Here here = Here::current()) {
    return change(order, here, [&] { return value_.fetch_sub(less); });
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst,
             Here here = Here::current()) {
    return change(order, here, [&] { return value_.exchange(value); });
  }
  operator T() const { return load(); }  // NOLINT(google-explicit-constructor): as std::atomic
  T operator=(T value) {                 // NOLINT(misc-unconventional-assign-operator): the same
    store(value);
    return value;
  }

 private:
  using Value = interleave::Atomic<T>;
  T note(T value) const {
    if (interleaved::detail::fault != nullptr)
      interleaved::detail::note(this, Value::to_bits(value));
    return value;
  }
  template <class Change>
  T change(std::memory_order order, const Here& here, Change make) {
    if (interleaved::detail::leaves_out(Access::kChange, order, here)) return value_.load();
    return make();
  }
  Value value_;
};

/// As std::atomic_ref of a word.
template <class T>
class SharedRef {
  using Here = interleaved::detail::Here;
  using Value = interleave::Atomic<T>;
  static_assert(sizeof(Value) == sizeof(T));

 public:
  explicit SharedRef(T& value) : value_(&value) {}
  T load(std::memory_order order) const {
    return interleaved::detail::is_shared(value_) ? shared().load(order) : *value_;
  }
  void store(T value, std::memory_order order, Here here = Here::current()) {
    if (!interleaved::detail::is_shared(value_)) {
      *value_ = value;
      return;
    }
    const auto make = [](void* place, std::uint64_t bits) {
      *static_cast<T*>(place) = Value::from_bits(bits);
    };
    if (interleaved::detail::fault == nullptr ||
        !interleaved::detail::put_off(value_, Value::to_bits(value), make, here))
      shared().store(value, order);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order, std::memory_order) {
    if (interleaved::detail::is_shared(value_))
      return shared().compare_exchange_strong(expected, desired, order);
    const T before = *value_;
    if (before == expected) *value_ = desired;
    return std::exchange(expected, before) == before;
  }

 private:
  /// The word itself, as one that is accessed in steps.
  Value& shared() const { return *reinterpret_cast<Value*>(value_); }
  T* value_;
};

inline constexpr bool kCopiesWords = true;

template <class T, class For>
T& of_this_thread() {
  static std::array<T, 4> of_each;
  return of_each[interleave::current()];
}

[[noreturn]] inline void stop_process() { interleave::fail("a check failed"); }

/// As std::mutex. A thread that wants what another one has waits without being scheduled.
class Mutex {
 public:
  void lock() {
    interleave::step();
    interleave::fence();
    if (interleaved::detail::leaves_out(interleaved::Access::kLock, std::memory_order_acquire, {}))
      return;
    while (held_) interleave::wait();
    held_ = true;
  }
  bool try_lock() {
    interleave::step();
    interleave::fence();
    return !std::exchange(held_, true);
  }
  void unlock() {
    interleave::step();
    interleave::fence();
    held_ = false;
    interleave::changed();
  }

 private:
  bool held_ = false;
};

inline void give_way() { interleave::give_way(); }
inline void pause_briefly() { interleave::give_way(); }
inline constexpr int kBriefPauses = 1;
inline void sleep_briefly() { interleave::give_way(); }

inline bool has_barriers() { return true; }
inline void barrier_everywhere(
    interleaved::detail::Here here = interleaved::detail::Here::current()) {
  interleave::step();
  if (!interleaved::detail::leaves_out(interleaved::Access::kBarrier, std::memory_order_seq_cst,
                                       here))
    interleave::fence_everywhere();
}

}  // namespace perdure
