// SPDX-License-Identifier: BSD-3-Clause
// C++ exceptions inside transactions. What the runtime must know of them is what to take back with
// an attempt: objects that were allocated and not caught yet, and catch blocks that were entered
// and not left; and that the destructor of an exception, which libstdc++ calls when the last
// handler is left, is a function outside transactions:
//
//   it has a clone      the clone runs there, as a part of the transaction
//   it has none         it runs after the commit, because what it reads may still be buffered and
//                       what it frees would be
//   (std::logic_error)  freed again by an attempt that ends. Until then an exception_ptr keeps the
//                       object.
#include <map>
#include <mutex>

#include "perdure/mnemosyne/tm_thread.h"

// libstdc++'s.
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" {
void* __cxa_allocate_exception(std::size_t) noexcept;
void __cxa_free_exception(void*) noexcept;
[[noreturn]] void __cxa_throw(void*, void*, void (*)(void*));
void* __cxa_begin_catch(void*) noexcept;
void __cxa_end_catch();
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)

namespace perdure::compiled {
namespace {

using Destructor = void (*)(void*);

/// The destructors of the exceptions that transactions threw, by object: such an exception may be
/// destroyed after its transaction, and by another thread.
class Destructors {
 public:
  void put(void* object, Destructor destructor) {
    const std::scoped_lock lock(mutex_);
    of_[object] = destructor;
  }
  Destructor find(void* object) {
    const std::scoped_lock lock(mutex_);
    const auto found = of_.find(object);
    return found == of_.end() ? nullptr : found->second;
  }
  Destructor take(void* object) {
    const std::scoped_lock lock(mutex_);
    const auto node = of_.extract(object);
    return node.empty() ? nullptr : node.mapped();
  }

 private:
  std::mutex mutex_;
  std::map<void*, Destructor> of_;
};

Destructors& destructors() {
  static auto* const the_destructors =
      new Destructors;  // never destroyed: the last user comes later
  return *the_destructors;
}

void* clone_of(Destructor destructor) { return find_clone(reinterpret_cast<void*>(destructor)); }

/// For an exception that was taken back, and so has no destructor to run.
void free_exception(void* object) {
  Thread::self().disown_exception(object);
  (void)destructors().take(object);
  __cxa_free_exception(object);
}

/// What libstdc++ knows as the destructor of every exception that a transaction threw.
void destroy(void* object) {
  const Destructor destructor = destructors().take(object);
  if (destructor == nullptr) return;
  Thread& thread = Thread::self();
  void* const clone = thread.active() && !thread.irrevocable() ? clone_of(destructor) : nullptr;
  if (clone == nullptr) return destructor(object);
  // A conflict ends the clone, and nobody comes back here to free the object.
  thread.allocated(object, __cxa_free_exception);
  reinterpret_cast<Destructor>(clone)(object);
  thread.forget_allocation(object);
}

void* object_of(const std::exception_ptr& exception) {
  void* object = nullptr;
  static_assert(sizeof(exception) == sizeof(object));
  std::memcpy(&object, static_cast<const void*>(&exception), sizeof(object));
  return object;
}

/// What was thrown lies behind the unwinder's header.
void* object_behind(void* exception) { return static_cast<_Unwind_Exception*>(exception) + 1; }

}  // namespace

void Thread::drop_in_flight(void* exception) {
  void* const object = object_behind(exception);
  for (const Action& action : allocations_) {
    if (action.argument == object) return;
  }
  (void)destructors().take(object);
  _Unwind_DeleteException(static_cast<_Unwind_Exception*>(exception));
}

void Thread::forget_destructor(const std::exception_ptr& exception) {
  (void)destructors().take(object_of(exception));
}

}  // namespace perdure::compiled

using perdure::compiled::Thread;

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" {
void* _ITM_cxa_allocate_exception(std::size_t bytes) {
  void* const exception = __cxa_allocate_exception(bytes);
  Thread::self().allocated(exception, perdure::compiled::free_exception);
  Thread::self().own_exception(exception, bytes);
  return exception;
}
void _ITM_cxa_free_exception(void* exception) {
  Thread::self().disown_exception(exception);
  Thread::self().forget_allocation(exception);
  __cxa_free_exception(exception);
}
void _ITM_cxa_throw(void* exception, void* type, void (*destructor)(void*)) {
  Thread::self().disown_exception(exception);
  if (destructor == nullptr) __cxa_throw(exception, type, nullptr);
  perdure::compiled::destructors().put(exception, destructor);
  __cxa_throw(exception, type, perdure::compiled::destroy);
}
void* _ITM_cxa_begin_catch(void* exception) {
  Thread& thread = Thread::self();
  ++thread.caught_exceptions;
  // It belongs to the handler from now on.
  thread.forget_allocation(perdure::compiled::object_behind(exception));
  return __cxa_begin_catch(exception);
}
void _ITM_cxa_end_catch() {
  Thread& thread = Thread::self();
  --thread.caught_exceptions;
  if (std::exception_ptr exception = std::current_exception(); exception != nullptr) {
    const auto destructor =
        perdure::compiled::destructors().find(perdure::compiled::object_of(exception));
    if (destructor != nullptr && perdure::compiled::clone_of(destructor) == nullptr)
      thread.destroy_after_commit(std::move(exception));
  }
  __cxa_end_catch();
}
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
