// SPDX-License-Identifier: BSD-3-Clause
// C++ exceptions and transactions: thrown and caught inside, thrown out of one (which commits), rethrown, and taken back
// with an attempt that fails or is cancelled at each stage of an exception's life.
#include <cstring>
#include <exception>
#include <new>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"
#include "tests/tm/typed_catch.h"

pstatic long durable = 0;
long shared = 0;
long destroyed = 0;

/// With members that the handler reads, and a destructor that reads them when the handler is done.
struct Trouble {
  long code;
  char text[24];
  long* tell;
  __attribute__((transaction_safe, noinline)) Trouble(long with_code, const char* with_text)
      : code(with_code), tell(&destroyed) {
    int i = 0;
    for (; with_text[i] != '\0' && i < 23; ++i) text[i] = with_text[i];
    text[i] = '\0';
  }
  __attribute__((transaction_safe, noinline)) Trouble(const Trouble& other)
      : code(other.code), tell(other.tell) {
    for (int i = 0; i < 24; ++i) text[i] = other.text[i];
  }
  __attribute__((transaction_safe, noinline)) ~Trouble() { *tell += 1; }
};

__attribute__((transaction_safe, noinline)) void fail(long code) {
  if (code != 0) throw code;
}
__attribute__((transaction_safe, noinline)) void fail_with_members(long code) {
  if (code != 0) throw Trouble(code, "member text");
}

int uncaught() { return std::uncaught_exceptions(); }

void caught_inside() {
  durable = 0;
  long caught = 0;
  __transaction_atomic {
    durable = 1;
    try {
      fail(7);
      durable = 2;
    } catch (long code) {
      caught = code;
      durable += 10;
    }
    try {
      fail(0);
    } catch (...) {
      durable = 99;
    }
  }
  EXPECT(caught == 7);
  EXPECT(durable == 11);
  EXPECT(uncaught() == 0);
}

void thrown_out_commits() {
  durable = 0;
  long caught = 0;
  try {
    __transaction_atomic {
      durable = 5;
      fail(3);
      durable = 6;
    }
  } catch (long code) {
    caught = code;
  }
  EXPECT(caught == 3);
  EXPECT(durable == 5);
  EXPECT(uncaught() == 0);
  // Nothing is open any more.
  __transaction_atomic { durable += 1; }
  EXPECT(durable == 6);
}

void thrown_out_of_inner_and_caught_in_outer() {
  durable = 0;
  __transaction_atomic {
    try {
      __transaction_atomic {
        durable = 1;
        fail(4);
      }
    } catch (long code) {
      durable += code;
    }
  }
  EXPECT(durable == 5);
}

void rethrown() {
  durable = 0;
  long caught = 0;
  try {
    __transaction_atomic {
      try {
        fail(8);
      } catch (long) {
        durable = 1;
        throw;
      }
    }
  } catch (long code) {
    caught = code;
  }
  EXPECT(caught == 8);
  EXPECT(durable == 1);
  EXPECT(uncaught() == 0);
}

void with_members_thrown_out() {
  durable = destroyed = 0;
  bool same = false;
  try {
    __transaction_atomic {
      durable = 1;
      fail_with_members(12);
    }
  } catch (const Trouble& trouble) {
    same = trouble.code == 12 && std::strcmp(trouble.text, "member text") == 0;
  }
  EXPECT(same);
  EXPECT(durable == 1);
  EXPECT(destroyed == 1);
}

void with_members_caught_inside() {
  durable = destroyed = 0;
  __transaction_atomic {
    try {
      fail_with_members(21);
    } catch (const Trouble& trouble) {
      durable = trouble.code + trouble.text[7];
    }
  }
  EXPECT(durable == 21 + 't');
  EXPECT(destroyed == 1);
  EXPECT(uncaught() == 0);
}

void with_members_caught_by_value() {
  durable = destroyed = 0;
  __transaction_atomic {
    try {
      fail_with_members(22);
    } catch (Trouble trouble) {
      durable = trouble.code + trouble.text[0];
    }
  }
  EXPECT(durable == 22 + 'm');
  EXPECT(destroyed == 2);
}

void cancelled_while_handled() {
  durable = 1;
  for (int i = 0; i < 100; ++i) {
    __transaction_atomic {
      durable = 2;
      try {
        fail(5);
      } catch (long code) {
        if (code == 5) __transaction_cancel;
        durable = 3;
      }
    }
    EXPECT(durable == 1);
    EXPECT(uncaught() == 0);
    EXPECT(std::current_exception() == nullptr);
  }
  // Handlers work afterwards as ever.
  caught_inside();
}

