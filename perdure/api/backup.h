// SPDX-License-Identifier: BSD-3-Clause
// What Pool::back_up() does, for tools that show how far it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "perdure/error.h"

namespace perdure {

/// `show(done, all)`, in bytes, is called now and then.
Result<std::uint64_t> back_up_pool(
    const std::string& from, const std::string& to,
    const std::function<void(std::uint64_t done, std::uint64_t all)>& show);

}  // namespace perdure
