// SPDX-License-Identifier: BSD-3-Clause
// FramedFiles: the files of a persistent address space whose regions are larger than its memory.
//
//   in the directory, on persistent memory
//     heap.pool, statics.region   as in DirectoryFiles
//     frames.pool                 the frames that pages of regions are in while they are used
//                                 (FramePool)
//     backing                     a symbolic link to
//   the backing directory, on any larger storage
//     N.region                    the regions; where a page is in a frame, what is here is older
//
// Source: Mnemosyne (ASPLOS 2011) §4.2, virtualizing SCM.
#pragma once

#include <memory>

#include "perdure/api/directory_files.h"
#include "perdure/region/frame_pool.h"

namespace perdure {

class FramedFiles final : public DirectoryFiles {
 public:
  static constexpr char kLink[] = "backing";
  static constexpr char kFrames[] = "frames.pool";

  /// The backing directory that an address space was made with; empty when its regions are in the
  /// directory itself.
  static std::string backing_of(const std::string& directory);
  /// Makes a directory, which has no heap yet, one whose regions are backed elsewhere.
  ///
  ///   1. make the backing directory, and frames.pool   crash here ⇒ made again, or used as they
  ///                                                    are
  ///   2. make the link; sync the directory             from here on the directory is this one
  ///
  /// Errors: kInvalid, kNoSpace, kIo.
  static Result<void> prepare(const std::string& directory, const std::string& backing,
                              std::uint64_t frames_bytes);

  /// As DirectoryFiles' constructor. Errors: as FramePool::open; kInvalid when the heap is on no
  /// memory.
  static Result<std::unique_ptr<SpaceFiles>> open(const std::string& directory, std::byte* base,
                                                  const Region& region, bool inspect);

  Result<void> remove(std::uint64_t file) override;
  Result<Region::Part> map(std::uint64_t file, std::uint64_t file_offset, Offset begin,
                           std::uint64_t bytes, std::uint32_t protection) override;
  void protect(Offset begin, std::uint64_t bytes, std::uint32_t protection) override;
  void unmap(Offset begin, std::uint64_t bytes) override;
  std::string name(std::uint64_t file) const override;

 private:
  FramedFiles(const std::string& directory, std::byte* base, const Region& region, bool inspect)
      : DirectoryFiles(directory, base, region, inspect) {}

  std::unique_ptr<FramePool> frames_;  // null for inspection
};

}  // namespace perdure
