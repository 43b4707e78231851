// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>

#include "perdure/error.h"

int main() {
  const perdure::Exception missing(perdure::Code::kNotFound, "consumer: works");
  std::printf("%s\n", missing.what());
  return missing.code() == perdure::Code::kNotFound ? 0 : 1;
}
