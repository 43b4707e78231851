// SPDX-License-Identifier: BSD-3-Clause
// The client of `perdure-lab bench memcached`: threads with a connection each, through libmemcached, as in NV-heaps (ASPLOS
// 2011) section 5.6. One operation is under way on a connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perdure::bench::memcached {

enum class Mix : std::uint8_t { kSet, kGet, kInsertDelete };
std::string_view mix_name(Mix mix);

/// Where a server listens.
struct Address {
  std::string socket;  // a Unix socket; else
  std::uint16_t port = 0;
};

struct LoadOptions {
  Address address;
  unsigned connections = 1;
  std::uint64_t keys = 10'000;  // that are there, and are got and set
  std::size_t key_bytes = 16;
  std::size_t value_bytes = 512;
  std::uint64_t seed = 1;
};

struct Loaded {
  double per_second = 0;
  double median_us = 0;
  double p99_us = 0;
  std::uint64_t operations = 0;
};

/// Sets every key once. Errors: throws Exception kIo, as the other.
void fill(const LoadOptions& options);
/// Does the mix on all connections for so long, and looks at every answer: a key that is not there, or another value's
/// length, is an error. An insertion and its deletion are two operations.
Loaded run_load(const LoadOptions& options, Mix mix, double seconds);

}  // namespace perdure::bench::memcached
