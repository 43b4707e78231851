// SPDX-License-Identifier: BSD-3-Clause
// Wraps: SoftWrAP's atomic regions (MSST 2015 §III, §IV), for programs that bring their own
// isolation.
//
//   Wraps wraps(pool);                          // quickest with private pages (perdure/expert.h)
//   std::lock_guard lock(account_mutex);        // isolation is the caller's: locks of any kind
//   wraps.open();
//   wraps.store(*from, wraps.load(*from) - 5);  // in DRAM: every thread's load() finds it there
//   wraps.store(*to, wraps.load(*to) + 5);
//   wraps.close();                              // both durable, or after a crash neither
//
// On memory with private pages (ExpertOptions: Placement::kPrivatePages) a wrap stores *in place*,
// in those pages: its loads and stores are plain ones, its list keeps the old values, and none of
// the new ones goes home before a record says so. close() and abort() are as below; transactions of
// the pool also see what open wraps have stored, and there is always room.
//
// Otherwise what a wrap stores stands out of place: in its own list, for the log, and in the *open
// table*, where loads of all threads look first: an alias table of words and shadow pages. Nothing
// of it is at home, so after a crash there is nothing to undo. The outermost close() commits the
// list as one transaction of the pool (its engine logs it, waits, and stores it home in its own
// way), and then takes it out of the open table.
//   1. commit the list     crash before its durability point ⇒ the wrap never happened;
//                          crash after it ⇒ all of it did
//   2. forget it           from here on loads find the words where the engine has them
// An abort is 2 without 1.
//
// Two open tables are used alternately, like the paper's: a full one is used again when the wraps
// that were open with it have closed. If that does not happen, because a wrap stays open for long,
// new wraps are held back for `patience`; if that does not help, the wrap that finds no room is
// aborted, and its caller is told (§IV-B).
// Deviations: (1) the paper has open and committed words in one table, so that an abort must clear
// it and replay the logs of all; here the engine's tables hold committed words only, and each
// commit stores its words once more. (2) The record goes to the log at close(), not while the wrap
// runs.
//
// What the caller's isolation must guarantee: no other wrap or transaction stores to bytes that an
// open wrap has stored, until it has closed. (Otherwise each wrap is still all or nothing, but
// which value stays is undefined.) Reading them is allowed: it is a dirty read of values that a
// crash or an abort takes back. Transactions of the pool see what wraps have committed, never what
// open wraps have stored (unless that stands in place; then transactions must not touch the words
// of 8 bytes that hold it).
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "perdure/alias/alias_table.h"
#include "perdure/pool.h"

namespace perdure {

/// Settings for wraps that store out of place.
struct WrapSettings {
  /// The size of each open table; sizes are powers of two. A table is full when 1 in `threshold` of
  /// its entries is taken.
  alias::AliasLimits open{};
  std::uint64_t threshold = 8;
  /// How long a wrap that finds no room holds new ones back before it gives up.
  std::chrono::milliseconds patience{100};
};

struct WrapOptions {
  /// Strict isolation, the paper's *local aliasing* (§IV-D): nobody else sees what the wrap stores
  /// before it has closed, and the open table is not used.
  bool local = false;
  Durability durability = Durability::kStrict;
};

/// The wraps of one pool. Make one such object for a pool: its loads look only into its own tables.
/// Threads: any, each with a wrap of its own; constructor and destructor alone. A wrap that is open
/// when its thread ends is aborted.
/// Errors: functions throw Exception: kMisuse when a rule of this interface is broken, kNoSpace,
/// kAborted, kPoisoned. One that a store(), write(), allocate() or free() throws has aborted the
/// wrap; close() then says why once more.
class Wraps {
 public:
  /// `pool` must outlive it.
  /// Throws: std::bad_alloc; Exception kInvalid for sizes that are no powers of two.
  explicit Wraps(Pool& pool, const WrapSettings& settings = {});
  /// Requires: no wrap is open.
  ~Wraps();
  Wraps(const Wraps&) = delete;
  Wraps& operator=(const Wraps&) = delete;

  /// Opens the thread's wrap. Inside an open one this is one more level of it, and `options` are
  /// ignored.
  /// Errors: kMisuse inside a transaction of the pool, and in a forked child.
  void open(WrapOptions options = {});
  /// Ends a level. The outermost makes the wrap durable.   Durable: on return (WrapOptions).
  /// Cost:   that of a transaction; nothing if nothing was stored.
  /// Errors: kMisuse if none is open, or inside a transaction of the pool (it stays open); what had
  ///         aborted the wrap; kNoSpace (aborted). In any of these but the first two, the level has
  ///         ended.
  void close();
  /// Takes back what the wrap has stored, allocated and freed, of all levels. They still have to be
  /// closed; the outermost close() says kAborted. Does nothing when no wrap is open.
  void abort() noexcept;
  /// Runs `body` in a wrap and closes it; if `body` throws, aborts it.
  template <class Body>
  auto run(Body&& body, WrapOptions options = {});

  /// How many levels this thread has open.
  unsigned depth() const;
  /// Whether the wrap that this thread has open was aborted.
  bool aborted() const;

  /// Returns the newest value: stored by this wrap, by another open one (not a local one), or
  /// committed. Works outside wraps, too. Addresses outside the pool are read as they are.
  /// Errors: kMisuse in a forked child; also of read().
  template <Field T>
  T load(const T& field) {
    T value;
    read(&value, &field, sizeof(T));
    return value;
  }
  /// Requires: a field of the pool (its heap).
  /// Errors: kMisuse for another address or outside wraps; kNoSpace.
  template <Field T>
  void store(T& field, std::type_identity_t<T> value) {
    write(&field, &value, sizeof(T));
  }
  /// The same for extents of any size and alignment. From kShadowBytes on they stand in shadow
  /// pages.
  void read(void* to, const void* from, std::size_t bytes);
  void write(void* to, const void* from, std::size_t bytes);
  static constexpr std::size_t kShadowBytes = 128;

  /// Takes effect with the wrap; contents undefined, 16-byte aligned.
  /// Errors: kMisuse outside wraps; kNoSpace, kInvalid.
  void* allocate(std::size_t bytes);
  /// With the wrap; null is fine.
  /// Errors: kMisuse outside wraps, for a foreign pointer, and for a second time.
  void free(void* object);

 private:
  struct State;
  struct Place;
  struct Leaver;
  Place& place() const;
  Place& open_place(std::string_view what) const;
  template <class Work>
  auto in_wrap(std::string_view what, Work work);
  void leave(unsigned depth) noexcept;

  std::shared_ptr<State> state_;
};

template <class Body>
auto Wraps::run(Body&& body, WrapOptions options) {
  const unsigned before = depth();
  open(options);
  const auto guarded = [&] {
    try {
      return body();
    } catch (...) {
      abort();
      leave(before);
      throw;
    }
  };
  if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
    guarded();
    close();
  } else {
    auto result = guarded();
    close();
    return result;
  }
}

}  // namespace perdure
