// SPDX-License-Identifier: BSD-3-Clause
// What gcc expects of a transactional memory runtime: the part of the "Intel Transactional Memory
// Compiler and Runtime ABI" (1.1) that -fgnu-tm code uses, with gcc's extensions. Function by
// function in the tm_*.cc of this folder.
#pragma once

#include <cstddef>
#include <cstdint>

// The names are the ABI's, not ours.
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)

namespace perdure::compiled {

/// What the compiler knows about the code of a transaction.
enum Properties : std::uint32_t {
  kInstrumentedCode = 0x0001,
  kUninstrumentedCode = 0x0002,
  kHasNoAbort = 0x0008,
};
/// What begin tells the code to do next.
enum Actions : std::uint32_t {
  kRunInstrumented = 0x01,
  kRunUninstrumented = 0x02,
  kSaveLive = 0x04,
  kRestoreLive = 0x08,
  kAborted = 0x10,
};
enum AbortReasons : std::uint32_t { kUserAbort = 1, kOuterAbort = 16 };

/// The registers that a function keeps for its caller: where a transaction begins again.
struct JumpBuffer {
  std::uint64_t stack;  // of the caller, behind the return address
  std::uint64_t resume;
  std::uint64_t rbx, rbp, r12, r13, r14, r15;
};
static_assert(sizeof(JumpBuffer) == 64);

}  // namespace perdure::compiled

extern "C" {
std::uint32_t _ITM_beginTransaction(std::uint32_t properties, ...);
void _ITM_commitTransaction();
void _ITM_commitTransactionEH(void* exception);
[[noreturn]] void _ITM_abortTransaction(std::uint32_t reason);
void _ITM_changeTransactionMode(std::uint32_t mode);
std::uint32_t _ITM_inTransaction();
std::uint32_t _ITM_getTransactionId();
void _ITM_addUserCommitAction(void (*action)(void*), std::uint32_t resuming, void* argument);
void _ITM_addUserUndoAction(void (*action)(void*), void* argument);
void _ITM_dropReferences(void* start, std::size_t bytes);
int _ITM_versionCompatible(int version);
const char* _ITM_libraryVersion();
[[noreturn]] void _ITM_error(const void* where, int code);

void _ITM_registerTMCloneTable(void* table, std::size_t entries);
void _ITM_deregisterTMCloneTable(void* table);
void* _ITM_getTMCloneOrIrrevocable(void* function);
void* _ITM_getTMCloneSafe(void* function);

std::uint8_t _ITM_RU1(const std::uint8_t* from);  // and the other barriers: tm_barriers.cc

void* _ITM_malloc(std::size_t bytes);
void* _ITM_calloc(std::size_t count, std::size_t bytes);
void _ITM_free(void* memory);

void* _ITM_cxa_allocate_exception(std::size_t bytes);
void _ITM_cxa_free_exception(void* exception);
[[noreturn]] void _ITM_cxa_throw(void* exception, void* type, void (*destructor)(void*));
void* _ITM_cxa_begin_catch(void* exception);
void _ITM_cxa_end_catch();

/// The C++ half of begin; the other is assembly. Resumes at `buffer` as if begin returned
/// `actions`.
std::uint32_t perdure_tm_begin(std::uint32_t properties,
                               const perdure::compiled::JumpBuffer* buffer);
[[noreturn]] void perdure_tm_resume(const perdure::compiled::JumpBuffer* buffer,
                                    std::uint32_t actions);
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
