// SPDX-License-Identifier: BSD-3-Clause
// Volatile memory inside transactions: malloc and operator new are taken back with the attempt,
// free and operator delete wait for the commit. (Persistent memory: pmalloc and pfree, c_api.cc.)
#include <cstdlib>
#include <new>

#include "perdure/mnemosyne/tm_thread.h"

namespace perdure::compiled {
namespace {

template <class Allocate>
void* allocate(Allocate allocate_now, void (*release)(void*)) {
  void* memory = allocate_now();
  if (memory != nullptr && Thread::self().active()) Thread::self().allocated(memory, release);
  return memory;
}

void release(void* memory, void (*release_now)(void*)) {
  Thread& thread = Thread::self();
  if (memory == nullptr) return;
  if (!thread.active()) return release_now(memory);
  if (thread.space().contains(memory))
    mnemosyne::stop("free() or delete of persistent memory; use pfree()");
  thread.freed(memory, release_now);
}

void delete_one(void* memory) { ::operator delete(memory); }
void delete_array(void* memory) { ::operator delete[](memory); }

}  // namespace
}  // namespace perdure::compiled

using perdure::compiled::allocate;
using perdure::compiled::delete_array;
using perdure::compiled::delete_one;
using perdure::compiled::release;

// The transactional clones of malloc and free, and of the operators (by their mangled names).
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier, cppcoreguidelines-no-malloc)
extern "C" {
void* _ITM_malloc(std::size_t bytes) {
  return allocate([&] { return std::malloc(bytes); }, std::free);
}
void* _ITM_calloc(std::size_t count, std::size_t bytes) {
  return allocate([&] { return std::calloc(count, bytes); }, std::free);
}
void _ITM_free(void* memory) { release(memory, std::free); }

void* _ZGTtnwm(std::size_t bytes) {
  return allocate([&] { return ::operator new(bytes); }, delete_one);
}
void* _ZGTtnam(std::size_t bytes) {
  return allocate([&] { return ::operator new[](bytes); }, delete_array);
}
void* _ZGTtnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t&) {
  return allocate([&] { return ::operator new(bytes, std::nothrow); }, delete_one);
}
void* _ZGTtnamRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t&) {
  return allocate([&] { return ::operator new[](bytes, std::nothrow); }, delete_array);
}
void _ZGTtdlPv(void* memory) { release(memory, delete_one); }
void _ZGTtdaPv(void* memory) { release(memory, delete_array); }
void _ZGTtdlPvm(void* memory, std::size_t) { release(memory, delete_one); }
void _ZGTtdaPvm(void* memory, std::size_t) { release(memory, delete_array); }
void _ZGTtdlPvRKSt9nothrow_t(void* memory, const std::nothrow_t&) { release(memory, delete_one); }
void _ZGTtdaPvRKSt9nothrow_t(void* memory, const std::nothrow_t&) { release(memory, delete_array); }
void _ZGTtdlPvmRKSt9nothrow_t(void* memory, std::size_t, const std::nothrow_t&) {
  release(memory, delete_one);
}
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier, cppcoreguidelines-no-malloc)
