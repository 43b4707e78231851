// SPDX-License-Identifier: BSD-3-Clause
#include "papers/make_engine.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> make_engine<Mnemosyne>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<Mnemosyne>(with) : make_on_files<Mnemosyne>(with);
}
template <>
std::unique_ptr<Engine> make_engine<PrivatePlacement>(const EngineSetting& with) {
  if (with.storage == nullptr) return make_on_memory<PrivatePlacement>(with);
  return with.storage->private_pages_over_memory() ? make_in_private_pages<PrivatePlacement>(with)
                                                   : make_on_files<PrivatePlacement>(with);
}

}  // namespace perdure::papers
