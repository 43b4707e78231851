// SPDX-License-Identifier: BSD-3-Clause
// The standard's generators (clauses 2.1.5, 2.1.6 and 4.3.2): uniform and non-uniform numbers, last
// names, strings.
#pragma once

#include <cstdint>
#include <string>

#include "bench/tpcc/schema.h"
#include "bench/workload.h"

namespace perdure::bench::tpcc {

/// The C of NURand, one for each field that it draws.
struct NurandConstants {
  std::int64_t last_name = 0;
  std::int64_t customer = 0;
  std::int64_t item = 0;
};
/// What a load of this seed takes. A run on the loaded database needs to know them (2.1.6.1).
NurandConstants constants_of_load(std::uint64_t seed);
/// What a run takes: the one of last names is not the load's, but at a permitted distance from it.
NurandConstants constants_of_run(std::uint64_t seed, const NurandConstants& load);
/// 2.1.6.1: |run - load| is 65 … 119, but neither 96 nor 112.
bool may_follow(std::int64_t run, std::int64_t load);

/// 4.3.2.3: three syllables for three digits. Requires: 0 <= number <= 999.
std::string last_name(std::int64_t number);

class Generator {
 public:
  Generator(std::uint64_t seed, const Size& size, const NurandConstants& constants)
      : random_(seed), size_(size), constants_(constants) {}

  const Size& size() const { return size_; }
  std::int64_t uniform(std::int64_t low, std::int64_t high) {
    return low +
           static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool percent(std::int64_t chance) { return uniform(1, 100) <= chance; }
  /// NURand(a, low, high) with the constant `c`.
  std::int64_t nurand(std::int64_t a, std::int64_t low, std::int64_t high, std::int64_t c) {
    return ((uniform(0, a) | uniform(low, high)) + c) % (high - low + 1) + low;
  }

  std::int64_t district() { return uniform(1, kDistricts); }
  std::int64_t customer();
  std::int64_t item();
  std::string name();
  /// Another warehouse than `home`. Requires: there are two.
  std::int64_t other_warehouse(std::int64_t home);

  /// 4.3.2.2: an "a-string" and an "n-string", of `low` to `high` characters.
  std::string letters(std::int64_t low, std::int64_t high);
  std::string digits(std::int64_t count);
  /// 4.3.2.7.
  std::string zip() { return digits(4) + "11111"; }
  /// I_DATA and S_DATA: in one of ten "ORIGINAL" is somewhere.
  std::string data();

 private:
  /// The standard chose A for the whole range; a divided range takes its first bits.
  std::int64_t scaled(std::int64_t a) const;

  Random random_;
  Size size_;
  NurandConstants constants_;
};

}  // namespace perdure::bench::tpcc
