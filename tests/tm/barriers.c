// SPDX-License-Identifier: BSD-3-Clause
// Every function of the ABI that loads or stores, by its name: the compiler calls some of them in rare situations only. Called
// from pure functions, which it leaves alone.
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"

#define PURE __attribute__((transaction_pure, noinline))

typedef long double LongDouble;
typedef float _Complex FloatComplex;
typedef double _Complex DoubleComplex;
typedef long double _Complex LongDoubleComplex;

static int wrong = 0;
static void check(int holds) { wrong += !holds; }

static int equal(const void* a, const void* b, size_t size) { return memcmp(a, b, size) == 0; }

// ---- one value ----------------------------------------------------------------------------------

/// Each write, each read after it, and the bytes on both sides; `bytes`: those of T that count.
#define TYPE(name, T, bytes)                                                                     \
  extern T _ITM_R##name(const T*);                                                               \
  extern T _ITM_RaR##name(const T*);                                                             \
  extern T _ITM_RaW##name(const T*);                                                             \
  extern T _ITM_RfW##name(const T*);                                                             \
  extern void _ITM_W##name(T*, T);                                                               \
  extern void _ITM_WaR##name(T*, T);                                                             \
  extern void _ITM_WaW##name(T*, T);                                                             \
  extern void _ITM_L##name(const T*);                                                            \
  PURE static void all_of_##name(T* at) {                                                        \
    T one, two, three, seen;                                                                     \
    memset(&one, 0, sizeof(T));                                                                  \
    memset(&two, 0, sizeof(T));                                                                  \
    memset(&three, 0, sizeof(T));                                                                \
    memset(&one, 0x11, bytes);                                                                   \
    memset(&two, 0x22, bytes);                                                                   \
    memset(&three, 0x33, bytes);                                                                 \
    seen = _ITM_R##name(at);                                                                     \
    check(equal(&seen, at, bytes));                                                              \
    _ITM_W##name(at, one);                                                                       \
    seen = _ITM_RaW##name(at);                                                                   \
    check(equal(&seen, &one, bytes));                                                            \
    seen = _ITM_RfW##name(at);                                                                   \
    check(equal(&seen, &one, bytes));                                                            \
    _ITM_WaR##name(at, two);                                                                     \
    seen = _ITM_RaR##name(at);                                                                   \
    check(equal(&seen, &two, bytes));                                                            \
    _ITM_WaW##name(at, three);                                                                   \
    seen = _ITM_R##name(at);                                                                     \
    check(equal(&seen, &three, bytes));                                                          \
  }                                                                                              \
  PURE static void log_of_##name(T* at) {                                                        \
    _ITM_L##name(at);                                                                            \
    memset(at, 0x77, bytes);                                                                     \
  }                                                                                              \
  static void test_##name(void) {                                                                \
    pstatic static struct {                                                                      \
      T before, value, after;                                                                    \
    } durable = {0};                                                                             \
    static struct {                                                                              \
      T before, value, after;                                                                    \
    } ordinary, saved;                                                                           \
    T expected;                                                                                  \
    memset(&durable, 0x44, sizeof(durable));                                                     \
    memset(&ordinary, 0x44, sizeof(ordinary));                                                   \
    memset(&saved, 0x44, sizeof(saved));                                                         \
    memset(&expected, 0x33, sizeof(expected));                                                   \
    __transaction_atomic {                                                                       \
      in_a_transaction();                                                                        \
      all_of_##name(&durable.value);                                                             \
      all_of_##name(&ordinary.value);                                                            \
      log_of_##name(&saved.value);                                                               \
    }                                                                                            \
    EXPECT(wrong == 0);                                                                          \
    EXPECT(equal(&durable.value, &expected, bytes));                                             \
    EXPECT(equal(&ordinary.value, &expected, bytes));                                            \
    EXPECT(((char*)&durable.before)[sizeof(T) - 1] == 0x44 && *(char*)&durable.after == 0x44);   \
    EXPECT(((char*)&ordinary.before)[sizeof(T) - 1] == 0x44 && *(char*)&ordinary.after == 0x44); \
    memset(&expected, 0x77, sizeof(expected));                                                   \
    EXPECT(equal(&saved.value, &expected, bytes));                                               \
    memset(&saved, 0x55, sizeof(saved));                                                         \
    memset(&expected, 0x55, sizeof(expected));                                                   \
    __transaction_atomic {                                                                       \
      log_of_##name(&saved.value);                                                               \
      if (in_a_transaction()) __transaction_cancel;                                              \
    }                                                                                            \
    EXPECT(equal(&saved.value, &expected, sizeof(T)));                                           \
  }

/// Not for gcc to see through: it would leave out a transaction that has pure calls only.
static long transactions = 0;
__attribute__((transaction_safe, noinline)) static int in_a_transaction(void) {
  transactions += 1;
  return transactions > 0;
}

