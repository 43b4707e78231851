#include "perdure/mnemosyne/tm_thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unwind.h>

#include <cstdlib>
#include <memory>
#include <utility>

// In libstdc++, for runtimes like this one; absent in C programs.
extern "C" void __cxa_tm_cleanup(void*, void*, unsigned) __attribute__((weak));  // NOLINT: its name

namespace perdure::tm {
namespace {

/// Taken shared by every transaction and alone by an irrevocable one; not at all unless the user allowed those.
pthread_rwlock_t serial_lock = PTHREAD_RWLOCK_INITIALIZER;

bool irrevocable_allowed() {
  static const bool allowed = [] {
    const char* value = std::getenv("PERDURE_IRREVOCABLE");
    return value != nullptr && std::strcmp(value, "volatile") == 0;
  }();
  return allowed;
}

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
                                    exceptions});
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
    context_ = &now.pool().core().context();
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
  space_->pool().core().begin(*context_, false);
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
  in_flight_ = exception_in_flight;
  PoolCore& core = space_->pool().core();
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
  if (!committed) restart();
  const std::uint64_t stamp = tx().last_stamp();
  leave_serial();
  if (updates || !frees_.empty()) core.quiesce(stamp);
  // The actions may run transactions of their own.
  const std::vector<Action> frees = std::move(frees_);
  const std::vector<Action> actions = std::move(commit_actions_);
  forget();
  for (const Action& action : frees) action.run(action.argument);
  for (const Action& action : actions) action.run(action.argument);
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
  in_flight_ = nullptr;
  exceptions = {};
}

void Thread::keep(const void* address, std::size_t bytes) {
  kept_.push_back({const_cast<void*>(address), bytes, kept_bytes_.size(), on_own_stack(address)});
  const auto* from = static_cast<const std::byte*>(address);
  kept_bytes_.insert(kept_bytes_.end(), from, from + bytes);
}

/// `dead_below`: the transaction's frames below it are given up with the attempt. Where they were, the frames of this
/// function and of those that it calls may be by now: nothing may be restored there.
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

void Thread::undo_exceptions(const Exceptions& before) {
  const unsigned caught = exceptions.caught - before.caught;
  void* const unthrown = exceptions.unthrown == before.unthrown ? nullptr : exceptions.unthrown;
  if ((caught > 0 || unthrown != nullptr) && __cxa_tm_cleanup != nullptr) {
    __cxa_tm_cleanup(unthrown, in_flight_, caught);
  } else if (in_flight_ != nullptr) {
    _Unwind_DeleteException(static_cast<_Unwind_Exception*>(in_flight_));
  }
  in_flight_ = nullptr;
  exceptions = before;
}

void Thread::restart() {
  const JumpBuffer buffer = levels_.front().buffer;
  undo_to(0, 0, 0, buffer.stack);
  undo_exceptions({});
  space_->pool().core().retry_later(*context_);
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
    undo_exceptions(checkpoint.exceptions);
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
  undo_exceptions({});
  tx().roll_back();
  context_->attempts = 0;
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

}  // namespace perdure::tm
