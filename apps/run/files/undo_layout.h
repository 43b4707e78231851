// SPDX-License-Identifier: BSD-3-Clause
// What a state directory holds so that files can go back to an epoch (history.h). Little-endian.
//
//   undo-<e>                   what takes back the file changes between the end of epoch e-1 and the end of e:
//                              UndoHead, then records in the order in which the changes were let through
//   kept/<device>-<inode>      a link to a file that lost a name, or has none left; both numbers in hexadecimal
//   kept/<device>-<inode>-<generation>.now  a symbolic link whose text is the inode's number and generation (decimal)
//                              since a roll-back made the thing anew
//   kept/copy-<e>-<offset>     what a file held that could not be linked: it lies on another file system, say; for the
//                              record of undo-<e> at the offset
//   broken                     BrokenMark: the newest epoch whose changes cannot be taken back
//
//   record := RecordHead RecordBody path other data
//
// What a body's fields mean; empty ones are 0. `path` is absolute, without symbolic links but perhaps the last part.
//
//   kind        taken back by                       inode  mode user group times  size       other            data
//   kState      size, mode, owner, times set again  x      x                      of file
//   kContents   bytes written again                 x                             offset                      bytes
//   kAbsent     whatever is there removed
//   kKept       the kept link made a name again     x
//   kCopied     a file made anew                    x      x                      of file    copy, or target
//   kDirectory  a directory made anew               x      x
//   kRename     renamed back                        x                                        new name
//   kExchange   exchanged back                      both                                     the other name
//   kAttribute  extended attribute set again        x                             1: absent  its name         value
//
// Every record is harmless when the change that it announces did not come about.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

namespace perdure::run::files {

inline constexpr std::uint64_t kUndoMagic = 0x4f444e5544525031;    // "1PRDUNDO"
inline constexpr std::uint64_t kBrokenMagic = 0x4b4f524244525031;  // "1PRDBROK"
inline constexpr std::uint32_t kUndoVersion = 1;

struct UndoHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t head_bytes;
  std::uint64_t epoch;
  std::uint64_t
      previous;  // the epoch with an undo file before this one, if it was still there; else 0
  std::uint32_t power;  // 1: a roll-back syncs, too
  std::uint32_t crc;    // of what is before
};
static_assert(sizeof(UndoHead) == 40 && std::has_unique_object_representations_v<UndoHead>);

struct RecordHead {
  std::uint64_t offset;  // of this record in the file
  std::uint32_t bytes;   // that follow this head
  std::uint32_t bytes_crc;
  std::uint32_t reserved;
  std::uint32_t crc;  // of what is before
};
static_assert(sizeof(RecordHead) == 24 && std::has_unique_object_representations_v<RecordHead>);

enum class UndoKind : std::uint32_t {
  kState = 1,
  kContents = 2,
  kAbsent = 3,
  kKept = 4,
  kCopied = 5,
  kDirectory = 6,
  kRename = 7,
  kExchange = 8,
  kAttribute = 9,
};

struct RecordBody {
  UndoKind kind;
  std::uint32_t mode, user, group;
  std::uint64_t device, inode, generation;
  std::uint64_t other_device, other_inode, other_generation;
  std::uint64_t size;
  std::int64_t accessed_ns, modified_ns;  // since 1970
  std::uint32_t path_bytes, other_bytes, data_bytes;
  std::uint32_t reserved;
};
static_assert(sizeof(RecordBody) == 104 && std::has_unique_object_representations_v<RecordBody>);

inline constexpr std::uint64_t kMostData = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostRecord = sizeof(RecordBody) + 2 * 8192 + kMostData;

struct BrokenMark {
  std::uint64_t magic;
  std::uint64_t epoch;  // 0: none
  char cause[236];      // ends with 0
  std::uint32_t crc;    // of what is before
};
static_assert(sizeof(BrokenMark) == 256 && std::has_unique_object_representations_v<BrokenMark>);

/// Which file. Its number is used again when it is gone, and often at once: then the generation is another one
/// (apps/run/generation.h). 0: it is not known, or does not matter, as the file still exists.
struct FileId {
  std::uint64_t device = 0, inode = 0, generation = 0;
  bool operator==(const FileId&) const = default;
  auto operator<=>(const FileId&) const = default;
};

struct FileIdHash {
  std::size_t operator()(const FileId& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.inode * 0x9e3779b97f4a7c15U ^ id.device);
  }
};

}  // namespace perdure::run::files
