// SPDX-License-Identifier: BSD-3-Clause
// One thread's part of a store: its keys, what it does with them, and whether the store has kept
// what it acknowledged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/comparison/store.h"
#include "bench/workload.h"

namespace perdure::bench::comparison {

enum class Work : std::uint8_t {
  kChurn,   // inserts and deletes in turns
  kLookUp,  // of a record that is there
  kScan,    // of 100 records from one that is there
  kBatch,   // 10 records replaced in one transaction
};

struct RowInfo {
  std::string_view name;
  std::string_view title;
  Work work;
  std::uint64_t value_bytes;
  bool group_commit = false;  // on a disk measured with many threads, too
};
inline constexpr RowInfo kRows[] = {
    {"update-8", "insert/delete, 8 B", Work::kChurn, 8},
    {"update-64", "insert/delete, 64 B", Work::kChurn, 64, true},
    {"update-1024", "insert/delete, 1024 B", Work::kChurn, 1024},
    {"update-4096", "insert/delete, 4096 B", Work::kChurn, 4096},
    {"look-up-64", "look-up, 64 B", Work::kLookUp, 64},
    {"scan-64", "scan of 100, 64 B", Work::kScan, 64},
    {"batch-64", "10 updates at once, 64 B", Work::kBatch, 64},
};

class Lane {
 public:
  /// `live` records, with keys that no other thread has. The same for every store.
  Lane(unsigned thread, std::uint64_t live, std::uint64_t value_bytes, std::uint64_t seed);

  /// Requires: an empty store; and in what follows, the one that was filled, or that one reopened.
  void fill(Store& store);
  /// Errors: throws Exception kCorrupt when what must be there is not found.
  void run(Store& store, Work work, std::uint64_t operations);

  /// Looks up at most `most` keys, spread over those that are in the store and those that are not.
  /// Returns how many.
  /// Errors: throws Exception kCorrupt, with the key, when the store does not hold the last value
  ///         that it acknowledged, or holds what was deleted.
  std::uint64_t verify(Store& store, std::uint64_t most) const;
  std::uint64_t live() const { return churn_.live(); }
  std::uint64_t keys() const { return churn_.keys().size(); }

 private:
  static constexpr std::uint64_t kScanned = 100;
  static constexpr std::uint64_t kBatched = 10;

  std::uint64_t key_of(std::uint64_t number) const {
    return (std::uint64_t{thread_} << 32) + number;
  }
  /// Fills `value` with what key and version must have.
  void make_value(std::uint64_t number, std::uint64_t version, std::string& value) const;
  void replace(Store& store, const std::vector<std::uint64_t>& numbers);
  void scan(Store& store);
  [[noreturn]] void fail(std::uint64_t number, const char* what) const;

  unsigned thread_;
  KeyChurn churn_;
  Random random_;
  std::vector<std::uint64_t> versions_;  // by number; counted up by each put
  std::vector<std::string> values_;      // of a batch in the making
  std::vector<Record> records_;
  std::string found_;
};

/// Scans the whole store: keys ascend, and there are as many as `lanes` have.
/// Errors: throws Exception kCorrupt.
void verify_order(Store& store, const std::vector<std::unique_ptr<Lane>>& lanes);

}  // namespace perdure::bench::comparison
