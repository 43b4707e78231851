// SPDX-License-Identifier: BSD-3-Clause
// The read, write and log barriers: what compiled code calls for every access inside a transaction.
// For each type there are four reads and three writes, which differ in what the compiler knows was
// done before (read after write, ...). This runtime needs none of that; the names must be there.
#include <immintrin.h>

#include <complex>

#include "perdure/mnemosyne/tm_thread.h"

namespace perdure::compiled {
namespace {

void read_bytes(void* to, const void* from, std::size_t bytes) {
  Thread& thread = Thread::self();
  if (thread.is_own(from) || thread.irrevocable()) {
    std::memcpy(to, from, bytes);
    return;
  }
  thread.guarded(
      [&](Tx& tx) { tx.read_exact(to, thread.tracked(static_cast<const char*>(from)), bytes); });
}

void write_bytes(void* to, const void* from, std::size_t bytes) {
  Thread& thread = Thread::self();
  if (thread.is_own(to)) {
    thread.before_direct_store(to, bytes);
    std::memcpy(to, from, bytes);
    return;
  }
  if (thread.irrevocable()) [[unlikely]] {
    if (thread.space().contains(to))
      mnemosyne::stop(
          "a store to persistent memory in an irrevocable transaction, which cannot be durable");
    std::memcpy(to, from, bytes);
    return;
  }
  thread.guarded(
      [&](Tx& tx) { tx.write_exact(thread.tracked(static_cast<char*>(to)), from, bytes); });
}

template <class T>
inline T read(const T* from) {
  if constexpr (sizeof(T) <= kWordBytes) {
    // The common case in one step: inside one word.
    Thread& thread = Thread::self();
    if (!thread.is_own(from) && !thread.irrevocable() &&
        reinterpret_cast<std::uintptr_t>(from) % kWordBytes + sizeof(T) <= kWordBytes) [[likely]] {
      const auto* home = thread.tracked(reinterpret_cast<const std::byte*>(from));
      const Word word = thread.guarded([&](Tx& tx) {
        return tx.load_piece(static_cast<Offset>(home - thread.space().base()), sizeof(T));
      });
      T value;
      std::memcpy(&value, &word, sizeof(T));
      return value;
    }
  }
  T value;
  read_bytes(&value, from, sizeof(T));
  return value;
}

template <class T>
inline void write(T* to, T value) {
  if constexpr (sizeof(T) <= kWordBytes) {
    Thread& thread = Thread::self();
    if (!thread.is_own(to) && !thread.irrevocable() &&
        reinterpret_cast<std::uintptr_t>(to) % kWordBytes + sizeof(T) <= kWordBytes) [[likely]] {
      Word word = 0;
      std::memcpy(&word, &value, sizeof(T));
      const auto* home = thread.tracked(reinterpret_cast<const std::byte*>(to));
      thread.guarded([&](Tx& tx) {
        tx.store_piece(static_cast<Offset>(home - thread.space().base()), word, sizeof(T));
      });
      return;
    }
  }
  write_bytes(to, &value, sizeof(T));
}

/// In pieces, through memory of this frame: the source may be changing, or be buffered itself.
void copy(void* to, const void* from, std::size_t bytes, bool from_shared, bool to_shared) {
  std::byte piece[256];
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  // Towards higher addresses, unless that would overwrite what is still to be read.
  const bool backwards = out > in && out < in + bytes;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t step = std::min(bytes - done, sizeof(piece));
    const std::size_t at = backwards ? bytes - done - step : done;
    if (from_shared) {
      read_bytes(piece, in + at, step);
    } else {
      std::memcpy(piece, in + at, step);
    }
    if (to_shared) {
      write_bytes(out + at, piece, step);
    } else {
      std::memcpy(out + at, piece, step);
    }
    done += step;
  }
}

void set(void* to, int value, std::size_t bytes) {
  std::byte piece[256];
  std::memset(piece, value, std::min(bytes, sizeof(piece)));
  for (std::size_t done = 0; done < bytes; done += sizeof(piece))
    write_bytes(static_cast<std::byte*>(to) + done, piece, std::min(bytes - done, sizeof(piece)));
}

using M64 = __m64;
using M128 = __m128;
using M256 = __m256;

}  // namespace
}  // namespace perdure::compiled

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
#define PERDURE_BARRIERS(name, T)                                              \
  T _ITM_R##name(const T* from) { return perdure::compiled::read(from); }      \
  T _ITM_RaR##name(const T* from) { return perdure::compiled::read(from); }    \
  T _ITM_RaW##name(const T* from) { return perdure::compiled::read(from); }    \
  T _ITM_RfW##name(const T* from) { return perdure::compiled::read(from); }    \
  void _ITM_W##name(T* to, T value) { perdure::compiled::write(to, value); }   \
  void _ITM_WaR##name(T* to, T value) { perdure::compiled::write(to, value); } \
  void _ITM_WaW##name(T* to, T value) { perdure::compiled::write(to, value); } \
  void _ITM_L##name(const T* at) { perdure::compiled::Thread::self().keep(at, sizeof(T)); }

