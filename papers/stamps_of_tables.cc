// SPDX-License-Identifier: BSD-3-Clause
#include "papers/stamp.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> stamp<Tables>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<Tables>(with) : stamp_on_files<Tables>(with);
}

}  // namespace perdure::papers
