// SPDX-License-Identifier: BSD-3-Clause
// ItemStore: what the protocol needs of a store of items. One virtual call per command; what a command means stands in the
// callbacks, so that every store behaves alike. `PoolStore` is ours; the benchmark has one on Berkeley DB.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

namespace perdure::memcached {

/// The server's idea of the time, in Unix seconds; a test's own.
class Clock {
 public:
  explicit Clock(std::uint32_t seconds = 0) : seconds_(seconds) {}
  std::uint32_t now() const { return seconds_.load(std::memory_order_relaxed); }
  void set(std::uint32_t seconds) { seconds_.store(seconds, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> seconds_;
};

/// A callable that outlives the call it is handed to.
template <class Signature>
class FunctionRef;
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<Args&&>(args)...);
        }) {}
  Result operator()(Args... args) const { return call_(object_, static_cast<Args&&>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

/// What is kept of an item beside its key and value.
struct Head {
  std::uint32_t flags = 0;
  std::uint32_t expires = 0;  // Unix time; 0: never
  std::uint64_t cas = 0;
  std::uint8_t state = 0;  // kStale, kWon, kBinaryKey (layout.h)
};

/// An item as a callback sees it.
class ItemView {
 public:
  using Reader = FunctionRef<void(void* to, std::size_t at, std::size_t bytes)>;
  ItemView(const Head& its, std::uint32_t bytes, Reader reader)
      : head(its), value_bytes(bytes), reader_(reader) {}

  Head head;
  std::uint32_t value_bytes;
  std::uint32_t accessed = 0;  // when it was stored or used last, as far as that is remembered
  bool fetched = false;  // whether it was got since it was stored, as far as that is remembered
  std::uint64_t object_bytes = 0;

  /// Copies a part of the value.
  void read(void* to, std::size_t at, std::size_t bytes) const { reader_(to, at, bytes); }

 private:
  Reader reader_;
};

/// What is to become of an item.
struct Plan {
  enum class Kind : std::uint8_t { kNothing, kRemove, kHead, kStore };
  enum class Old : std::uint8_t {
    kDropped,
    kBefore,
    kBehind
  };  // where the old value stands beside the new

  Kind kind = Kind::kNothing;
  Old old = Old::kDropped;
  Head head;  // its cas 0: a new unique one
  std::string_view value;
};

struct StoreCounts {
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  std::uint64_t evictions = 0;
  std::uint64_t reclaimed = 0;  // dead items whose memory was taken back
  std::uint64_t limit_bytes = 0;
  std::uint64_t buckets = 0;
};

class ItemStore {
 public:
  /// Whether `alter` looks at an item as read: `kUse` marks it so.
  enum class Use : std::uint8_t { kUse, kPeek };
  using See = FunctionRef<void(std::size_t index, const ItemView* item)>;
  using Decide = FunctionRef<Plan(const ItemView* item)>;

  virtual ~ItemStore() = default;

  /// Calls `see(i, item)` for each key in turn, null for one that is not there, all from one state. It may begin anew, at 0.
  virtual void look(std::span<const std::string_view> keys, Use use, See see) = 0;
  /// Does with one item what `decide` says, atomically; `decide` may be asked again. `room`: the most bytes by which the
  /// value may grow; memory is made for it first. Returns the cas unique that the item has then.
  /// Errors: throws Exception kNoSpace; nothing has changed then, unless by an eviction.
  virtual std::uint64_t alter(std::string_view key, std::uint64_t room, Use use, Decide decide) = 0;
  /// Says which keys will be asked for next. Cost: less than it saves, from some keys on.
  virtual void expect(std::span<const std::string_view> keys) { static_cast<void>(keys); }
  /// Calls `body`, and makes what look() and alter() do for it, in this thread, one change. False: that cannot be, and none
  /// of it was done; the caller takes back what `body` did besides, and does one thing after the other. `body` is called at
  /// most once, and lets pass what is thrown at it.
  virtual bool together(FunctionRef<void()> body) {
    static_cast<void>(body);
    return false;
  }
  /// Makes all items disappear that are there at the Unix time `at`; at once when that is not later than now.
  virtual void flush_all(std::uint32_t at) = 0;
  virtual StoreCounts counts() const = 0;
  /// False: it cannot be that small.
  virtual bool set_limit(std::uint64_t bytes) = 0;
  /// Called now and then: takes back the memory of dead items.
  virtual void tidy() = 0;
};

}  // namespace perdure::memcached
