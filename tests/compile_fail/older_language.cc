// Expect: perdure: these headers are C++20; compile with -std=c++20
// Options: -std=c++17
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/perdure.h"
