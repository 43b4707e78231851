// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/mnemosyne/tm_thread.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <memory>
#include <utility>

// The C++ ABI gives this layout to what abi::__cxa_get_globals() returns, and libstdc++ no header.
namespace __cxxabiv1 {  // NOLINT: its name
struct __cxa_eh_globals {
  void* caught;
  unsigned uncaught;
};
}  // namespace __cxxabiv1

// In libstdc++, for runtimes like this one.
extern "C" void __cxa_tm_cleanup(void*, void*, unsigned);  // NOLINT: its name

namespace perdure::compiled {
namespace {

/// Taken shared by every transaction and alone by an irrevocable one; not at all unless the user
/// allowed those.
pthread_rwlock_t serial_lock = PTHREAD_RWLOCK_INITIALIZER;

bool irrevocable_allowed() {
  static const bool allowed = [] {
    const char* value = std::getenv("PERDURE_IRREVOCABLE");
    return value != nullptr && std::strcmp(value, "volatile") == 0;
  }();
  return allowed;
}

/// Exceptions of this thread that were thrown and not caught yet.
unsigned& uncaught_exceptions() { return abi::__cxa_get_globals()->uncaught; }

std::string symbol_of(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) != 0 && info.dli_sname != nullptr) return info.dli_sname;
  return "a transaction";
}

}  // namespace

constinit thread_local Thread* Thread::self_ __attribute__((tls_model("initial-exec"))) = nullptr;

Thread& Thread::make() {
  thread_local std::unique_ptr<Thread> owner = std::make_unique<Thread>();
  self_ = owner.get();
  return *self_;
}

std::uint32_t Thread::begin(std::uint32_t properties, const JumpBuffer& buffer) {
  constexpr std::uint32_t kGo = kRunInstrumented | kSaveLive;
  if (active()) {
    std::optional<Checkpoint> checkpoint;
    if ((properties & kHasNoAbort) == 0) {  // only what may be cancelled alone pays for that
      checkpoint.emplace(Checkpoint{tx().save(), kept_.size(), commit_actions_.size(),
                                    undo_actions_.size(), allocations_.size(), frees_.size(),
                                    destroyed_later_.size(), caught_exceptions,
                                    uncaught_exceptions()});
      keeps_frames_from_ = buffer.stack;
    }
    levels_.push_back({buffer, std::move(checkpoint)});
    return irrevocable_ && (properties & kUninstrumentedCode) != 0 ? kRunUninstrumented : kGo;
  }
  adopt_space();
  if (tx().active())
    mnemosyne::stop("__transaction_atomic inside Pool::atomically; use one of the two");
  levels_.push_back({buffer, std::nullopt});
  own_stack_end_ = buffer.stack;
  uncaught_before_ = uncaught_exceptions();
  wants_serial_ = (properties & kInstrumentedCode) == 0;
  start_attempt();
  if (wants_serial_) {  // gcc made no other code than what cannot be taken back
    become_irrevocable(reinterpret_cast<const void*>(buffer.resume));
    return kRunUninstrumented;
  }
  return kGo;
}

void Thread::adopt_space() {
  AddressSpace& now = mnemosyne::space();
  if (&now == space_ && generation_ == mnemosyne::generation()) [[likely]]
    return;
  space_ = &now;
  generation_ = mnemosyne::generation();
  try {
    context_ = &core_of(now.pool()).context();
  } catch (const Exception& error) {
    mnemosyne::stop(error.what());
  }
  statics_ = reinterpret_cast<std::uintptr_t>(now.statics_begin());
  statics_bytes_ = now.statics_bytes();
  statics_home_ = statics_bytes_ == 0
                      ? 0
                      : reinterpret_cast<std::uintptr_t>(now.fixed_address(now.statics_begin()));
}

void Thread::start_attempt() {
  core_of(space_->pool()).make_way(*context_);
  if (irrevocable_allowed()) {
    if (wants_serial_) {
      ::pthread_rwlock_wrlock(&serial_lock);
      serial_ = true;
    } else {
      ::pthread_rwlock_rdlock(&serial_lock);
      shares_serial_ = true;
    }
  }
  tx().announce();
  core_of(space_->pool()).begin(*context_, false);
}

void Thread::leave_serial() {
  if (serial_ || shares_serial_) ::pthread_rwlock_unlock(&serial_lock);
  serial_ = shares_serial_ = irrevocable_ = false;
}

void Thread::commit(void* exception_in_flight) {
  if (levels_.size() > 1) {
    levels_.pop_back();
    keeps_frames_from_ = 0;
    for (const Level& level : levels_) {
      if (level.checkpoint) keeps_frames_from_ = level.buffer.stack;
    }
    return;
  }
  PoolCore& core = core_of(space_->pool());
  const bool updates = tx().has_updates() || tx().has_volatile_updates();
  bool committed = false;
  try {
    core.commit(*context_);
    committed = true;
  } catch (const Conflict&) {
    // Restarted below, outside the handler.
  } catch (const Exception& error) {
    mnemosyne::stop(std::string("a transaction could not commit: ") + error.what());
  } catch (const std::exception& error) {
    mnemosyne::stop(std::string("a transaction could not commit: ") + error.what());
  }
  if (!committed) {
    if (exception_in_flight != nullptr) drop_in_flight(exception_in_flight);
    restart();
  }
  const std::uint64_t timestamp = tx().last_timestamp();
  leave_serial();
  if (updates || !frees_.empty()) core.quiesce(timestamp);
  // The actions and destructors may run transactions of their own. The actions come first: they may
  // use what is freed.
  const std::vector<Action> actions = std::exchange(commit_actions_, {});
  const std::vector<Action> frees = std::exchange(frees_, {});
  std::vector<std::exception_ptr> exceptions = std::exchange(destroyed_later_, {});
  forget();
  for (const Action& action : actions) action.run(action.argument);
  for (const Action& action : frees) action.run(action.argument);
  exceptions.clear();
}

