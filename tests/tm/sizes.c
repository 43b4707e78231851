// SPDX-License-Identifier: BSD-3-Clause
// Every barrier of every type, on persistent and on volatile memory, with each history that the compiler tells apart: read,
// read after read, read after write, read for write, write, write after read, write after write, and saved locals. Then what
// does not fit a barrier: unaligned and packed fields, bit-fields, structs, and the memory functions.
#include <complex.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"

#define SAFE __attribute__((transaction_safe, noinline))

typedef long double LongDouble;
typedef float _Complex FloatComplex;
typedef double _Complex DoubleComplex;
typedef long double _Complex LongDoubleComplex;

// ---- scalars --------------------------------------------------------------------------------------

// For each type: a pstatic array, a static one, one of malloc and one of the caller's stack. `test_T(array)` works on elements
// [0, 4) of any of them; the values are exact in every type. The neighbours on both sides must stay.
#define SCALAR(T, make)                                                                      \
  pstatic T durable_##T[6] = {0};                                                            \
  static T static_##T[6];                                                                    \
  SAFE static T again_##T(const T* from) { return *from; }                                   \
  SAFE static void put_##T(T* to, T value) { *to = value; }                                  \
  static __attribute__((noinline)) void test_on_##T(T* at) {                                 \
    for (int i = 0; i < 6; ++i) at[i] = make(10 + i);                                        \
    T before, after_write, local = make(1);                                                  \
    __transaction_atomic {                                                                   \
      before = at[1];                          /* read */                                    \
      at[2] = before + make(1);                /* write */                                   \
      after_write = at[2];                     /* read after write */                        \
      at[1] = again_##T(&at[1]) + after_write; /* read after read, write after read */       \
      at[2] = at[2] + make(2);                 /* write after write */                       \
      at[3] += make(5);                        /* read for write */                          \
      local += at[3];                                                                        \
      put_##T(&at[4], again_##T(&at[3]) + make(1));                                          \
    }                                                                                        \
    EXPECT(before == make(11) && after_write == make(12));                                   \
    EXPECT(at[0] == make(10) && at[1] == make(23) && at[2] == make(14));                     \
    EXPECT(at[3] == make(18) && at[4] == make(19) && at[5] == make(15));                     \
    EXPECT(local == make(19));                                                               \
    long conflicts = 0;                                                                      \
    rival_arm();                                                                             \
    __transaction_atomic {                                                                   \
      at[1] = make(1);                                                                       \
      local += make(1);                                                                      \
      put_##T(&at[2], at[1] + local);                                                        \
      conflicts += conflict_once();                                                          \
      at[3] = again_##T(&at[2]);                                                             \
    }                                                                                        \
    EXPECT(rival_struck() && conflicts == 0);                                                \
    EXPECT(local == make(20) && at[1] == make(1) && at[2] == make(21) && at[3] == make(21)); \
    __transaction_atomic {                                                                   \
      at[1] = make(77);                                                                      \
      local = at[1];                                                                         \
      put_##T(&at[4], make(78));                                                             \
      if (at[4] == make(78)) __transaction_cancel;                                           \
    }                                                                                        \
    EXPECT(at[1] == make(1) && at[4] == make(19) && local == make(20));                      \
  }                                                                                          \
  static void test_##T(void) {                                                               \
    T stack[6];                                                                              \
    T* const heap = malloc(sizeof(stack));                                                   \
    test_on_##T(durable_##T);                                                                \
    test_on_##T(static_##T);                                                                 \
    test_on_##T(heap);                                                                       \
    test_on_##T(stack);                                                                      \
    free(heap);                                                                              \
    /* Unaligned: over the border of words, and of lines. */                                 \
    static char room[192] __attribute__((aligned(64)));                                      \
    pstatic static char durable_room[192] __attribute__((aligned(64))) = {0};                \
    for (int skip = 0; skip < 64; skip += 7) {                                               \
      test_unaligned_##T(room + skip);                                                       \
      test_unaligned_##T(durable_room + skip);                                               \
    }                                                                                        \
  }

