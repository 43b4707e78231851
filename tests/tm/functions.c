// SPDX-License-Identifier: BSD-3-Clause
// Functions that C transactions call: through pointers, in tables, by their clones; transaction_pure ones; inline ones; and
// one that calls itself through a pointer.
#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"

#define SAFE __attribute__((transaction_safe, noinline))

typedef long Operation(long*, long) __attribute__((transaction_safe));

pstatic long durable = 0;
static long plain_calls = 0;

SAFE static long add(long* to, long amount) { return *to += amount; }
SAFE static long multiply(long* to, long factor) { return *to *= factor; }
static inline __attribute__((transaction_safe)) long square(long value) { return value * value; }
__attribute__((transaction_pure, noinline)) static void count_a_call(void) { ++plain_calls; }

struct Machine {
  Operation* operation;
  long operand;
};

SAFE static long run(const struct Machine* program, int steps, long* on) {
  long last = 0;
  for (int i = 0; i < steps; ++i) last = program[i].operation(on, program[i].operand);
  return last;
}

static void tables_of_functions(void) {
  const struct Machine program[] = {{add, 2}, {multiply, 10}, {add, 1}, {multiply, 2}};
  durable = 1;
  long last = 0;
  __transaction_atomic { last = run(program, 4, &durable) + square(3); }
  EXPECT(durable == 62);
  EXPECT(last == 71);
  __transaction_atomic {
    run(program, 4, &durable);
    if (durable != 0) __transaction_cancel;
  }
  EXPECT(durable == 62);
}

/// The function itself, not its clone, is what a program outside transactions calls.
static void the_same_pointer_outside(void) {
  Operation* const operation = durable == 62 ? add : multiply;
  long local = 1;
  EXPECT(operation(&local, 4) == 5);
  long inside = 0;
  __transaction_atomic { inside = operation(&local, 5); }
  EXPECT(inside == 10 && local == 10);
}

struct Recursion {
  Operation* self;
};
static struct Recursion recursion;

SAFE static long count_down(long* total, long left) {
  *total += left;
  return left == 0 ? *total : recursion.self(total, left - 1);
}

static void recursion_through_a_pointer(void) {
  long total = 0, result = 0;
  recursion.self = count_down;
  __transaction_atomic { result = count_down(&total, 100); }
  EXPECT(result == 5050 && total == 5050);
}

static void pure_functions_run_as_they_are(void) {
  plain_calls = 0;
  long conflicts = 0;
  rival_arm();
  __transaction_atomic {
    count_a_call();
    conflicts += conflict_once();
    durable = 5;
  }
  EXPECT(rival_struck() && conflicts == 0);
  EXPECT(plain_calls == 2);
  EXPECT(durable == 5);
}

int main(void) {
  tables_of_functions();
  the_same_pointer_outside();
  recursion_through_a_pointer();
  pure_functions_run_as_they_are();
  return expect_status();
}
