// SPDX-License-Identifier: BSD-3-Clause
/* The paper's three micro-benchmarks as compiled programs, with all that lies between two accesses of
   the array: the loop, rand() of the C library, and the instructions' own lines. Patterns and sizes are those
   of the generated accesses (papers/thynvm/memory/generators.h), which are the authors'.

     perdure_guest_micro random|streaming|sliding|sweeping [FACTOR [SEED]]

   sweeping is sliding as the newest of the authors' programs has it, where the paper's text says that the
   window is accessed at random: at each step all blocks of the window are written from end to end, then
   all are read from end to end, twice. */
#include <string.h>

#include "papers/thynvm/guest/measured.h"

struct block {
  uint64_t words[8];
};

enum { WORD = 4, ROUNDS = 2, SHIFT = 2048, PAIRS_IN_A_WINDOW = 49152 };
static const long blocks_of_megabyte = (1 << 20) / (long)sizeof(struct block);
static const long window = 16 * ((1 << 20) / (long)sizeof(struct block));

static size_t bytes_of(long blocks) { return (size_t)blocks * sizeof(struct block); }

/* Of pages that nothing is stored to, the host needs none. */
static struct block* array_of(long blocks) {
  void* array =
      mmap(NULL, bytes_of(blocks), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (array == MAP_FAILED) {
    perror("the array cannot be mapped");
    exit(1);
  }
  return array;
}

/* A random block is read, a random block written, so many times. Returns how many were found written. */
static long at_random(struct block* array, long blocks, long pairs) {
  long found = 0;
  for (long i = 0; i < pairs; ++i) {
    if (array[rand() % blocks].words[WORD] == 'R') ++found;
    array[rand() % blocks].words[WORD] = 'R';
  }
  return found;
}

static long from_end_to_end(struct block* array, long blocks) {
  long found = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    for (long i = 0; i < blocks; ++i) array[i].words[WORD] = 'R';
    for (long i = 0; i < blocks; ++i)
      if (array[i].words[WORD] == 'R') ++found;
  }
  return found;
}

static long run_random(long factor) {
  struct block* array = array_of(32 * factor * window);
  long found = 0;
  measured_begin();
  for (long step = 0; step < 32 * factor; ++step, array += window) {
    found += at_random(array, window, PAIRS_IN_A_WINDOW);
    /* It does not come back to this window: the host, not the simulated machine, gets it back. */
    madvise(array, bytes_of(window), MADV_DONTNEED);
  }
  return found;
}

static long run_streaming(long factor) {
  const long blocks = 96 * factor * blocks_of_megabyte;
  struct block* array = array_of(blocks);
  long found = 0;
  measured_begin();
  for (long i = 0; i < blocks; ++i) {
    if (array[rand() % blocks].words[WORD] == 'R') ++found;
    array[i].words[WORD] = 'R';
  }
  return found;
}

/* First the parts of the window, one after the other; then the window moves on by such a part. */
static long run_sliding(long factor, int sweeps) {
  struct block* array = array_of(window + 3 * factor * SHIFT);
  long found = 0;
  measured_begin();
  for (long first = 0; first < window; first += SHIFT)
    found += sweeps ? from_end_to_end(array + first, SHIFT)
                    : at_random(array + first, SHIFT, (long)SHIFT * ROUNDS);
  for (long step = 1; step <= 3 * factor; ++step)
    found += sweeps ? from_end_to_end(array + step * SHIFT, window)
                    : at_random(array + step * SHIFT, window, window * ROUNDS);
  return found;
}

int main(int argc, char** argv) {
  const char* pattern = argc > 1 ? argv[1] : "";
  const long factor = number_argument(argc, argv, 2, 1);
  srand((unsigned)number_argument(argc, argv, 3, 1));
  long found = 0;
  if (strcmp(pattern, "random") == 0) {
    found = run_random(factor);
  } else if (strcmp(pattern, "streaming") == 0) {
    found = run_streaming(factor);
  } else if (strcmp(pattern, "sliding") == 0 || strcmp(pattern, "sweeping") == 0) {
    found = run_sliding(factor, pattern[1] == 'w');
  } else {
    fputs("usage: perdure_guest_micro random|streaming|sliding|sweeping [FACTOR [SEED]]\n", stderr);
    return 2;
  }
  printf("found %ld\n", found);
  return 0;
}
