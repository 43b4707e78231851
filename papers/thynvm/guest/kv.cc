// SPDX-License-Identifier: BSD-3-Clause
// The paper's two key-value stores, on this library's containers without persistence: under the
// simulator it is the memory system that makes them persistent.
//
//   perdure_guest_kv hash|rbtree --value N --operations N --seed S --end-epoch N
//
// With --end-epoch, the program ends its epoch after each N operations, so that they are durable.
//
// An operation is a request of the authors' programs: a random key is looked up; what is found is
// compared and deleted, else a value is inserted. Keys are as many as values fit into 32 MB (16 and
// 64 bytes), 64 MB (256 and 1,024) or 128 MB (4,096). Half of them are there when the measured part
// begins, so that insertions and deletions balance (the authors begin with an empty store).
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "papers/thynvm/guest/measured.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/tx.h"
#include "sim/crash/choices.h"

namespace {

using perdure::PlainTx;
using perdure::crash::Random;

struct Options {
  std::string_view store;
  std::uint64_t value_bytes = 64;
  std::uint64_t operations = 0;  // 0: as many as keys
  std::uint64_t seed = 1;
  std::uint64_t end_epoch = 0;  // after so many operations each; 0: never
};

constexpr std::uint64_t megabytes_of(std::uint64_t value_bytes) {
  return value_bytes <= 64 ? 32 : value_bytes <= 1024 ? 64 : 128;
}

template <std::size_t kBytes>
using Value = std::array<std::uint64_t, kBytes / 8>;

/// Returns how many keys were found.
template <std::size_t kBytes, class Map>
std::uint64_t run(Map& map, const Options& options) {
  constexpr std::uint64_t kKeys = (megabytes_of(kBytes) << 20) / kBytes;
  PlainTx tx;
  Value<kBytes> value;
  // An odd factor permutes the numbers below a power of two.
  static_assert((kKeys & (kKeys - 1)) == 0);
  for (std::uint64_t i = 0; i < kKeys / 2; ++i) {
    const std::uint64_t key = (i * 0x9e3779b97f4a7c15 + options.seed) % kKeys;
    value.fill(key);
    map.put(tx, key, value);
  }
  Random random(options.seed);
  std::uint64_t found = 0;
  const std::uint64_t operations = options.operations == 0 ? kKeys : options.operations;
  measured_begin();
  for (std::uint64_t i = 0; i < operations; ++i) {
    const std::uint64_t key = random.below(kKeys);
    value.fill(key);
    if (const auto* there = map.find(tx, key)) {
      ++found;
      if (std::memcmp(there, &value, kBytes) != 0) std::abort();
      map.erase(tx, key);
    } else {
      map.put(tx, key, value);
    }
    measured_operation();
    if (options.end_epoch != 0 && (i + 1) % options.end_epoch == 0) measured_end_epoch();
  }
  return found;
}

template <std::size_t kBytes>
std::uint64_t run_sized(const Options& options) {
  if (options.store == "hash") {
    static perdure::hash_map<std::uint64_t, Value<kBytes>> map;
    PlainTx tx;
    map.use_seed(tx, options.seed);
    return run<kBytes>(map, options);
  }
  static perdure::rb_map<std::uint64_t, Value<kBytes>> map;
  return run<kBytes>(map, options);
}

int usage() {
  std::fputs(
      "usage: perdure_guest_kv hash|rbtree [--value 16|64|256|1024|4096] [--operations N] [--seed "
      "S] [--end-epoch N]\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): an error ends it
  Options options;
  if (argc < 2 || argc % 2 != 0) return usage();
  options.store = argv[1];
  if (options.store != "hash" && options.store != "rbtree") return usage();
  for (int i = 2; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::uint64_t number = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--value") {
      options.value_bytes = number;
    } else if (name == "--operations") {
      options.operations = number;
    } else if (name == "--seed") {
      options.seed = number;
    } else if (name == "--end-epoch") {
      options.end_epoch = number;
    } else {
      return usage();
    }
  }
  std::uint64_t found = 0;
  switch (options.value_bytes) {
    case 16: found = run_sized<16>(options); break;
    case 64: found = run_sized<64>(options); break;
    case 256: found = run_sized<256>(options); break;
    case 1024: found = run_sized<1024>(options); break;
    case 4096: found = run_sized<4096>(options); break;
    default: return usage();
  }
  std::printf("found %llu\n", static_cast<unsigned long long>(found));
  return 0;
}
