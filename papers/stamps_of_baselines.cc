// SPDX-License-Identifier: BSD-3-Clause
#include "papers/stamp.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> stamp<Base>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<Base>(with) : stamp_on_files<Base>(with);
}
template <>
std::unique_ptr<Engine> stamp<Undo>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<Undo>(with) : stamp_on_files<Undo>(with);
}
template <>
std::unique_ptr<Engine> stamp<Nonatomic>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<Nonatomic>(with)
                                 : stamp_on_files<Nonatomic>(with);
}
template <>
std::unique_ptr<Engine> stamp<Volatile>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<Volatile>(with) : stamp_on_files<Volatile>(with);
}

}  // namespace perdure::papers
