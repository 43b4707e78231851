// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/raw_syscall.h"

asm(R"(
  .text
  .globl perdure_raw_syscall
  .hidden perdure_raw_syscall
  .type perdure_raw_syscall, @function
perdure_raw_syscall:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
  ret

  .globl perdure_raw_clone
  .hidden perdure_raw_clone
  .type perdure_raw_clone, @function
perdure_raw_clone:
  mov %rdx, %r8
  mov %rcx, %r9
  mov $435, %eax
  syscall
  test %rax, %rax
  jz 1f
  ret
1:
  xor %ebp, %ebp
  mov %r9, %rdi
  and $-16, %rsp
  call *%r8
  ud2

  .globl perdure_return_to_frame
  .hidden perdure_return_to_frame
  .type perdure_return_to_frame, @function
perdure_return_to_frame:
  mov %rdi, %rsp
  mov $15, %eax
  syscall
  ud2

  .globl perdure_signal_restorer
  .hidden perdure_signal_restorer
  .type perdure_signal_restorer, @function
perdure_signal_restorer:
  mov $15, %eax
  syscall
  ud2
  .section .note.GNU-stack,"",@progbits
  .text
)");
