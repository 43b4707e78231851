// SPDX-License-Identifier: BSD-3-Clause
// Begin, commit, abort, and the small change of the ABI.
#include <cstdio>

#include "perdure/mnemosyne/tm_thread.h"

using perdure::compiled::Thread;

// Saves what a function keeps for its caller (JumpBuffer, in its order) and hands it to
// perdure_tm_begin(). The caller may get here again: perdure_tm_resume() returns in its place.
asm(R"(
    .text
    .globl  _ITM_beginTransaction
    .type   _ITM_beginTransaction, @function
_ITM_beginTransaction:
    .cfi_startproc
    leaq    8(%rsp), %rax
    movq    (%rsp), %rdx
    subq    $72, %rsp
    .cfi_adjust_cfa_offset 72
    movq    %rax, 0(%rsp)
    movq    %rdx, 8(%rsp)
    movq    %rbx, 16(%rsp)
    movq    %rbp, 24(%rsp)
    movq    %r12, 32(%rsp)
    movq    %r13, 40(%rsp)
    movq    %r14, 48(%rsp)
    movq    %r15, 56(%rsp)
    movq    %rsp, %rsi
    call    perdure_tm_begin
    addq    $72, %rsp
    .cfi_adjust_cfa_offset -72
    ret
    .cfi_endproc
    .size   _ITM_beginTransaction, . - _ITM_beginTransaction

    .globl  perdure_tm_resume
    .type   perdure_tm_resume, @function
perdure_tm_resume:
    .cfi_startproc
    movl    %esi, %eax
    movq    16(%rdi), %rbx
    movq    24(%rdi), %rbp
    movq    32(%rdi), %r12
    movq    40(%rdi), %r13
    movq    48(%rdi), %r14
    movq    56(%rdi), %r15
    movq    8(%rdi), %rdx
    movq    0(%rdi), %rsp
    jmp     *%rdx
    .cfi_endproc
    .size   perdure_tm_resume, . - perdure_tm_resume
)");

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" {

// libstdc++ has transactional clones of its exceptions' constructors, and they refer to this
// runtime weakly, which takes nothing out of an archive: a program that throws std::runtime_error
// and neither allocates nor copies by itself would call null. So these come with begin.
void* _ZGTtnam(std::size_t bytes);
[[gnu::used]] void (*const perdure_tm_comes_whole[])() = {
    reinterpret_cast<void (*)()>(_ZGTtnam),
    reinterpret_cast<void (*)()>(_ITM_RU1),
};

std::uint32_t perdure_tm_begin(std::uint32_t properties,
                               const perdure::compiled::JumpBuffer* buffer) {
  return Thread::self().begin(properties, *buffer);
}
void _ITM_commitTransaction() { Thread::self().commit(nullptr); }
void _ITM_commitTransactionEH(void* exception) { Thread::self().commit(exception); }
void _ITM_abortTransaction(std::uint32_t reason) { Thread::self().abort(reason); }
void _ITM_changeTransactionMode(std::uint32_t) {
  Thread::self().become_irrevocable(__builtin_return_address(0));
}

std::uint32_t _ITM_inTransaction() {
  const Thread& thread = Thread::self();
  if (!thread.active()) return 0;
  return thread.irrevocable() ? 2 : 1;
}
std::uint32_t _ITM_getTransactionId() {
  Thread& thread = Thread::self();
  // 1 is "no transaction"; two transactions of one thread differ, and nobody may ask for more.
  return thread.active() ? 2 + static_cast<std::uint32_t>(thread.tx().snapshot() & 0x7fffffff) : 1;
}
// gcc leaves out a transaction that contains nothing but pure calls, such as these two. What there
// is to undo then never will be, and what waits for the commit need not wait.
void _ITM_addUserCommitAction(void (*action)(void*), std::uint32_t, void* argument) {
  Thread& thread = Thread::self();
  if (!thread.active()) return action(argument);
  thread.on_commit(action, argument);
}
void _ITM_addUserUndoAction(void (*action)(void*), void* argument) {
  Thread& thread = Thread::self();
  if (thread.active()) thread.on_undo(action, argument);
}
// "The program will not use these bytes again": a hint, and nothing here gains from it.
void _ITM_dropReferences(void*, std::size_t) {}

int _ITM_versionCompatible(int version) { return version == 90 ? 1 : 0; }
const char* _ITM_libraryVersion() { return "Perdure, durable transactions (ABI 90)"; }
void _ITM_error(const void*, int code) {
  perdure::mnemosyne::stop("compiled code reports the error " + std::to_string(code) +
                           " in a transaction");
}
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
