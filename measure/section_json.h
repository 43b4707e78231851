// SPDX-License-Identifier: BSD-3-Clause
// A section as JSON, and back again, so that a run that was stopped goes on where it was.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "measure/section.h"

namespace perdure::bench::reproduce {

nlohmann::ordered_json json_of(const Section& section);
/// Errors: those of nlohmann::json, where it is not such a section.
Section section_from(const nlohmann::ordered_json& json);

}  // namespace perdure::bench::reproduce
