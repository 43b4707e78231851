// SPDX-License-Identifier: BSD-3-Clause
// What `perdure run` keeps in its state directory.
//
//   lock       held (flock) by whoever runs or resumes the program
//   alive      locked (flock) by the program itself, until the last of its threads is gone
//   image      the memory of the last two epochs: a checkpoint::EpochStore, which also is what arenas are
//   undo-*, kept/   what takes files back to an epoch: files/history.h
//   ended      how the program ended by itself; then nothing is left to resume
//   settings.json, broken, held-<n>, released   docs/FORMAT.md
//
// The image is an array of pages, called slots:
//
//   slot 0                   ImageHead
//   from kTableSlot on       records: machine, process, threads, areas, files; what is not memory
//   from kMapSlot on         the map: for each slot of memory the address of its page, 0 for none
//   from kMemorySlot on      memory, in no order
//
//   record  := RecordHeader payload padding-to-8
//
// An epoch is what EpochStore makes of it: all of these, or none of them. A page that no area of the
// records holds any more has no slot; one that was never written, or only read, has none either.
//
// Numbers are little-endian; no record is ever renumbered.
#pragma once

#include <cstdint>
#include <type_traits>

#include "apps/run/object_layout.h"

namespace perdure::run {

inline constexpr std::uint64_t kImageMagic = 0x324e555244524550;  // "PERDRUN2"
inline constexpr std::uint32_t kFormatVersion = 2;
inline constexpr std::uint64_t kPageBytes = 4096;

inline constexpr std::uint32_t kTableSlot = 1;
inline constexpr std::uint32_t kMapSlot = 1 << 12;
inline constexpr std::uint32_t kMostTableBytes = (kMapSlot - kTableSlot) * kPageBytes;
inline constexpr std::uint32_t kMostMemorySlots = 1 << 28;  // 1 TiB
inline constexpr std::uint32_t kMemorySlot = kMapSlot + kMostMemorySlots / (kPageBytes / 8);

// Memory that no image holds. Far from where Linux puts anything when addresses are not randomised.
inline constexpr std::uint64_t kReservedBegin = 0x2000'0000'0000;
inline constexpr std::uint64_t kRestorerBase = kReservedBegin;
inline constexpr std::uint64_t kRuntimeBase = 0x2010'0000'0000;  // stack, buffers
inline constexpr std::uint64_t kSharedBase = 0x2020'0000'0000;   // with the supervisor: shared.h
inline constexpr std::uint64_t kAliveBase = 0x2030'0000'0000;    // the file `alive`, to hold it
inline constexpr std::uint64_t kSlotsBase = 0x2040'0000'0000;    // which slot a page has
inline constexpr std::uint64_t kShadowBase = 0x2100'0000'0000;   // the image, also the supervisor's
inline constexpr std::uint64_t kPlanBase = 0x2300'0000'0000;
inline constexpr std::uint64_t kReservedEnd = 0x2400'0000'0000;
inline constexpr std::uint64_t kUserEnd = 0x7fff'ffff'f000;

struct ImageHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t head_bytes;
  std::uint64_t table_bytes;
  std::uint32_t memory_slots;  // used at any time: those behind have never been
  std::uint32_t crc;           // of the bytes before it
};
static_assert(sizeof(ImageHead) == 32);

enum class RecordKind : std::uint32_t {
  kMachine = 1,
  kProcess = 2,
  kThread = 3,
  kVma = 4,
  kFile = 7,
  kContents = 8,  // ContentsRecord, then the bytes
  // object_layout.h
  kObject = 16,
  kObjectBytes = 17,
  kAttributes = 18,
  kTask = 19,
  kTimer = 20,
  kLock = 21,
};

struct RecordHeader {
  RecordKind kind;
  std::uint32_t payload_crc;
  std::uint32_t payload_bytes;
  std::uint32_t crc;  // of the bytes before it
};
static_assert(sizeof(RecordHeader) == 16);

// An image can be resumed where these are the same, and all CPU features are there.
struct MachineRecord {
  char kernel_release[64];
  std::uint32_t vdso_crc;
  std::uint32_t vdso_bytes;
  std::uint64_t xcr0;
  std::uint32_t cpu_features[4];  // CPUID 1: ecx, edx; 7: ebx, ecx
};
static_assert(sizeof(MachineRecord) == 96);

