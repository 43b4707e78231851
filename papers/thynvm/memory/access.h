// SPDX-License-Identifier: BSD-3-Clause
// What the simulated core is fed: one 64-bit record for each access of a program, in program order. The
// same records travel through the ring from the emulator, lie in recorded traces, and come out of the
// generators.
#pragma once

#include <cstdint>
#include <span>

namespace perdure::memory {

enum class AccessKind : std::uint8_t {
  kFetch = 0,  // the core begins to run instructions of another 64-byte line of code
  kLoad = 1,
  kStore = 2,
  kRun = 3,  // no access: instructions that ran, counted where `gap` of a record has no room
};

/// bits  0..47  virtual address; of kRun: the number of instructions
/// bits 48..50  log2 of the bytes (1 to 64); an access may cross a line
/// bits 51..52  AccessKind
/// bits 53..63  gap: instructions that ran since the record before, the accessing one included
struct Access {
  std::uint64_t bits;

  static constexpr unsigned kMostGap = 2047;
  static constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << 48) - 1;

  /// Requires: address < 2^48, size_log2 <= 6, gap <= kMostGap.
  static constexpr Access of(AccessKind kind, std::uint64_t address, unsigned size_log2,
                             unsigned gap) {
    return {address | std::uint64_t{size_log2} << 48 | std::uint64_t(kind) << 51 |
            std::uint64_t{gap} << 53};
  }
  static constexpr Access run(std::uint64_t instructions) {
    return of(AccessKind::kRun, instructions, 0, 0);
  }

  constexpr std::uint64_t address() const { return bits & kAddressMask; }
  constexpr unsigned bytes() const { return 1U << (bits >> 48 & 7); }
  constexpr AccessKind kind() const { return AccessKind(bits >> 51 & 3); }
  constexpr unsigned gap() const { return unsigned(bits >> 53); }
  bool operator==(const Access&) const = default;
};
static_assert(sizeof(Access) == 8);

/// Where records come from.
class AccessSource {
 public:
  virtual ~AccessSource() = default;
  /// The next records, at most some ten thousands; they stay until the next call. Empty: the end.
  /// Errors: perdure::Error when the program or the trace behind it fails.
  virtual std::span<const Access> next() = 0;
};

}  // namespace perdure::memory
