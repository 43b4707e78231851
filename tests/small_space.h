// SPDX-License-Identifier: BSD-3-Clause
// Persistent address spaces in fresh directories, small and quick to open, and what their tests share.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/address_space.h"
#include "tests/small_pool.h"

namespace perdure::testing {

inline constexpr int kReadWrite = PROT_READ | PROT_WRITE;

/// Behind the first pool of any test, and where every sanitizer lets the program be.
inline std::byte* const kSpaceBase = reinterpret_cast<std::byte*>(0x7ea000000000);

inline AddressSpace::Options small_space_options(DomainKind domain = DomainKind::kDram) {
  AddressSpace::Options options;
  options.pool.domain = domain;
  options.pool.segment_bytes = std::uint64_t{128} << 10;
  options.pool.ring_bytes = 8192;
  options.pool.log_slots = 8;
  options.pool.root_entries = 8;
  options.pool.lock_bits = 10;
  options.base = kSpaceBase;
  options.range_bytes = std::uint64_t{1} << 30;
  return options;
}

/// Variables that may receive addresses, in the heap.
struct Receivers {
  std::array<std::uint64_t, 400> address;
  void** variable(std::size_t index) { return reinterpret_cast<void**>(&address[index]); }
  std::byte* region(std::size_t index) { return reinterpret_cast<std::byte*>(address[index]); }
};

inline Receivers& receivers_of(AddressSpace& space) {
  return *space.pool().root<Receivers>("receivers");
}

/// The first word of a page of a region.
inline std::uint64_t& word_of(std::byte* region, std::uint64_t page = 0) {
  return *reinterpret_cast<std::uint64_t*>(region + page * kPageBytes);
}

inline void store_durably(AddressSpace& space, std::uint64_t& word, std::uint64_t value) {
  space.pool().atomically([&](Tx& tx) { tx.store(word, value); });
}

/// A program's section of static variables: whole pages, which an address space may map its file over.
class TestStatics {
 public:
  explicit TestStatics(std::uint64_t pages = 1)
      : bytes_(pages * kPageBytes),
        begin_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~TestStatics() { ::munmap(begin_, bytes_); }
  TestStatics(const TestStatics&) = delete;
  TestStatics& operator=(const TestStatics&) = delete;

  std::uint64_t& word(std::size_t index) { return reinterpret_cast<std::uint64_t*>(begin_)[index]; }
  /// As the executable with this build id declares them.
  Statics declared(std::vector<std::uint8_t> build_id, std::vector<StaticVariable> variables,
                   Statics::OnChange on_change = Statics::OnChange::kRefuse) const {
    Statics statics;
    statics.begin = begin_;
    statics.bytes = bytes_;
    statics.build_id = std::move(build_id);
    statics.program = "program";
    statics.variables = std::move(variables);
    statics.on_change = on_change;
    return statics;
  }

 private:
  std::uint64_t bytes_;
  std::byte* begin_;
};

/// Every file of a directory, by name.
inline std::map<std::string, std::string> contents_of_directory(const std::string& path) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file() && !entry.is_symlink())
      files[entry.path().filename()] = contents_of(entry.path());
  }
  return files;
}

}  // namespace perdure::testing
