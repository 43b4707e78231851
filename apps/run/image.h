// SPDX-License-Identifier: BSD-3-Clause
// The image of `perdure run` as a reader sees it. Nothing it holds is trusted: every length, count and
// address is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/belongings.h"
#include "apps/run/layout.h"
#include "perdure/checkpoint/epoch_store.h"
#include "perdure/error.h"

namespace perdure::run {

struct Area {
  VmaRecord vma;
  std::string path;
};

struct OpenFile {
  FileRecord file;
  std::string path;
  std::string contents;  // of one without a name
};

/// A page of memory: where it was, and the slot that holds it.
struct PageAt {
  std::uint64_t address;
  std::uint32_t slot;
};

/// A program as one epoch left it.
struct Image {
  std::uint64_t epoch = 0;
  MachineRecord machine{};
  ProcessRecord process{};
  std::vector<ThreadRecord> threads;  // the main thread first
  std::vector<Area> areas;            // by address
  std::vector<OpenFile> files;
  Belongings belongings;
  std::vector<PageAt> pages;  // by address
};

/// Reads slots of the last committed epoch. Requires: nothing was committed since the store was opened.
class ImageReader {
 public:
  /// Errors: Exception: kCorrupt, kIo.
  ImageReader(checkpoint::EpochStore& store, checkpoint::Storage& storage, std::string name);

  /// Checks all but the memory itself. Errors: Exception: kNotFound: there is no epoch; kVersion, kCorrupt, kIo.
  Image image();
  /// Copies what is not memory to where the whole image is to be. Returns the slots of memory that it has.
  /// Errors: as image(). Requires: room for the superblock's capacity.
  std::uint32_t fill_shadow(std::byte* shadow);
  /// The slots that home does not hold, or not as they are; whole.
  const std::map<std::uint32_t, std::vector<std::byte>>& newest() const { return newest_; }
  /// Errors: Exception: kIo.
  void read(std::uint32_t slot, std::byte* page);
  /// Of a slot in the file, for those that home holds.
  std::uint64_t home_offset(std::uint32_t slot) const;

 private:
  ImageHead head();
  [[noreturn]] void damaged(const std::string& what) const;

  checkpoint::EpochStore& store_;
  checkpoint::Storage& storage_;
  std::string name_;
  std::map<std::uint32_t, std::vector<std::byte>> newest_;
};

/// The program ended by itself: what it left, such as "exit code 0".
std::optional<std::string> ending_of(const std::string& directory);

}  // namespace perdure::run
