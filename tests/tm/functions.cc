// SPDX-License-Identifier: BSD-3-Clause
// Functions that C++ transactions call: clones, inline functions, templates, lambdas, virtual functions, pointers to
// functions and members, and transaction_pure.
#include <new>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"

#define SAFE __attribute__((transaction_safe, noinline))

pstatic long durable = 0;
long shared = 0;

SAFE void add(long* to, long amount) { *to += amount; }
SAFE void subtract(long* to, long amount) { *to -= amount; }
inline __attribute__((transaction_safe)) long doubled(long value) { return value * 2; }

typedef void Step(long*, long) __attribute__((transaction_safe));

SAFE void run_step(Step* step, long* to, long amount) { step(to, amount); }

void through_pointers() {
  durable = 10;
  Step* const steps[] = {add, subtract, add};
  __transaction_atomic {
    for (int i = 0; i < 3; ++i) run_step(steps[i], &durable, doubled(i + 1));
  }
  EXPECT(durable == 10 + 2 - 4 + 6);
}

struct Shape {
  long scale = 1;
  __attribute__((transaction_safe)) virtual long area() const { return 0; }
  __attribute__((transaction_safe)) virtual void grow() { scale += 1; }
  __attribute__((transaction_safe)) virtual ~Shape() {}
};
struct Square : Shape {
  long side = 3;
  __attribute__((transaction_safe)) long area() const override { return side * side * scale; }
  __attribute__((transaction_safe)) void grow() override {
    Shape::grow();
    side += 1;
  }
  __attribute__((transaction_safe)) ~Square() override { shared += 1; }
};

SAFE long grown_area(Shape* shape) {
  shape->grow();
  return shape->area();
}

void virtual_functions() {
  Square square;
  Shape plain;
  long areas = 0;
  __transaction_atomic { areas = grown_area(&square) * 100 + grown_area(&plain); }
  EXPECT(areas == 4 * 4 * 2 * 100);
  EXPECT(square.side == 4 && square.scale == 2 && plain.scale == 2);

  shared = 0;
  Shape* made = nullptr;
  __transaction_atomic { made = new Square; }
  EXPECT(made->area() == 9);
  __transaction_atomic { delete made; }
  EXPECT(shared == 1);
}

template <class T>
struct Pair {
  T first;
  T second;
  __attribute__((transaction_safe)) T sum() const { return first + second; }
  __attribute__((transaction_safe)) void swap() {
    const T old = first;
    first = second;
    second = old;
  }
};

template <class T, int kCount>
__attribute__((transaction_safe)) T sum_of(const T (&values)[kCount]) {
  T sum{};
  for (const T& value : values) sum += value;
  return sum;
}

pstatic Pair<long> long_pair = {3, 4};
Pair<double> double_pair = {0.5, 2.0};
short shorts[5] = {1, 2, 3, 4, 5};

void templates() {
  long sum = 0;
  double real_sum = 0;
  __transaction_atomic {
    long_pair.swap();
    double_pair.swap();
    sum = long_pair.sum() + sum_of(shorts);
    real_sum = double_pair.sum() + double_pair.first;
  }
  EXPECT(sum == 7 + 15);
  EXPECT(real_sum == 4.5);
  EXPECT(long_pair.first == 4 && long_pair.second == 3);
}

void lambdas() {
  shared = 5;
  long result = 0;
  __transaction_atomic {
    // What a lambda captures, and its call, are part of the transaction: its body is inlined or cloned.
    auto add_to_shared = [&](long amount) __attribute__((transaction_safe)) {
      shared += amount;
      return shared;
    };
    result = add_to_shared(3) + add_to_shared(4);
  }
  EXPECT(shared == 12);
  EXPECT(result == 8 + 12);
}

SAFE long member_by_pointer(Pair<long>* pair, long Pair<long>::* which) { return pair->*which; }

void member_pointers() {
  long value = 0;
  __transaction_atomic { value = member_by_pointer(&long_pair, &Pair<long>::second); }
  EXPECT(value == 3);
}

int pure_calls = 0;
__attribute__((transaction_pure, noinline)) void note_a_call() { ++pure_calls; }

void pure_functions_are_not_taken_back() {
  pure_calls = 0;
  shared = 1;
  long conflicts = 0;
  rival_arm();
  __transaction_atomic {
    note_a_call();
    shared += 1;
    conflicts += conflict_once();
  }
  EXPECT(rival_struck() && conflicts == 0);
  EXPECT(pure_calls == 2);
  EXPECT(shared == 2);
}

int main() {
  through_pointers();
  virtual_functions();
  templates();
  lambdas();
  member_pointers();
  pure_functions_are_not_taken_back();
  return expect_status();
}