void inner_cancelled_while_handled_inside_a_handler() {
  durable = 1;
  long code_afterwards = 0;
  __transaction_atomic {
    try {
      fail(6);
    } catch (long outer_code) {
      __transaction_atomic {
        durable = 2;
        try {
          fail(7);
        } catch (long code) {
          if (code == 7) __transaction_cancel;
        }
      }
      code_afterwards = outer_code;
    }
  }
  EXPECT(durable == 1);
  EXPECT(code_afterwards == 6);
  EXPECT(uncaught() == 0);
}

void conflict_while_handled() {
  durable = 0;
  long conflicts = 0, codes = 0;
  rival_arm();
  __transaction_atomic {
    try {
      fail_with_members(9);
    } catch (const Trouble& trouble) {
      codes += trouble.code;
      conflicts += conflict_once();
      durable = 1;
    }
  }
  EXPECT(rival_struck() && conflicts == 0);
  EXPECT(codes == 9);
  EXPECT(durable == 1);
  EXPECT(uncaught() == 0);
  EXPECT(std::current_exception() == nullptr);
}

/// Destroyed while an exception passes.
struct Passenger {
  long* sum;
  __attribute__((transaction_safe, noinline)) ~Passenger() {
    *sum += conflict_once();
    shared += 1;
  }
};
__attribute__((transaction_safe, noinline)) void fail_with_passenger(long* sum, long code) {
  Passenger passenger{sum};
  fail(code);
}

void conflict_while_in_flight() {
  shared = 0;
  long conflicts = 0, caught = 0;
  rival_arm();
  __transaction_atomic {
    try {
      fail_with_passenger(&conflicts, 31);
    } catch (long code) {
      caught += code;
    }
  }
  EXPECT(rival_struck() && conflicts == 0);
  EXPECT(caught == 31);
  EXPECT(shared == 1);
  EXPECT(uncaught() == 0);
}

/// The commit of the transaction that an exception leaves meets a conflict: what was read is outdated by then.
void conflict_while_leaving() {
  shared = 0;
  durable = 0;
  long caught = 0, before = 0;
  rival_arm();
  try {
    __transaction_atomic {
      before = rival_line.word;
      durable = before + 1;
      rival_strike();
      fail(32);
    }
  } catch (long code) {
    caught = code;
  }
  EXPECT(rival_struck());
  EXPECT(caught == 32);
  EXPECT(durable == before + 1 && before == rival_line.word);
  EXPECT(uncaught() == 0);
  EXPECT(std::current_exception() == nullptr);
}

/// Allocated, and not thrown yet: the constructor of the object meets the conflict.
struct LateTrouble {
  long value;
  __attribute__((transaction_safe, noinline)) explicit LateTrouble(long with)
      : value(with + conflict_once()) {}
};
__attribute__((transaction_safe, noinline)) void fail_late(long code) {
  if (code != 0) throw LateTrouble(code);
}

void conflict_before_thrown() {
  durable = 0;
  rival_arm();
  __transaction_atomic {
    try {
      fail_late(33);
    } catch (const LateTrouble& trouble) {
      durable = trouble.value;
    }
  }
  EXPECT(rival_struck());
  EXPECT(durable == 33);
  EXPECT(uncaught() == 0);
}

/// An exception that is handled around the transaction stays what it was.
void conflict_and_cancel_inside_a_plain_handler() {
  try {
    throw 55;
  } catch (int code) {
    long conflicts = 0;
    rival_arm();
    __transaction_atomic {
      try {
        fail(1);
      } catch (long) {
        conflicts += conflict_once();
      }
    }
    EXPECT(rival_struck() && conflicts == 0);
    __transaction_atomic {
      try {
        fail(1);
      } catch (long inner) {
        if (inner == 1) __transaction_cancel;
      }
    }
    EXPECT(std::current_exception() != nullptr);
    EXPECT(code == 55);
    try {
      throw;
    } catch (int again) {
      EXPECT(again == 55);
    }
  }
  EXPECT(std::current_exception() == nullptr);
  EXPECT(uncaught() == 0);
}

int main() {
  caught_inside();
  thrown_out_commits();
  thrown_out_of_inner_and_caught_in_outer();
  rethrown();
  with_members_thrown_out();
  with_members_caught_inside();
  with_members_caught_by_value();
  cancelled_while_handled();
  inner_cancelled_while_handled_inside_a_handler();
  conflict_while_handled();
  conflict_while_in_flight();
  conflict_while_leaving();
  conflict_before_thrown();
  conflict_and_cancel_inside_a_plain_handler();
  return expect_status();
}