TYPE(U1, uint8_t, 1)
TYPE(U2, uint16_t, 2)
TYPE(U4, uint32_t, 4)
TYPE(U8, uint64_t, 8)
TYPE(F, float, 4)
TYPE(D, double, 8)
TYPE(E, LongDouble, 10)
TYPE(CF, FloatComplex, 8)
TYPE(CD, DoubleComplex, 16)
TYPE(CE, LongDoubleComplex, 10)
TYPE(M64, __m64, 8)
TYPE(M128, __m128, 16)
// With AVX only; the functions are not to be called without.
#pragma GCC push_options
#pragma GCC target("avx")
TYPE(M256, __m256, 32)
#pragma GCC pop_options

// ---- many bytes ---------------------------------------------------------------------------------

typedef void Copy(void*, const void*, size_t);
typedef void Set(void*, int, size_t);

#define COPY(name)               \
  extern Copy _ITM_memcpy##name; \
  extern Copy _ITM_memmove##name;
#define COPIES(with)                                                                    \
  with(RnWt) with(RnWtaR) with(RnWtaW) with(RtWn) with(RtWt) with(RtWtaR) with(RtWtaW)  \
      with(RtaRWn) with(RtaRWt) with(RtaRWtaR) with(RtaRWtaW) with(RtaWWn) with(RtaWWt) \
          with(RtaWWtaR) with(RtaWWtaW)
COPIES(COPY)
extern Set _ITM_memsetW, _ITM_memsetWaR, _ITM_memsetWaW;
extern void _ITM_LB(const void*, size_t);

#define ENTRY(name) {#name, _ITM_memcpy##name, 0}, {#name, _ITM_memmove##name, 1},
static const struct {
  const char* name;
  Copy* copy;
  int overlapping;
} copies[] = {COPIES(ENTRY)};
enum { kCopies = sizeof(copies) / sizeof(copies[0]), kRoom = 1200 };

pstatic char durable_bytes[kRoom] = {0};
static char ordinary_bytes[kRoom];

PURE static void copy_by(int which, char* to, const char* from, size_t size) {
  copies[which].copy(to, from, size);
}

static void copies_are_exact(char* shared) {
  static const size_t sizes[] = {0, 1, 7, 8, 9, 63, 64, 255, 256, 257, 512};
  for (int which = 0; which < kCopies; ++which) {
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
      const size_t size = sizes[i];
      char plain[kRoom], model[kRoom];
      for (int k = 0; k < kRoom; ++k) shared[k] = plain[k] = (char)(k * 13 + which);
      memcpy(model, shared, kRoom);
      // "Rn" and "Wn" promise that this side is not shared.
      const int from_plain = strncmp(copies[which].name, "Rn", 2) == 0;
      const int to_plain = strstr(copies[which].name, "Wn") != NULL;
      const int overlap = copies[which].overlapping && !from_plain && !to_plain;
      char* const to = (to_plain ? plain : shared) + (overlap ? 3 + size / 2 : 601);
      const char* const from = (from_plain ? plain : shared) + 3;
      memmove(model + (overlap ? 3 + size / 2 : 601), model + 3, size);
      __transaction_atomic {
        in_a_transaction();
        copy_by(which, to, from, size);
      }
      EXPECT(equal(to_plain ? plain : shared, model, kRoom));
      if (!overlap) continue;
      // The other way round.
      for (int k = 0; k < kRoom; ++k) shared[k] = (char)(k * 13 + which);
      memcpy(model, shared, kRoom);
      memmove(model + 3, model + 3 + size / 2, size);
      __transaction_atomic {
        in_a_transaction();
        copy_by(which, shared + 3, shared + 3 + size / 2, size);
      }
      EXPECT(equal(shared, model, kRoom));
    }
  }
}

PURE static void set_by(int which, char* to, int value, size_t size) {
  static Set* const sets[] = {_ITM_memsetW, _ITM_memsetWaR, _ITM_memsetWaW};
  sets[which](to, value, size);
}
PURE static void log_bytes(char* at, size_t size) {
  _ITM_LB(at, size);
  memset(at, 'x', size);
}

static void sets_are_exact(char* shared) {
  for (int which = 0; which < 3; ++which) {
    for (size_t size = 0; size < 600; size = size * 2 + 1) {
      char model[kRoom];
      memset(shared, '-', kRoom);
      memset(model, '-', kRoom);
      memset(model + 5, 'a' + which, size);
      __transaction_atomic {
        in_a_transaction();
        set_by(which, shared + 5, 'a' + which, size);
      }
      EXPECT(equal(shared, model, kRoom));
      char saved[kRoom];
      memset(saved, 's', kRoom);
      memset(model, 's', kRoom);
      __transaction_atomic {
        log_bytes(saved + 9, size);
        if (in_a_transaction()) __transaction_cancel;
      }
      EXPECT(equal(saved, model, kRoom));
    }
  }
}

int main(void) {
  test_U1();
  test_U2();
  test_U4();
  test_U8();
  test_F();
  test_D();
  test_E();
  test_CF();
  test_CD();
  test_CE();
  test_M64();
  test_M128();
  if (__builtin_cpu_supports("avx")) test_M256();
  copies_are_exact(durable_bytes);
  copies_are_exact(ordinary_bytes);
  sets_are_exact(durable_bytes);
  sets_are_exact(ordinary_bytes);
  return expect_status();
}