void Thread::forget() {
  levels_.clear();
  kept_.clear();
  kept_bytes_.clear();
  commit_actions_.clear();
  undo_actions_.clear();
  allocations_.clear();
  frees_.clear();
  own_stack_end_ = 0;
  keeps_frames_from_ = 0;
  wants_serial_ = false;
  caught_exceptions = 0;
  destroyed_later_.clear();
  unthrown_.clear();
}

void Thread::keep(const void* address, std::size_t bytes) {
  kept_.push_back({const_cast<void*>(address), bytes, kept_bytes_.size(), on_own_stack(address)});
  const auto* from = static_cast<const std::byte*>(address);
  kept_bytes_.insert(kept_bytes_.end(), from, from + bytes);
}

/// `dead_below`: the transaction's frames below it are given up with the attempt. Where they were,
/// the frames of this function and of those that it calls may be by now: nothing may be restored
/// there.
void Thread::undo_to(std::size_t kept, std::size_t undo_actions, std::size_t allocations,
                     std::uintptr_t dead_below) {
  while (undo_actions_.size() > undo_actions) {
    const Action action = undo_actions_.back();
    undo_actions_.pop_back();
    action.run(action.argument);
  }
  while (kept_.size() > kept) {
    const Kept old = kept_.back();
    kept_.pop_back();
    if (!old.in_own_frame || reinterpret_cast<std::uintptr_t>(old.address) >= dead_below)
      std::memcpy(old.address, kept_bytes_.data() + old.at, old.bytes);
    kept_bytes_.resize(old.at);
  }
  while (allocations_.size() > allocations) {
    const Action action = allocations_.back();
    allocations_.pop_back();
    action.run(action.argument);
  }
}

/// After undo_to(), which freed those that nobody had caught.
void Thread::undo_exceptions(unsigned caught, unsigned uncaught, std::size_t destroyed_later) {
  if (caught_exceptions > caught) __cxa_tm_cleanup(nullptr, nullptr, caught_exceptions - caught);
  caught_exceptions = caught;
  uncaught_exceptions() = uncaught;
  while (destroyed_later_.size() > destroyed_later) {
    forget_destructor(destroyed_later_.back());
    destroyed_later_.pop_back();
  }
}

void Thread::forget_allocation(void* memory) {
  for (std::size_t i = allocations_.size(); i-- > 0;) {
    if (allocations_[i].argument != memory) continue;
    allocations_.erase(allocations_.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

void Thread::restart() {
  const JumpBuffer buffer = levels_.front().buffer;
  undo_to(0, 0, 0, buffer.stack);
  undo_exceptions(0, uncaught_before_, 0);
  core_of(space_->pool()).retry_later(*context_);
  leave_serial();
  const bool serial = wants_serial_;
  forget();
  wants_serial_ = serial;
  levels_.push_back({buffer, std::nullopt});
  own_stack_end_ = buffer.stack;
  start_attempt();
  ::perdure_tm_resume(&buffer, kRunInstrumented | kRestoreLive);
}

void Thread::abort(std::uint32_t reason) {
  if (irrevocable_)
    mnemosyne::stop("__transaction_cancel in a transaction that became irrevocable");
  Level& level = levels_.back();
  const JumpBuffer buffer = level.buffer;
  if (level.checkpoint && (reason & kOuterAbort) == 0) {
    const Checkpoint& checkpoint = *level.checkpoint;
    undo_to(checkpoint.kept, checkpoint.undo_actions, checkpoint.allocations, buffer.stack);
    undo_exceptions(checkpoint.caught, checkpoint.uncaught, checkpoint.destroyed_later);
    commit_actions_.resize(checkpoint.commit_actions);
    frees_.resize(checkpoint.frees);
    tx().roll_back_to(checkpoint.savepoint);
    levels_.pop_back();
    keeps_frames_from_ = 0;
    for (const Level& outer : levels_) {
      if (outer.checkpoint) keeps_frames_from_ = outer.buffer.stack;
    }
    ::perdure_tm_resume(&buffer, kAborted | kRestoreLive);
  }
  const JumpBuffer outermost = levels_.front().buffer;
  undo_to(0, 0, 0, outermost.stack);
  undo_exceptions(0, uncaught_before_, 0);
  tx().roll_back();
  core_of(space_->pool()).forget_attempts(*context_);
  leave_serial();
  forget();
  ::perdure_tm_resume(&outermost, kAborted | kRestoreLive);
}

void Thread::become_irrevocable(const void* caller) {
  if (irrevocable_) return;
  if (!irrevocable_allowed())
    mnemosyne::stop("in " + symbol_of(caller) +
                    ": a __transaction_relaxed calls code that cannot be taken back (I/O, a "
                    "function without a transactional "
                    "clone), and such a transaction cannot be durable. Nothing of it happened. "
                    "Move the call behind the "
                    "transaction (_ITM_addUserCommitAction), declare the function "
                    "transaction_safe, or, if the transaction stores "
                    "nothing persistent, allow it with PERDURE_IRREVOCABLE=volatile");
  if (tx().has_updates())
    mnemosyne::stop("in " + symbol_of(caller) +
                    ": a transaction that has stored to persistent memory calls code that cannot "
                    "be taken back. Nothing of it "
                    "happened. Move the call behind the transaction (_ITM_addUserCommitAction)");
  if (!serial_) {  // again, alone from the start
    wants_serial_ = true;
    restart();
  }
  // Nobody else runs. What was buffered goes home, so that uninstrumented code sees it.
  tx().store_volatile();
  irrevocable_ = true;
}

}  // namespace perdure::compiled