#define UNALIGNED(T, make)                                             \
  static __attribute__((noinline)) void test_unaligned_##T(char* at) { \
    struct __attribute__((packed)) Packed {                            \
      char first;                                                      \
      T value;                                                         \
      char last;                                                       \
    }* const packed = (struct Packed*)at;                              \
    packed->first = 'f';                                               \
    packed->last = 'l';                                                \
    packed->value = make(3);                                           \
    T seen = make(0);                                                  \
    __transaction_atomic {                                             \
      packed->value = packed->value + make(4);                         \
      seen = packed->value;                                            \
    }                                                                  \
    EXPECT(seen == make(7) && packed->value == make(7));               \
    EXPECT(packed->first == 'f' && packed->last == 'l');               \
    __transaction_atomic {                                             \
      packed->value = make(9);                                         \
      packed->first = 'F';                                             \
      if (packed->first == 'F') __transaction_cancel;                  \
    }                                                                  \
    EXPECT(packed->value == make(7) && packed->first == 'f');          \
  }

#define OF_NUMBER(T) UNALIGNED(T, (T)) SCALAR(T, (T))
OF_NUMBER(uint8_t)
OF_NUMBER(uint16_t)
OF_NUMBER(uint32_t)
OF_NUMBER(uint64_t)
OF_NUMBER(float)
OF_NUMBER(double)
OF_NUMBER(LongDouble)
OF_NUMBER(FloatComplex)
OF_NUMBER(DoubleComplex)
OF_NUMBER(LongDoubleComplex)

// ---- vectors --------------------------------------------------------------------------------------

typedef struct {
  __m128 before, value, after;
} Vectors;
pstatic Vectors durable_vectors = {{0}, {0}, {0}};
static Vectors static_vectors;

SAFE static __m128 vector_of(const Vectors* from) { return from->value; }

static int same128(__m128 a, float b) {
  const __m128 c = _mm_set1_ps(b);
  return memcmp(&a, &c, sizeof(a)) == 0;
}

static __attribute__((noinline)) void vectors_on(Vectors* at) {
  at->before = at->after = _mm_set1_ps(1);
  at->value = _mm_set1_ps(2);
  __m128 seen = _mm_setzero_ps(), local = _mm_set1_ps(5);
  long conflicts = 0;
  rival_arm();
  __transaction_atomic {
    at->value = at->value + at->before;
    seen = vector_of(at);
    local = local + seen;
    conflicts += conflict_once();
  }
  EXPECT(rival_struck() && conflicts == 0);
  EXPECT(same128(seen, 3) && same128(at->value, 3) && same128(local, 8));
  EXPECT(same128(at->before, 1) && same128(at->after, 1));
}

__attribute__((target("avx"))) static int same256(__m256 a, float b) {
  const __m256 c = _mm256_set1_ps(b);
  return memcmp(&a, &c, sizeof(a)) == 0;
}

typedef struct {
  float before[8], value[8], after[8];
} Floats;
pstatic Floats durable_floats __attribute__((aligned(32))) = {{0}, {0}, {0}};
static Floats static_floats __attribute__((aligned(32)));

__attribute__((target("avx"), noinline)) static void wide_vectors_on(Floats* floats) {
  __m256* const before = (__m256*)floats->before;
  __m256* const value = (__m256*)floats->value;
  __m256* const after = (__m256*)floats->after;
  *before = *after = _mm256_set1_ps(1);
  *value = _mm256_set1_ps(2);
  __m256 seen = _mm256_setzero_ps(), local = _mm256_set1_ps(5);
  __transaction_atomic {
    *value = *value + *before;
    seen = *value;
    local = local + seen;
  }
  EXPECT(same256(seen, 3) && same256(*value, 3) && same256(local, 8));
  EXPECT(same256(*before, 1) && same256(*after, 1));
  __transaction_atomic {
    *value = *value + *after;
    local = *value;
    if (floats->value[3] == 4) __transaction_cancel;
  }
  EXPECT(same256(*value, 3) && same256(local, 8));
}

