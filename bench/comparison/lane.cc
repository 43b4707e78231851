// SPDX-License-Identifier: BSD-3-Clause
#include "bench/comparison/lane.h"

#include <algorithm>

namespace perdure::bench::comparison {
namespace {

constexpr std::uint64_t kLargestFill = 32 << 10;  // bytes of values in one transaction

}  // namespace

Lane::Lane(unsigned thread, std::uint64_t live, std::uint64_t value_bytes, std::uint64_t seed)
    : thread_(thread), churn_(live), random_(seed * 1000 + thread), versions_(2 * live + 1) {
  // Bytes that do not compress; make_value() writes over both ends of them.
  Random noise(seed);
  std::string value(value_bytes, '\0');
  for (char& byte : value) byte = static_cast<char>(noise.next());
  values_.assign(std::clamp<std::uint64_t>(kLargestFill / value_bytes, kBatched, 256), value);
}

void Lane::make_value(std::uint64_t number, std::uint64_t version, std::string& value) const {
  const std::uint64_t stamp = Random(key_of(number) ^ (version << 40)).next();
  std::memcpy(value.data(), &stamp, sizeof(stamp));
  std::memcpy(value.data() + value.size() - sizeof(stamp), &stamp, sizeof(stamp));
}

void Lane::replace(Store& store, const std::vector<std::uint64_t>& numbers) {
  records_.clear();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    make_value(numbers[i], ++versions_[numbers[i]], values_[i]);
    records_.push_back({key_of(numbers[i]), values_[i]});
  }
  store.put(thread_, records_);
}

void Lane::fill(Store& store) {
  for (std::uint64_t at = 0; at < churn_.live(); at += values_.size()) {
    const auto begin = churn_.keys().begin() + static_cast<std::ptrdiff_t>(at);
    replace(store, {begin, begin + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(
                                       values_.size(), churn_.live() - at))});
  }
}

void Lane::scan(Store& store) {
  std::uint64_t last = key_of(churn_.any_live(random_));
  std::uint64_t bytes = 0;
  store.scan(thread_, last, kScanned, [&](std::uint64_t key, std::string_view value) {
    if (key < last)
      throw Exception(Code::kCorrupt, "peers: a scan came to key " + std::to_string(key) +
                                          " after key " + std::to_string(last));
    last = key;
    bytes += value.size();
  });
  if (bytes == 0)
    throw Exception(Code::kCorrupt, "peers: a scan from key " + std::to_string(last) +
                                        ", which is there, found nothing");
}

void Lane::run(Store& store, Work work, std::uint64_t operations) {
  std::vector<std::uint64_t> numbers(work == Work::kBatch ? kBatched : 1);
  for (; operations > 0; --operations) {
    switch (work) {
      case Work::kChurn:
        if (churn_.insert_is_next()) {
          numbers[0] = churn_.insert(random_);
          replace(store, numbers);
        } else {
          store.erase(thread_, key_of(churn_.erase(random_)));
        }
        break;
      case Work::kLookUp: {
        const std::uint64_t number = churn_.any_live(random_);
        if (!store.get(thread_, key_of(number), found_)) fail(number, "is not there");
        break;
      }
      case Work::kScan: scan(store); break;
      case Work::kBatch:
        for (std::uint64_t& number : numbers) number = churn_.any_live(random_);
        replace(store, numbers);
        break;
    }
  }
}

void Lane::fail(std::uint64_t number, const char* what) const {
  throw Exception(Code::kCorrupt, "peers: a store does not hold what it acknowledged: key " +
                                      std::to_string(key_of(number)) + " " + what +
                                      "; its figures would mean nothing");
}

std::uint64_t Lane::verify(Store& store, std::uint64_t most) const {
  const std::uint64_t step = std::max<std::uint64_t>(1, keys() / std::max<std::uint64_t>(1, most));
  std::string expected = values_.front();
  std::string found;
  std::uint64_t looked_up = 0;
  for (std::uint64_t i = 0; i < keys(); i += step, ++looked_up) {
    const std::uint64_t number = churn_.keys()[i];
    const bool there = store.get(thread_, key_of(number), found);
    if (i >= live()) {
      if (there) fail(number, "was deleted and is there");
      continue;
    }
    if (!there) fail(number, "is not there");
    make_value(number, versions_[number], expected);
    if (found != expected) fail(number, "has another value");
  }
  return looked_up;
}

void verify_order(Store& store, const std::vector<std::unique_ptr<Lane>>& lanes) {
  std::uint64_t expected = 0;
  for (const auto& lane : lanes) expected += lane->live();
  std::uint64_t seen = 0;
  std::uint64_t last = 0;
  bool ascending = true;
  store.scan(0, 0, expected + 1, [&](std::uint64_t key, std::string_view) {
    ascending = ascending && (seen == 0 || key > last);
    last = key;
    ++seen;
  });
  if (!ascending || seen != expected)
    throw Exception(Code::kCorrupt, "peers: a scan of the whole store found " +
                                        std::to_string(seen) + " records of " +
                                        std::to_string(expected) +
                                        (ascending ? "" : ", and not in order"));
}

}  // namespace perdure::bench::comparison
