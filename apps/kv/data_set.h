// SPDX-License-Identifier: BSD-3-Clause
// A real data set for the demo: WordNet's synsets, or the word list of the system.
#pragma once

#include <string>
#include <vector>

#include "apps/kv/formats.h"

namespace perdure::kv {

struct DataSet {
  std::string source;
  std::vector<Record> records;  // distinct keys, the same order in every process
};

/// The first `limit` records. Errors: throws Exception kNotFound, naming the package to install.
DataSet load_data_set(std::uint64_t limit);

}  // namespace perdure::kv
