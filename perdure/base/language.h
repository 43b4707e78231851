// SPDX-License-Identifier: BSD-3-Clause
// Included before all else by the headers that every other one begins with, so that an older C++ hears this first.
#pragma once

#if __cplusplus < 202002L
#error "perdure: these headers are C++20; compile with -std=c++20"
#endif
