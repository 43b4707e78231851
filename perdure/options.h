// SPDX-License-Identifier: BSD-3-Clause
// PoolOptions: what a pool can be told when it is opened; the choices in it, by name; and what
// opening found.
#pragma once

#include <cstdint>
#include <string_view>

#include "perdure/base/words.h"  // first: it says when the language is an older C++

namespace perdure {

/// What a pool can be opened on. `kAuto` looks at the file: DAX (MAP_SYNC) → kAdr, tmpfs → kDram,
/// else kSync.
enum class DomainKind : std::uint8_t { kAuto, kAdr, kEadr, kSync, kDram };

constexpr std::string_view domain_name(DomainKind kind) {
  switch (kind) {
    case DomainKind::kAuto: return "auto";
    case DomainKind::kAdr: return "adr";
    case DomainKind::kEadr: return "eadr";
    case DomainKind::kSync: return "sync";
    case DomainKind::kDram: return "dram";
  }
  return "unknown";
}

/// What an acknowledged transaction survives, in a sentence for people.
constexpr std::string_view domain_guarantee(DomainKind kind) {
  switch (kind) {
    case DomainKind::kAuto: return "as the file's storage allows";
    case DomainKind::kAdr:
      return "power loss (lines are written back to the memory controller and waited for)";
    case DomainKind::kEadr:
      return "power loss, on a machine whose caches are flushed by stored energy";
    case DomainKind::kSync: return "power loss (every commit waits for the storage device)";
    case DomainKind::kDram: return "process death only (the memory is gone with the power)";
  }
  return "unknown";
}

/// When the home words of a commit become durable and its record leaves the log. Every choice is
/// safe; they differ in which thread waits, for what, and for how long.
enum class Truncation : std::uint8_t {
  /// kNextCommit on memory, kBackground on files and with private pages over memory.
  kAuto,
  /// Mnemosyne's synchronous truncation: at the end of the commit itself, with three fences.
  kEachCommit,
  /// Home words under the fence of the thread's next commit; logs are emptied together, when one is
  /// full.
  kNextCommit,
  /// Both when a log is full.
  kWhenFull,
  /// Mnemosyne's asynchronous truncation: by a background thread when a log is half full, on memory
  /// also every 10 ms; commits wait only for a full log.
  kBackground,
};

constexpr std::string_view truncation_name(Truncation truncation) {
  switch (truncation) {
    case Truncation::kAuto: return "auto";
    case Truncation::kEachCommit: return "each-commit";
    case Truncation::kNextCommit: return "next-commit";
    case Truncation::kWhenFull: return "when-full";
    case Truncation::kBackground: return "background";
  }
  return "unknown";
}

/// When a commit returns. The order of commits is kept in either case: what survives is what was
/// committed up to some moment, and nothing later.
enum class Durability : std::uint8_t {
  /// When it is durable, with all that was committed before it; at once if it wrote nothing.
  kStrict,
  /// At once. On files it becomes durable with the next strict commit, Pool::sync() or checkpoint,
  /// at the latest after PoolOptions::relaxed_delay. On memory, where a fence is too short a wait
  /// to avoid, this is the same as kStrict.
  kRelaxed,
};

/// A number of milliseconds. Every std::chrono duration converts to it, truncated to whole
/// milliseconds. (Including <chrono> would cost each user more than half the compile time of this
/// library.)
struct Milliseconds {
  constexpr explicit Milliseconds(std::int64_t milliseconds) : count(milliseconds) {}
  template <class Duration>
    requires requires(const Duration& duration) {
      duration.count() * Duration::period::num / Duration::period::den;
    }
  constexpr Milliseconds(const Duration& duration)  // NOLINT: implicit by design
      : count(static_cast<std::int64_t>(duration.count() * 1000 * Duration::period::num /
                                        Duration::period::den)) {}
  friend constexpr bool operator==(Milliseconds, Milliseconds) = default;

  std::int64_t count;
};

/// Bytes of log that recovery replays in a millisecond, where they update a large pool at random.
inline constexpr std::uint64_t kReplayedPerMillisecond = std::uint64_t{96} << 10;

struct PoolOptions {
  /// Where durability begins. kAuto looks at the file; override it to use tmpfs as if it were
  /// persistent memory.
  DomainKind domain = DomainKind::kAuto;
  /// At creation, or with raise_limits: the most that the file may grow to. This takes address space;
  /// the file itself starts small.
  std::uint64_t capacity_bytes = std::uint64_t{64} << 30;
  /// At creation, or with raise_limits: how many threads may update the pool at the same time.
  std::uint32_t log_slots = 64;
  /// Whether opening raises the limits of a pool that has smaller ones than these options: its
  /// capacity, log slots and, with ExpertOptions, root entries. Objects stay where they are; older
  /// releases cannot open the pool any more.
  bool raise_limits = false;
  /// At creation only: permissions of the file, less the umask.
  unsigned mode = 0600;
  /// On files: how much DRAM private copies of changed pages may take. Above half of it, copies are
  /// given back. 0: a quarter of the machine's memory; otherwise at least 64 KiB. Address spaces
  /// give none back.
  std::uint64_t private_bytes = 0;
  /// How long recovery may take to replay what a crash left in the log; at least 1 ms. On files it
  /// decides how long the log may become, in DRAM and on the disk, too: 96 KiB for each millisecond.
  /// A longer log needs fewer page writes where a large pool is updated at random.
  Milliseconds recovery_target{1000};
  /// On memory: others may look at the pool while it is open here (Pool::inspect(), Pool::back_up()), as
  /// on files they always may. Takes a thread, which sleeps, and the handler of SIGSEGV: as long as
  /// somebody looks, the first store to each page is a fault. A system call that writes into the pool
  /// may fail with EFAULT then. They are refused while a thread blocks SIGSEGV or another handler has
  /// taken its place, and with private pages.
  bool let_others_look = false;
  /// On files: so often all pages of the pool that have checksums are read from the device, in the
  /// background, and compared; Pool::damage() tells what differs. Zero: never.
  Milliseconds scrub{0};
  /// How long the effects of a relaxed transaction may stay volatile; zero: until the next strict
  /// commit, sync() or checkpoint. See Durability.
  Milliseconds relaxed_delay{10};
};

/// What recovery found and did.
struct RecoveryReport {
  std::uint64_t records_replayed = 0;
  std::uint64_t words_replayed = 0;
  std::uint64_t logs_erased = 0;
  std::uint64_t last_stamp = 0;  // the newest commit timestamp
  std::uint64_t nanoseconds = 0;
  /// Whether the file was as it had been left, all of it durable, so that nothing had to be written.
  bool unchanged = false;
  /// Whether one of the two copies of the superblock was damaged. Opening for writing has replaced it
  /// by the other one.
  bool superblock_damaged = false;
};

}  // namespace perdure
