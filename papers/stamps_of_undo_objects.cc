// SPDX-License-Identifier: BSD-3-Clause
#include "papers/stamp.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> stamp<UndoObjects>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<UndoObjects>(with)
                                 : stamp_on_files<UndoObjects>(with);
}

}  // namespace perdure::papers
