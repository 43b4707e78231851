// C++ exceptions inside transactions. What the runtime must know of them is what to take back with an attempt: objects
// that were allocated and not yet thrown, and catch blocks that were entered and not left.
#include "perdure/mnemosyne/tm_thread.h"

using perdure::tm::Thread;

// libstdc++'s.
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" {
void* __cxa_allocate_exception(std::size_t) noexcept;
void __cxa_free_exception(void*) noexcept;
[[noreturn]] void __cxa_throw(void*, void*, void (*)(void*));
void* __cxa_begin_catch(void*) noexcept;
void __cxa_end_catch();

void* _ITM_cxa_allocate_exception(std::size_t bytes) {
  void* const exception = __cxa_allocate_exception(bytes);
  Thread::self().exceptions.unthrown = exception;
  return exception;
}
void _ITM_cxa_free_exception(void* exception) {
  Thread::self().exceptions.unthrown = nullptr;
  __cxa_free_exception(exception);
}
void _ITM_cxa_throw(void* exception, void* type, void (*destructor)(void*)) {
  Thread::self().exceptions.unthrown = nullptr;
  __cxa_throw(exception, type, destructor);
}
void* _ITM_cxa_begin_catch(void* exception) {
  ++Thread::self().exceptions.caught;
  return __cxa_begin_catch(exception);
}
void _ITM_cxa_end_catch() {
  --Thread::self().exceptions.caught;
  __cxa_end_catch();
}
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
