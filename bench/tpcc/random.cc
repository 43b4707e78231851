// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/random.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <string_view>

namespace perdure::bench::tpcc {
namespace {

constexpr std::int64_t kLastNameA = 255;
constexpr std::int64_t kCustomerA = 1023;
constexpr std::int64_t kItemA = 8191;

NurandConstants any_constants(Random& random) {
  const auto up_to = [&](std::int64_t a) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(a) + 1));
  };
  return {up_to(kLastNameA), up_to(kCustomerA), up_to(kItemA)};
}

}  // namespace

NurandConstants constants_of_load(std::uint64_t seed) {
  Random random(seed);
  return any_constants(random);
}

NurandConstants constants_of_run(std::uint64_t seed, const NurandConstants& load) {
  Random random(~seed);
  NurandConstants run = any_constants(random);
  // Every load leaves some: the range is 256 wide, the distances reach both ways.
  while (!may_follow(run.last_name, load.last_name))
    run.last_name = any_constants(random).last_name;
  return run;
}

bool may_follow(std::int64_t run, std::int64_t load) {
  const std::int64_t distance = std::abs(run - load);
  return distance >= 65 && distance <= 119 && distance != 96 && distance != 112;
}

std::string last_name(std::int64_t number) {
  static constexpr std::array<std::string_view, 10> kSyllables = {
      "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"};
  std::string name;
  for (const std::int64_t digit : {number / 100, number / 10 % 10, number % 10})
    name += kSyllables[static_cast<std::size_t>(digit)];
  return name;
}

std::int64_t Generator::scaled(std::int64_t a) const {
  return a >> (std::bit_width(static_cast<std::uint64_t>(size_.divisor)) - 1);
}

std::int64_t Generator::customer() {
  return nurand(scaled(kCustomerA), 1, size_.customers(), constants_.customer);
}
std::int64_t Generator::item() { return nurand(scaled(kItemA), 1, size_.items(), constants_.item); }
std::string Generator::name() {
  return last_name(nurand(scaled(kLastNameA), 0, size_.names() - 1, constants_.last_name));
}

std::int64_t Generator::other_warehouse(std::int64_t home) {
  const std::int64_t drawn = uniform(1, size_.warehouses - 1);
  return drawn < home ? drawn : drawn + 1;
}

std::string Generator::letters(std::int64_t low, std::int64_t high) {
  static constexpr std::string_view kAlphabet =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::string text(static_cast<std::size_t>(uniform(low, high)), '\0');
  for (char& letter : text) letter = kAlphabet[random_.below(kAlphabet.size())];
  return text;
}

std::string Generator::digits(std::int64_t count) {
  std::string text(static_cast<std::size_t>(count), '\0');
  for (char& digit : text) digit = static_cast<char>('0' + random_.below(10));
  return text;
}

std::string Generator::data() {
  static constexpr std::string_view kOriginal = "ORIGINAL";
  std::string text = letters(26, 50);
  if (percent(10)) {
    const auto last = static_cast<std::int64_t>(text.size() - kOriginal.size());
    text.replace(static_cast<std::size_t>(uniform(0, last)), kOriginal.size(), kOriginal);
  }
  return text;
}

}  // namespace perdure::bench::tpcc