static void vectors(void) {
  Vectors stack;
  vectors_on(&durable_vectors);
  vectors_on(&static_vectors);
  vectors_on(&stack);
  if (!__builtin_cpu_supports("avx")) return;
  wide_vectors_on(&durable_floats);
  wide_vectors_on(&static_floats);
}

// ---- bit-fields, packed structs, parts of words ---------------------------------------------------

/// gcc 12 compiles an access to a bit-field in a transaction as one to its whole bytes: a load brings the neighbours along, and
/// a store zeroes them (with its own runtime as with this one). So inside transactions there are masks.
union Bits {
  struct {
    unsigned a : 3;
    unsigned b : 7;
    int c : 11;
  } field;
  uint32_t word;
};
enum { kA = 7, kB = 127 << 3 };
pstatic union Bits durable_bits = {{0, 0, 0}};
static union Bits static_bits;

static __attribute__((noinline)) void bits_on(union Bits* bits) {
  bits->field.a = 1;
  bits->field.b = 2;
  bits->field.c = -3;
  __transaction_atomic {
    bits->word = (bits->word & ~(uint32_t)kA) | 6;
    bits->word |= (uint32_t)kB;
    if ((bits->word & kB) != kB) __transaction_cancel;
  }
  EXPECT(bits->field.a == 6 && bits->field.b == 127 && bits->field.c == -3);
}

union Word {
  uint64_t whole;
  uint32_t halves[2];
  uint16_t quarters[4];
  uint8_t bytes[8];
};
pstatic union Word durable_word = {0};
static union Word static_word;

/// Written as one size and read as another, in one transaction.
static __attribute__((noinline)) void parts_on(union Word* word) {
  word->whole = 0x1122334455667788;
  uint64_t whole = 0;
  uint32_t half = 0;
  uint16_t quarter = 0;
  uint8_t byte = 0;
  __transaction_atomic {
    word->bytes[0] = 0xaa;
    word->bytes[7] = 0xbb;
    whole = word->whole;
    word->quarters[1] = 0xcccc;
    half = word->halves[0];
    word->halves[1] = 0xdddddddd;
    quarter = word->quarters[3];
    word->bytes[4] = 0x01;
    byte = word->bytes[5];
  }
  EXPECT(whole == 0xbb223344556677aa);
  EXPECT(half == 0xcccc77aa);
  EXPECT(quarter == 0xdddd);
  EXPECT(byte == 0xdd);
  EXPECT(word->whole == 0xdddddd01cccc77aa);
}

// ---- structs and the memory functions ---------------------------------------------------------------

struct Large {
  char text[700];
  long tail;
};
pstatic struct Large durable_large[2] = {{{0}, 0}, {{0}, 0}};
static struct Large static_large[2];

SAFE static void copy_struct(struct Large* to, const struct Large* from) { *to = *from; }

static __attribute__((noinline)) void structs_on(struct Large* large) {
  memset(large[0].text, 'a', sizeof(large[0].text));
  memset(large[1].text, 'b', sizeof(large[1].text));
  large[0].tail = 1;
  large[1].tail = 2;
  struct Large local;
  memset(&local, 'l', sizeof(local));
  __transaction_atomic {
    large[0].text[699] = 'A';
    large[1] = large[0];
    copy_struct(&local, &large[1]);
    local.tail = 7;
  }
  EXPECT(large[1].text[0] == 'a' && large[1].text[699] == 'A' && large[1].tail == 1);
  EXPECT(local.text[350] == 'a' && local.text[699] == 'A' && local.tail == 7);
  __transaction_atomic {
    local.tail = 9;
    large[0] = local;
    copy_struct(&large[1], &local);
    if (large[1].tail == 9) __transaction_cancel;
  }
  EXPECT(large[0].tail == 1 && large[1].tail == 1 && local.tail == 7);
}

