// SPDX-License-Identifier: BSD-3-Clause
// new and delete inside transactions: objects with constructors and destructors, arrays, and what a constructor that throws
// leaves.
#include <malloc.h>

#include <new>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"

#define SAFE __attribute__((transaction_safe, noinline))

long constructed = 0;
long destroyed = 0;
long shared = 0;

struct Counted {
  long value;
  SAFE explicit Counted(long with) : value(with) { constructed += 1; }
  SAFE Counted() : value(7) { constructed += 1; }
  SAFE ~Counted() {
    destroyed += 1;
    value = -1;
  }
};

std::size_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void made_and_destroyed() {
  constructed = destroyed = 0;
  Counted* object = nullptr;
  Counted* array = nullptr;
  __transaction_atomic {
    object = new Counted(5);
    array = new Counted[3];
  }
  EXPECT(object->value == 5 && array[2].value == 7);
  EXPECT(constructed == 4 && destroyed == 0);
  __transaction_atomic {
    delete object;
    delete[] array;
  }
  EXPECT(destroyed == 4);
}

void taken_back() {
  std::size_t before = 0;
  for (int round = 0; round < 50; ++round) {
    if (round == 2) before = bytes_in_use();
    constructed = destroyed = 0;
    Counted* array = nullptr;
    long conflicts = 0;
    rival_arm();
    __transaction_atomic {
      array = new Counted[300];
      conflicts += conflict_once();
      if (round % 2 == 1) __transaction_cancel;
    }
    EXPECT(rival_struck() && conflicts == 0);
    if (round % 2 == 1) {
      EXPECT(array == nullptr && constructed == 0);
      continue;
    }
    EXPECT(constructed == 300);
    // Taken back: alive as before.
    __transaction_atomic {
      delete[] array;
      if (destroyed == 300) __transaction_cancel;
    }
    EXPECT(destroyed == 0 && array[299].value == 7);
    __transaction_atomic { delete[] array; }
    EXPECT(destroyed == 300);
  }
  EXPECT(bytes_in_use() <= before + 4096);
}

struct Failing {
  Counted first{1};
  Counted* second;
  SAFE explicit Failing(long code) : second(nullptr) {
    if (code != 0) throw code;
    second = new Counted(2);
  }
  SAFE ~Failing() { delete second; }
};

SAFE Failing* make(long code) { return new Failing(code); }

void a_constructor_throws() {
  std::size_t before = 0;
  for (int round = 0; round < 20; ++round) {
    if (round == 2) before = bytes_in_use();
    constructed = destroyed = 0;
    long caught = 0;
    Failing* made = nullptr;
    try {
      __transaction_atomic {
        shared = 1;
        made = make(9);
        shared = 2;
      }
    } catch (long code) {
      caught = code;
    }
    EXPECT(caught == 9 && made == nullptr && shared == 1);
    EXPECT(constructed == 1 && destroyed == 1);
    __transaction_atomic { made = make(0); }
    EXPECT(made->second->value == 2);
    __transaction_atomic { delete made; }
    EXPECT(constructed == 3 && destroyed == 3);
  }
  EXPECT(bytes_in_use() <= before + 4096);
}

SAFE void* much(std::size_t bytes) { return ::operator new(bytes); }

/// operator new fails inside the transaction, which handles that and goes on, or is left by the exception and commits.
void too_much() {
  volatile std::size_t most = ~std::size_t{0} / 4;
  const std::size_t bytes = most;
  void* memory = nullptr;
  long handled = 0;
  shared = 0;
  __transaction_atomic {
    try {
      shared = 1;
      memory = much(bytes);
      shared = 2;
    } catch (...) {
      handled += 1;
    }
    shared += 10;
  }
  EXPECT(handled == 1 && shared == 11 && memory == nullptr);
  bool out = false;
  try {
    __transaction_atomic {
      shared = 5;
      memory = much(bytes);
      shared = 6;
    }
  } catch (const std::bad_alloc&) {
    out = true;
  }
  EXPECT(out && shared == 5);
}

int main() {
  made_and_destroyed();
  taken_back();
  a_constructor_throws();
  too_much();
  return expect_status();
}
