// SPDX-License-Identifier: BSD-3-Clause
// Control flow through transactions: nesting, cancel, every way out of the block, and what local variables hold after
// an attempt that failed.
#include <alloca.h>
#include <string.h>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"

#define SAFE __attribute__((transaction_safe, noinline))

pstatic long durable = 0;
static long shared = 0;

SAFE static void add(long* to, long amount) { *to += amount; }

static void nesting_is_flat(void) {
  durable = shared = 0;
  __transaction_atomic {
    durable = 1;
    __transaction_atomic {
      add(&durable, 1);
      __transaction_atomic { shared = durable; }
    }
    durable += shared;
  }
  EXPECT(durable == 4);
  EXPECT(shared == 2);
}

static void cancel_takes_everything_back(void) {
  durable = shared = 7;
  long local = 7;
  int after = 0;
  __transaction_atomic {
    durable = 8;
    shared = 8;
    local = 8;
    add(&local, 1);
    if (shared == 8) __transaction_cancel;
    after = 1;
  }
  EXPECT(durable == 7);
  EXPECT(shared == 7);
  EXPECT(local == 7);
  EXPECT(after == 0);
}

SAFE static void inner_that_cancels(long* values, int cancel) {
  __transaction_atomic {
    values[1] = 20;
    durable = 20;
    shared = 20;
    if (cancel) __transaction_cancel;
  }
}

static void inner_cancel_takes_only_the_inner_back(void) {
  long values[2] = {1, 2};
  durable = shared = 1;
  __transaction_atomic {
    values[0] = 10;
    values[1] = 11;
    durable = 10;
    shared = 10;
    inner_that_cancels(values, 1);
    add(&shared, 1);
  }
  EXPECT(values[0] == 10);
  EXPECT(values[1] == 11);
  EXPECT(durable == 10);
  EXPECT(shared == 11);
  __transaction_atomic { inner_that_cancels(values, 0); }
  EXPECT(values[1] == 20 && durable == 20 && shared == 20);

  // In one function, three deep, and the middle one cancelled after the innermost has committed.
  durable = 0;
  int reached = 0;
  __transaction_atomic {
    durable += 1;
    __transaction_atomic {
      durable += 10;
      __transaction_atomic {
        durable += 100;
        if (shared != 20) __transaction_cancel;
      }
      if (durable == 111) __transaction_cancel;
      reached = 1;
    }
    durable += 1000;
  }
  EXPECT(durable == 1001);
  EXPECT(reached == 0);
}

__attribute__((transaction_may_cancel_outer, noinline)) static void cancel_all(void) {
  shared = 99;
  __transaction_atomic {
    durable = 99;
    if (shared == 99) __transaction_cancel [[outer]];
  }
}

static void outer_cancel_takes_everything_back(void) {
  durable = shared = 5;
  __transaction_atomic [[outer]] {
    durable = 6;
    cancel_all();
    durable = 7;
  }
  EXPECT(durable == 5);
  EXPECT(shared == 5);
}

/// A frame that is gone when the conflict comes: an inner transaction has stored into it through a pointer, which may be
/// cancelled, so the old bytes were kept.
SAFE static long in_a_deep_frame(int depth, long seed) {
  long frame[16];
  for (int i = 0; i < 16; ++i) frame[i] = seed + i;
  if (depth > 0) return in_a_deep_frame(depth - 1, seed + frame[depth % 16]);
  __transaction_atomic {
    for (int i = 0; i < 16; ++i) add(&frame[i], 1);
    if (seed < 0) __transaction_cancel;
  }
  long sum = 0;
  for (int i = 0; i < 16; ++i) sum += frame[i];
  return sum;
}

static void dead_frames_stay_dead(void) {
  for (int depth = 0; depth < 12; ++depth) {
    long sum = 0, conflicts = 0;
    rival_arm();
    __transaction_atomic {
      sum = in_a_deep_frame(depth, 1);
      conflicts += conflict_once();
      shared = sum;
    }
    EXPECT(rival_struck());
    EXPECT(conflicts == 0);
    EXPECT(shared == sum && sum > 0);
  }
}

SAFE static long cancels_in_a_deep_frame(int depth) {
  long frame[4] = {1, 2, 3, 4};
  if (depth > 0) return cancels_in_a_deep_frame(depth - 1) + frame[depth % 4] * 0;
  __transaction_atomic {
    add(&frame[0], 100);
    add(&frame[3], 100);
    if (frame[3] == 104) __transaction_cancel;
  }
  return frame[0] + frame[1] + frame[2] + frame[3];
}

static void an_inner_cancel_restores_the_frames_of_the_outer(void) {
  long sum = 0;
  __transaction_atomic { sum = cancels_in_a_deep_frame(3); }
  EXPECT(sum == 10);
}

SAFE static long leaves_by_return(long value) {
  __transaction_atomic {
    shared = value;
    if (value > 3) return shared * 2;
  }
  return -1;
}

static long returns_from_main_level(long value) {
  __transaction_atomic {
    durable = value;
    return value + 1;
  }
}

