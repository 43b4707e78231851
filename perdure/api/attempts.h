// How a transaction is run until it commits: what Pool::atomically and object heaps have in common.
#pragma once

#include <type_traits>
#include <utility>

#include "perdure/api/pool_core.h"

namespace perdure {

/// Runs `body()` in the context's transaction, again after each Conflict, and commits. Returns what it returns.
/// `before_roll_back()` is called before what a failed attempt has allocated becomes free again; it must not throw.
/// Errors: throws Exception, and whatever leaves `body`; rolled back then.
template <class Body, class BeforeRollBack>
std::invoke_result_t<Body&> attempt(PoolCore& core, PoolCore::Context& context, bool read_only,
                                    Durability durability, Body&& body,
                                    BeforeRollBack before_roll_back) {
  for (;;) {
    core.make_way(context);
    core.begin(context, read_only);
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
        body();
        core.commit(context, durability);
        return;
      } else {
        auto result = body();
        core.commit(context, durability);
        return result;
      }
    } catch (const Conflict&) {
      before_roll_back();
      core.retry_later(context);
    } catch (...) {
      before_roll_back();
      const bool again = context.tx.doomed();  // user code turned our Conflict into something else
      if (!again) {
        context.tx.roll_back();
        core.forget_attempts(context);
        throw;
      }
      core.retry_later(context);
    }
  }
}

}  // namespace perdure