struct SignalAction {
  std::uint64_t handler, flags, restorer, mask;  // as the kernel's struct sigaction
};

struct ProcessRecord {
  std::int32_t pid;
  std::uint32_t umask;
  std::uint64_t start_code, end_code, start_data, end_data, start_brk, brk, start_stack;
  std::uint64_t arg_start, arg_end, env_start, env_end;
  std::uint64_t auxv[64];
  std::uint32_t auxv_bytes;
  std::uint32_t reserved0;
  std::uint64_t monotonic_ns;
  std::uint64_t resumed_entry;  // a function of the runtime, void (*)(const ResumeNotice*)
  std::uint64_t timers[3][4];   // setitimer: real, virtual, prof
  SignalAction actions[65];     // by number; 0 unused
  std::uint64_t written_ns;     // CLOCK_REALTIME, of the epoch's end
  std::uint64_t output_end[2];  // what of held output is before the epoch's end
  std::uint32_t reserved;
  std::uint32_t cwd_bytes;
  char cwd[4096];
};

struct ThreadRecord {
  std::int32_t tid;
  std::uint32_t rseq_signature;
  std::uint64_t frame;  // struct ucontext on the thread's stack: rt_sigreturn goes on from it
  std::uint64_t fs_base, gs_base;
  std::uint64_t clear_tid;
  std::uint64_t robust_list, robust_bytes;
  std::uint64_t rseq;  // 0: not registered
  std::uint32_t rseq_bytes;
  char name[20];
};
static_assert(sizeof(ThreadRecord) == 88);

enum class VmaKind : std::uint32_t { kAnonymous = 1, kFile = 2, kVvar = 3, kVdso = 4 };
inline constexpr std::uint32_t kVmaGrowsDown = 2;  // the main stack
inline constexpr std::uint32_t kVmaShared = 4;     // of a file, and read only

struct VmaRecord {
  std::uint64_t begin, end;
  std::uint32_t protection;  // PROT_*
  VmaKind kind;
  std::uint32_t flags;
  std::uint32_t path_bytes;  // the path follows
  std::uint64_t file_offset;
  std::uint64_t device, inode, file_bytes, modified_ns;
};
static_assert(sizeof(VmaRecord) == 72);

enum class FileKind : std::uint32_t {
  kRegular = 1,
  kDirectory = 2,
  kDevice = 3,    // /dev/null and the like: opened again
  kStandard = 4,  // a terminal, pipe or socket at 0, 1 or 2: that of whoever resumes
  kLost = 5,      // a pipe, socket or the like: its other end is closed unless an Object tells more
};

inline constexpr std::uint64_t kMostKept = std::uint64_t{4} << 20;

// A file that has no name any more: has one in kept/, or its contents are here, in ContentsRecords.
inline constexpr std::uint32_t kLinkKept = 1, kContentsKept = 2;
struct ContentsRecord {
  std::int32_t descriptor;
  std::uint32_t reserved;
  std::uint64_t offset, bytes;  // in the file
};
static_assert(sizeof(ContentsRecord) == 24);

struct FileRecord {
  std::int32_t descriptor;
  std::int32_t same_as;  // shares its open file description with this lower descriptor, or -1
  FileKind kind;
  std::uint32_t flags;  // open(2), with O_CLOEXEC
  std::uint64_t offset;
  std::uint64_t bytes;  // its size
  std::uint64_t device, inode, generation;
  std::uint32_t path_bytes;  // the path follows
  std::uint32_t deleted;     // 0: no; else kLinkKept or kContentsKept
  std::uint32_t mode, reserved;
  std::uint64_t modified_ns;
};
static_assert(sizeof(FileRecord) == 80);

static_assert(std::is_trivially_copyable_v<ProcessRecord>);

inline constexpr std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + 7) & ~std::uint64_t{7};
}

// What the restorer tells the runtime, in whose process it has brought everything back.
struct ResumeNotice {
  std::int32_t shared, shadow;  // descriptors, which the runtime closes
};

}  // namespace perdure::run