static void every_way_out_commits(void) {
  EXPECT(leaves_by_return(4) == 8 && shared == 4);
  EXPECT(leaves_by_return(2) == -1 && shared == 2);
  EXPECT(returns_from_main_level(41) == 42 && durable == 41);

  durable = 0;
  int rounds = 0;
  for (int i = 0; i < 10; ++i) {
    ++rounds;
    __transaction_atomic {
      if (i == 2) continue;
      durable += 1;
      if (i == 6) break;
    }
  }
  EXPECT(rounds == 7);
  EXPECT(durable == 6);

  __transaction_atomic {
    shared = 77;
    if (durable == 6) goto out;
    shared = 78;
  }
out:
  EXPECT(shared == 77);
  // Each of these was committed, so nothing is open.
  __transaction_atomic { shared = 1; }
  EXPECT(shared == 1);
}

SAFE static long sum_of(const long* values, int count) {
  long sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i];
  return sum;
}

static void expressions(void) {
  shared = 20;
  durable = 22;
  const long sum = __transaction_atomic(shared + durable);
  EXPECT(sum == 42);
  // gcc 12 crashes (gimplify_expr) on ?: directly inside a transaction expression.
  const long product = __transaction_atomic(shared * sum_of(&durable, 1));
  EXPECT(product == 440);
}

static void many(void) {
  durable = 0;
  for (int i = 0; i < 20000; ++i) __transaction_atomic {
      durable += 1;
    }
  EXPECT(durable == 20000);
}

SAFE static long fibonacci(int n) {
  if (n < 2) {
    shared += 1;
    return n;
  }
  long result;
  __transaction_atomic { result = fibonacci(n - 1) + fibonacci(n - 2); }
  return result;
}

static void recursion(void) {
  shared = 0;
  const long result = fibonacci(15);
  EXPECT(result == 610);
  EXPECT(shared == 987);
}

/// gcc allows alloca() and arrays of variable length around a transaction, not inside.
static __attribute__((noinline)) void locals_inside(int count) {
  long sum = 0, conflicts = 0;
  long* const more = alloca(sizeof(long) * 4);
  long variable[count];
  for (int i = 0; i < count; ++i) variable[i] = i;
  rival_arm();
  __transaction_atomic {
    long values[8];
    for (int i = 0; i < 8; ++i) values[i] = i;
    for (int i = 0; i < 4; ++i) more[i] = 100 * i;
    add(&values[3], 1000);
    add(&more[1], 1);
    add(&variable[count - 1], 7);
    variable[0] += 5;
    conflicts += conflict_once();
    sum = sum_of(values, 8) + sum_of(more, 4);
    shared = sum;
  }
  EXPECT(rival_struck());
  EXPECT(conflicts == 0);
  EXPECT(sum == 28 + 1000 + 600 + 1);
  EXPECT(sum_of(variable, count) == 10 * 9 / 2 + 5 + 7);
  EXPECT(shared == sum);
}

/// More live values than a function has registers, changed inside and used afterwards.
static __attribute__((noinline)) void registers_after_retry(long a, long b, long c, long d) {
  long e = a + b, f = b + c, g = c + d, h = d + a, conflicts = 0;
  double x = 1.5, y = 2.5;
  int attempts_seen = 0;
  rival_arm();
  __transaction_atomic {
    a += 1;
    b += a;
    e = e * 3;
    f -= e;
    g ^= 0x55;
    x = x * 2;
    add(&h, a);
    attempts_seen += 1;  // rolled back with the attempt
    shared = a + b + e;
    conflicts += conflict_once();
    c += 1;
    d += c;
    y += x;
  }
  EXPECT(rival_struck());
  EXPECT(conflicts == 0);
  EXPECT(attempts_seen == 1);
  EXPECT(a == 2 && b == 4 && c == 4 && d == 8);
  EXPECT(e == 9 && f == -4 && g == (7 ^ 0x55) && h == 7);
  EXPECT(x == 3.0 && y == 5.5);
  EXPECT(shared == 15);
}

/// The caller's registers are the callee's to keep, whatever happens in between.
static void callee_saved_registers(void) {
  register long r0 = 11, r1 = 22, r2 = 33, r3 = 44, r4 = 55, r5 = 66;
  for (int i = 0; i < 20; ++i) {
    registers_after_retry(1, 2, 3, 4);
    r0 += 1;
    r1 += 2;
    r2 += 3;
    r3 += 4;
    r4 += 5;
    r5 += 6;
  }
  EXPECT(r0 == 31 && r1 == 62 && r2 == 93 && r3 == 124 && r4 == 155 && r5 == 186);
}

static void locals_through_pointers_after_retry(void) {
  long kept[4] = {1, 2, 3, 4}, conflicts = 0;
  struct {
    char tag;
    long value;
  } record = {'a', 1};
  rival_arm();
  __transaction_atomic {
    kept[0] += 10;
    add(&kept[1], 10);
    record.tag = 'b';
    add(&record.value, 1);
    conflicts += conflict_once();
    kept[2] = kept[1] + kept[0];
  }
  EXPECT(rival_struck() && conflicts == 0);
  EXPECT(kept[0] == 11 && kept[1] == 12 && kept[2] == 23 && kept[3] == 4);
  EXPECT(record.tag == 'b' && record.value == 2);
}

int main(void) {
  nesting_is_flat();
  cancel_takes_everything_back();
  inner_cancel_takes_only_the_inner_back();
  outer_cancel_takes_everything_back();
  an_inner_cancel_restores_the_frames_of_the_outer();
  dead_frames_stay_dead();
  every_way_out_commits();
  expressions();
  many();
  recursion();
  locals_inside(10);
  callee_saved_registers();
  locals_through_pointers_after_retry();
  return expect_status();
}
