// SPDX-License-Identifier: BSD-3-Clause
// What `perdure-lab bench peers` found, in its three forms.
#pragma once

#include <string>
#include <vector>

#include "bench/comparison/run.h"
#include "measure/report.h"

namespace perdure::bench::comparison {

struct Report {
  Environment environment;
  double seconds = 0;
  std::vector<const StoreKind*> not_built;  // for want of their library
  std::vector<PlaceResult> places;
};

std::string text_of(const Report& report);
std::string json_of(const Report& report);
/// One page that needs nothing else: well-formed XML, charts as SVG.
std::string html_of(const Report& report);

// ---- what the forms share -------------------------------------------------------------------------

/// Ours over a peer's on a row: how many times as many operations.
struct Ratio {
  const StoreKind* ours;
  Spread spread;
};
/// To each of ours there with the same abilities: an ordered peer is held against the btree_map, one
/// without order against the hash_map. Empty for ours, and where the peer was not measured.
std::vector<Ratio> ratios_of(const PlaceResult& place, std::size_t row, std::size_t kind);

/// The numbers of threads, each once.
std::vector<unsigned> threads_of(const PlaceResult& place);
/// What to know before the figures, in sentences; a paragraph each.
std::vector<std::string> introduction_of(const Report& report);
/// A table of a place and a number of threads, its head first; as text.
std::vector<std::vector<std::string>> rates_of(const PlaceResult& place, unsigned threads);
std::vector<std::vector<std::string>> ratio_table_of(const PlaceResult& place, unsigned threads);

}  // namespace perdure::bench::comparison