enum { kRoom = 1500 };
pstatic char durable_memory[kRoom] = {0};
static char static_memory[kRoom];

SAFE static void move(char* to, const char* from, size_t size) { memmove(to, from, size); }
SAFE static void copy(char* to, const char* from, size_t size) { memcpy(to, from, size); }
SAFE static void fill(char* to, int value, size_t size) { memset(to, value, size); }

static void number(char* memory) {
  for (int i = 0; i < kRoom; ++i) memory[i] = (char)(i * 7);
}

/// The same operations on `memory` in a transaction, half of it over stores of the same transaction, and on a model plainly.
static __attribute__((noinline)) void memory_functions_on(char* memory) {
  static const int cases[][3] = {{0, 1, 9},      {1, 0, 9},      {3, 300, 555}, {300, 3, 555},
                                 {11, 12, 1000}, {12, 11, 1000}, {64, 0, 64},   {700, 13, 256},
                                 {5, 5, 100},    {0, 700, 700}};
  char model[kRoom], local[kRoom];
  for (size_t one = 0; one < sizeof(cases) / sizeof(cases[0]); ++one) {
    const int to = cases[one][0], from = cases[one][1];
    const size_t size = (size_t)cases[one][2];
    number(memory);
    number(model);
    memset(local, 'z', sizeof(local));
    __transaction_atomic {
      for (int i = 2; i < kRoom; i += 100) memory[i] = 'w';
      move(memory + to, memory + from, size);
      fill(memory + from, (int)one, size / 2 + 1);
      copy(local + to, memory + to, size);
      copy(memory + kRoom - 33, local + to, 33 < size ? 33 : size);
    }
    for (int i = 2; i < kRoom; i += 100) model[i] = 'w';
    memmove(model + to, model + from, size);
    memset(model + from, (int)one, size / 2 + 1);
    EXPECT(memcmp(local + to, model + to, size) == 0);
    memcpy(model + kRoom - 33, local + to, 33 < size ? 33 : size);
    EXPECT(memcmp(memory, model, kRoom) == 0);
    EXPECT(to == 0 || local[to - 1] == 'z');
    EXPECT(local[to + (int)size] == 'z');

    __transaction_atomic {
      fill(memory, 'c', kRoom);
      move(memory + to, memory + from, size);
      if (memory[0] == 'c') __transaction_cancel;
    }
    EXPECT(memcmp(memory, model, kRoom) == 0);
  }
}

static void memory_functions(void) {
  char* const heap = malloc(kRoom);
  char stack[kRoom];
  memory_functions_on(durable_memory);
  memory_functions_on(static_memory);
  memory_functions_on(heap);
  memory_functions_on(stack);
  free(heap);
  // In frames of the transaction's own, and empty.
  __transaction_atomic {
    fill(durable_memory, 'x', 0);
    move(durable_memory, durable_memory + 8, 0);
  }
}

// ---- volatile variables, and what was written in the same transaction ---------------------------------

// gcc refuses an access to a `volatile` object inside a transaction_safe one; a global that others may change is an ordinary
// one, and is read anew in each transaction.
static long global = 0;

static void globals_are_read_anew(void) {
  long seen = 0;
  for (long i = 0; i < 100; ++i) {
    __transaction_atomic { global += 1; }
    EXPECT(global == i + 1);
    global += 1;
    __transaction_atomic { seen = global; }
    EXPECT(seen == i + 2);
    global -= 1;
  }
}

int main(void) {
  test_uint8_t();
  test_uint16_t();
  test_uint32_t();
  test_uint64_t();
  test_float();
  test_double();
  test_LongDouble();
  test_FloatComplex();
  test_DoubleComplex();
  test_LongDoubleComplex();
  vectors();
  bits_on(&durable_bits);
  bits_on(&static_bits);
  parts_on(&durable_word);
  parts_on(&static_word);
  structs_on(durable_large);
  structs_on(static_large);
  memory_functions();
  globals_are_read_anew();
  return expect_status();
}
