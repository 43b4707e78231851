// SPDX-License-Identifier: BSD-3-Clause
// How a transaction is run until it commits: what Pool::atomically and object heaps have in common.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "perdure/engine/options.h"
#include "perdure/engine/transaction.h"

namespace perdure {

class PoolCore;

/// One thread's place in an open pool: its transaction, its log.
struct PoolContext {
  PoolContext(std::unique_ptr<Tx> made, std::size_t with_slot)
      : owned(std::move(made)), tx(*owned), slot(with_slot) {}
  const std::unique_ptr<Tx> owned;
  Tx& tx;
  const std::size_t slot;
  unsigned attempts = 0;
};

namespace detail {

/// The calling thread's place; made on first use. Errors: throws Exception kMisuse after fork or with more threads than the
/// pool has logs.
PoolContext& context_of(PoolCore& core);
void begin_attempt(PoolCore& core, PoolContext& context, bool read_only);
/// Throws Conflict or Exception (see Engine::commit).
void commit_attempt(PoolCore& core, PoolContext& context, Durability durability);
/// After a Conflict: undoes, and waits a little.
void retry_later(PoolCore& core, PoolContext& context);
/// After an exception: undoes, for good.
void abandon(PoolCore& core, PoolContext& context) noexcept;

}  // namespace detail

/// Runs `body()` in the context's transaction, again after each Conflict, and commits. Returns what it returns.
/// `before_roll_back()` is called before what a failed attempt has allocated becomes free again; it must not throw.
/// Errors: throws Exception, and whatever leaves `body`; rolled back then.
template <class Body, class BeforeRollBack>
std::invoke_result_t<Body&> attempt(PoolCore& core, PoolContext& context, bool read_only,
                                    Durability durability, Body&& body,
                                    BeforeRollBack before_roll_back) {
  for (;;) {
    detail::begin_attempt(core, context, read_only);
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
        body();
        detail::commit_attempt(core, context, durability);
        return;
      } else {
        auto result = body();
        detail::commit_attempt(core, context, durability);
        return result;
      }
    } catch (const Conflict&) {
      before_roll_back();
      detail::retry_later(core, context);
    } catch (...) {
      before_roll_back();
      if (!context.tx.doomed()) {  // else user code turned our Conflict into something else
        detail::abandon(core, context);
        throw;
      }
      detail::retry_later(core, context);
    }
  }
}

}  // namespace perdure