// Called only by code that was compiled for AVX; the rest of this file is not.
#define PERDURE_AVX_READ(name)                                  \
  __attribute__((target("avx"))) perdure::compiled::M256 name(  \
      const perdure::compiled::M256* from) {                    \
    perdure::compiled::M256 value;                              \
    perdure::compiled::read_bytes(&value, from, sizeof(value)); \
    return value;                                               \
  }
#define PERDURE_AVX_WRITE(name)                                             \
  __attribute__((target("avx"))) void name(perdure::compiled::M256* to,     \
                                           perdure::compiled::M256 value) { \
    perdure::compiled::write_bytes(to, &value, sizeof(value));              \
  }

// Rn, Wn: this side is not shared, so it is accessed directly.
#define PERDURE_COPIES(name, from_shared, to_shared)                       \
  void _ITM_memcpy##name(void* to, const void* from, std::size_t bytes) {  \
    perdure::compiled::copy(to, from, bytes, from_shared, to_shared);      \
  }                                                                        \
  void _ITM_memmove##name(void* to, const void* from, std::size_t bytes) { \
    perdure::compiled::copy(to, from, bytes, from_shared, to_shared);      \
  }

extern "C" {
PERDURE_BARRIERS(U1, std::uint8_t)
PERDURE_BARRIERS(U2, std::uint16_t)
PERDURE_BARRIERS(U4, std::uint32_t)
PERDURE_BARRIERS(U8, std::uint64_t)
PERDURE_BARRIERS(F, float)
PERDURE_BARRIERS(D, double)
PERDURE_BARRIERS(E, long double)
PERDURE_BARRIERS(CF, __complex__ float)
PERDURE_BARRIERS(CD, __complex__ double)
PERDURE_BARRIERS(CE, __complex__ long double)
PERDURE_BARRIERS(M64, perdure::compiled::M64)
PERDURE_BARRIERS(M128, perdure::compiled::M128)
PERDURE_AVX_READ(_ITM_RM256)
PERDURE_AVX_READ(_ITM_RaRM256)
PERDURE_AVX_READ(_ITM_RaWM256)
PERDURE_AVX_READ(_ITM_RfWM256)
PERDURE_AVX_WRITE(_ITM_WM256)
PERDURE_AVX_WRITE(_ITM_WaRM256)
PERDURE_AVX_WRITE(_ITM_WaWM256)
void _ITM_LM256(const void* at) {
  perdure::compiled::Thread::self().keep(at, sizeof(perdure::compiled::M256));
}

void _ITM_LB(const void* at, std::size_t bytes) {
  perdure::compiled::Thread::self().keep(at, bytes);
}

PERDURE_COPIES(RnWt, false, true)
PERDURE_COPIES(RnWtaR, false, true)
PERDURE_COPIES(RnWtaW, false, true)
PERDURE_COPIES(RtWn, true, false)
PERDURE_COPIES(RtWt, true, true)
PERDURE_COPIES(RtWtaR, true, true)
PERDURE_COPIES(RtWtaW, true, true)
PERDURE_COPIES(RtaRWn, true, false)
PERDURE_COPIES(RtaRWt, true, true)
PERDURE_COPIES(RtaRWtaR, true, true)
PERDURE_COPIES(RtaRWtaW, true, true)
PERDURE_COPIES(RtaWWn, true, false)
PERDURE_COPIES(RtaWWt, true, true)
PERDURE_COPIES(RtaWWtaR, true, true)
PERDURE_COPIES(RtaWWtaW, true, true)

void _ITM_memsetW(void* to, int value, std::size_t bytes) {
  perdure::compiled::set(to, value, bytes);
}
void _ITM_memsetWaR(void* to, int value, std::size_t bytes) {
  perdure::compiled::set(to, value, bytes);
}
void _ITM_memsetWaW(void* to, int value, std::size_t bytes) {
  perdure::compiled::set(to, value, bytes);
}
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
