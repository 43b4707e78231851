// SPDX-License-Identifier: BSD-3-Clause
#include "papers/stamp.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> stamp<Mnemosyne>(const StampParts& with) {
  return with.storage == nullptr ? stamp_on_memory<Mnemosyne>(with)
                                 : stamp_on_files<Mnemosyne>(with);
}
template <>
std::unique_ptr<Engine> stamp<PrivatePlacement>(const StampParts& with) {
  if (with.storage == nullptr) return stamp_on_memory<PrivatePlacement>(with);
  return with.storage->private_pages_over_memory() ? stamp_in_private_pages<PrivatePlacement>(with)
                                                   : stamp_on_files<PrivatePlacement>(with);
}

}  // namespace perdure::papers
