// SPDX-License-Identifier: BSD-3-Clause
// What `perdure-lab bench peers` compares: stores of records under a number, in which every update is
// durable when the call returns. Ours and the peers' are driven by the same code (lane.h) with the
// same keys and values; what each of them is set to is told in kinds.cc.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "perdure/error.h"

namespace perdure::bench::comparison {

/// Where the files of a run lie.
enum class Place : std::uint8_t { kMemory, kDisk };
constexpr std::string_view place_name(Place place) {
  return place == Place::kMemory ? "tmpfs" : "disk";
}

struct StoreOptions {
  std::string dir;  // the store's own
  Place place = Place::kMemory;
  std::uint64_t value_bytes = 8;
  std::uint64_t records = 0;  // at the same time, at most; of all threads
  unsigned threads = 1;
};

struct Record {
  std::uint64_t key;
  std::string_view value;
};

using Visit = std::function<void(std::uint64_t key, std::string_view value)>;

/// Made on an empty directory it is an empty store; made on one that it was closed in, it holds what
/// was acknowledged.
/// Errors: throws Exception, kIo for what the peer's library reports.
class Store {
 public:
  virtual ~Store() = default;
  /// Inserts or replaces the records, as one transaction where the store has them.
  /// Requires: values of StoreOptions::value_bytes.
  /// Durable:  on return, as far as StoreKind::terms tells; so is erase().
  /// Threads:  any, each with its own number below StoreOptions::threads and with keys of its own;
  ///           so for all that follows.
  virtual void put(unsigned thread, std::span<const Record> records) = 0;
  virtual void erase(unsigned thread, std::uint64_t key) = 0;
  /// False, and `value` is anything, when there is none.
  virtual bool get(unsigned thread, std::uint64_t key, std::string& value) = 0;
  /// Visits up to `count` records in ascending order from `from` on.
  /// Errors: throws Exception kMisuse of a store without order.
  virtual void scan(unsigned thread, std::uint64_t from, std::uint64_t count, const Visit& visit) {
    static_cast<void>(thread), static_cast<void>(from), static_cast<void>(count);
    static_cast<void>(visit);
    throw Exception(Code::kMisuse, "peers: a hash table has no order to scan in");
  }
};

/// A key as stores want it that order theirs by their bytes.
class OrderedKey {
 public:
  explicit OrderedKey(std::uint64_t key) {
    if constexpr (std::endian::native == std::endian::little) key = __builtin_bswap64(key);
    std::memcpy(bytes_.data(), &key, sizeof(key));
  }
  std::string_view view() const { return {bytes_.data(), bytes_.size()}; }
  /// Requires: bytes of an OrderedKey.
  static std::uint64_t number(const void* bytes) {
    std::uint64_t key = 0;
    std::memcpy(&key, bytes, sizeof(key));
    return std::endian::native == std::endian::little ? __builtin_bswap64(key) : key;
  }

 private:
  std::array<char, sizeof(std::uint64_t)> bytes_;
};

/// A value of a size that the program knew when it was compiled.
template <std::size_t kBytes>
std::array<char, kBytes> fixed_value(std::string_view value) {
  if (value.size() != kBytes)
    throw Exception(Code::kInvalid, "peers: a value of " + std::to_string(value.size()) +
                                        " bytes in a store of values of " + std::to_string(kBytes));
  std::array<char, kBytes> fixed;
  std::memcpy(fixed.data(), value.data(), kBytes);
  return fixed;
}

/// The store for values of `options.value_bytes`, of a template that must know their size.
template <template <std::size_t> class StoreOf>
std::unique_ptr<Store> make_for_size(const StoreOptions& options) {
  switch (options.value_bytes) {
    case 8: return std::make_unique<StoreOf<8>>(options);
    case 64: return std::make_unique<StoreOf<64>>(options);
    case 1024: return std::make_unique<StoreOf<1024>>(options);
    case 4096: return std::make_unique<StoreOf<4096>>(options);
    default:
      throw Exception(Code::kInvalid, "peers: values have 8, 64, 1024 or 4096 bytes, not " +
                                          std::to_string(options.value_bytes));
  }
}

}  // namespace perdure::bench::comparison
