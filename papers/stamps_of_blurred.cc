// SPDX-License-Identifier: BSD-3-Clause
#include "papers/stamp.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> stamp<Blurred>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<Blurred>(with) : stamp_on_files<Blurred>(with);
}
template <>
std::unique_ptr<Engine> stamp<Adaptive>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<Adaptive>(with) : stamp_on_files<Adaptive>(with);
}

}  // namespace perdure::papers
