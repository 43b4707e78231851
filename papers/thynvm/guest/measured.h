// SPDX-License-Identifier: BSD-3-Clause
/* What a program of this folder tells the simulator: papers/thynvm/memory/marks.h. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "papers/thynvm/memory/marks.h"

/* Preparation is over: what follows is measured. */
static inline void measured_begin(void) {
  void* const words = (void*)(uintptr_t)PERDURE_MARK_BEGIN_WORD;
  if (mmap(words, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
           -1, 0) != words) {
    perror("the words of the marks cannot be mapped");
    exit(1);
  }
  *(volatile uint64_t*)words = 0; /* The kernel's work for the page is not measured. */
  syscall(SYS_getpid, PERDURE_MARK_BEGIN);
  *(volatile uint64_t*)words = 1;
}

/* One more operation is finished. */
static inline void measured_operation(void) {
  *(volatile uint64_t*)(uintptr_t)PERDURE_MARK_OPERATION_WORD = 1;
}

/* Ends the epoch: when it returns, all that was stored before it would survive a power cut. */
static inline void measured_end_epoch(void) {
  __asm__ volatile(PERDURE_END_EPOCH_INSTRUCTION ::: "memory");
}

/* The number in argv[index], or `otherwise` where there is none. */
static inline long number_argument(int argc, char** argv, int index, long otherwise) {
  return index < argc ? strtol(argv[index], NULL, 10) : otherwise;
}

/* Zeroed, or the program ends. */
static inline void* memory_of(size_t count, size_t bytes) {
  void* memory = calloc(count, bytes);
  if (memory == NULL) {
    fputs("out of memory\n", stderr);
    exit(1);
  }
  return memory;
}
