// SPDX-License-Identifier: BSD-3-Clause
// Transactions that cannot be taken back (__transaction_relaxed with I/O): refused, because such a transaction cannot be
// durable; allowed by PERDURE_IRREVOCABLE=volatile while they store nothing persistent.
//
// Without an argument: starts itself once per case, each with persistent memory of its own, and again to see what is there.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"

pstatic long durable = 1;
static long shared = 0;

// ---- the cases: each runs in a process of its own ------------------------------------------------

// Where gcc sees that a transaction may become irrevocable it makes it so at the start, and compiles it without barriers: what
// it stores nobody sees then. So it must not see it: put() does what the clone of a transaction_callable function does that
// was compiled elsewhere.
extern void _ITM_changeTransactionMode(int mode);
__attribute__((transaction_pure, noinline)) static void put(void) {
  _ITM_changeTransactionMode(0);
  printf("printed: %ld\n", shared);
}

static void prints(void) {
  __transaction_relaxed { printf("printed\n"); }
}
static void calls_a_function_without_a_clone(void) {
  int (*volatile function)(const char*) = puts;
  __transaction_relaxed { function("printed"); }
}
static void calls_after_a_persistent_store(void) {
  __transaction_relaxed {
    durable = 2;
    put();
  }
}
static void stores_after_the_call(void) {
  __transaction_relaxed {
    put();
    durable = 3;
  }
}
static void allocates_after_the_call(void) {
  __transaction_relaxed {
    put();
    void persistent* memory = NULL;
    pmalloc(10, &memory);
  }
}
static void calls_only_on_another_path(void) {
  __transaction_relaxed {
    durable += 1;
    if (durable == 100) put();
  }
}
/// What it stored before is visible to the code that it calls.
static void stores_volatile_around_the_call(void) {
  __transaction_relaxed {
    shared = 20;
    put();
    shared += 2;
  }
  if (shared != 22) exit(9);
  // Others are durable as ever afterwards.
  __transaction_atomic { durable = 5; }
}

static void* counts(void* turns) {
  for (long i = 0; i < *(long*)turns; ++i) {
    __transaction_atomic { shared += 1; }
  }
  return NULL;
}
/// Alone while it cannot be taken back: others wait.
static void runs_alone(void) {
  long turns = 2000;
  pthread_t other;
  if (pthread_create(&other, NULL, counts, &turns) != 0) exit(9);
  for (int i = 0; i < 200; ++i) {
    __transaction_relaxed {
      const long before = shared;
      printf(".");
      shared = before + 1;
    }
  }
  pthread_join(other, NULL);
  if (shared != 2200) exit(9);
}
/// Nothing in it has to be irrevocable: durable as any other.
static void relaxed_only_by_name(void) {
  __transaction_relaxed {
    durable += 10;
    shared += 1;
  }
}

enum { kRefused = 3 };
static const struct Case {
  const char* name;
  void (*run)(void);
  int status;
  int status_if_allowed;
  long durable;  // afterwards, where it is not refused
} cases[] = {
    {"prints", prints, kRefused, 0, 1},
    {"calls_a_function_without_a_clone", calls_a_function_without_a_clone, kRefused, 0, 1},
    {"calls_after_a_persistent_store", calls_after_a_persistent_store, kRefused, kRefused, 1},
    {"stores_after_the_call", stores_after_the_call, kRefused, kRefused, 1},
    {"allocates_after_the_call", allocates_after_the_call, kRefused, kRefused, 1},
    {"calls_only_on_another_path", calls_only_on_another_path, 0, 0, 2},
    {"stores_volatile_around_the_call", stores_volatile_around_the_call, kRefused, 0, 5},
    {"runs_alone", runs_alone, kRefused, 0, 1},
    {"relaxed_only_by_name", relaxed_only_by_name, 0, 0, 11},
};
enum { kCases = sizeof(cases) / sizeof(cases[0]) };

// ---- the judge -----------------------------------------------------------------------------------

/// Runs this program with `argument`; what it writes comes back in `said`.
static int run_self(const char* argument, char* said, size_t room) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execl("/proc/self/exe", "irrevocable", argument, NULL);
    _exit(127);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t got;
       length + 1 < room && (got = read(ends[0], said + length, room - 1 - length)) > 0;)
    length += (size_t)got;
  said[length] = '\0';
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

static void judge(const struct Case* one, int allowed) {
  char directory[128], said[2048];
  snprintf(directory, sizeof(directory), "%s-%d", one->name, allowed);
  EXPECT(mkdir(directory, 0700) == 0);
  setenv("PERDURE_REGION_PATH", directory, 1);
  if (allowed) {
    setenv("PERDURE_IRREVOCABLE", "volatile", 1);
  } else {
    unsetenv("PERDURE_IRREVOCABLE");
  }
  const int expected = allowed ? one->status_if_allowed : one->status;
  const int status = run_self(one->name, said, sizeof(said));
  if (status != expected) {
    fprintf(stderr, "%s, %s: status %d, not %d; it said: %s\n", one->name,
            allowed ? "allowed" : "not allowed", status, expected, said);
  }
  EXPECT(status == expected);
  if (expected == kRefused) {
    EXPECT(strncmp(said, "perdure: ", 9) == 0 || strstr(said, "\nperdure: ") != NULL);
    EXPECT(strstr(said, "irrevocable") != NULL || strstr(said, "taken back") != NULL);
  }
  // Refused before it printed, unless it stored only afterwards.
  if (!allowed && expected == kRefused) EXPECT(strstr(said, "printed") == NULL);

  if (strcmp(one->name, "stores_volatile_around_the_call") == 0 && expected == 0)
    EXPECT(strstr(said, "printed: 20\n") != NULL);

  const int seen = run_self("durable", said, sizeof(said));
  EXPECT(seen == 0);
  EXPECT(atol(said) == (expected == kRefused ? 1 : one->durable));
}

int main(int argc, char** argv) {
  if (argc == 1) {
    for (int i = 0; i < kCases; ++i) {
      judge(&cases[i], 0);
      judge(&cases[i], 1);
    }
    return expect_status();
  }
  if (strcmp(argv[1], "durable") == 0) {
    printf("%ld\n", durable);
    return 0;
  }
  for (int i = 0; i < kCases; ++i) {
    if (strcmp(argv[1], cases[i].name) != 0) continue;
    cases[i].run();
    return 0;
  }
  return 2;
}
