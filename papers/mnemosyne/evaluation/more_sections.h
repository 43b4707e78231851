// SPDX-License-Identifier: BSD-3-Clause
// Experiments of Mnemosyne's §6 that its text tells of in a sentence, without a figure.
#pragma once

#include "measure/settings.h"

namespace perdure::bench::reproduce {

/// §6.3: what a transaction pays for a word that it writes and for a line that it commits; how many
/// of both an insert has.
Section measure_costs(const Settings& settings);
/// §6.2: the stores of Table 4 with several threads.
Section measure_store_threads(const Settings& settings);
/// §6.4: truncation in the background at 2000 ns.
Section measure_slow_truncation(const Settings& settings);

}  // namespace perdure::bench::reproduce
