// SPDX-License-Identifier: BSD-3-Clause
#include "papers/make_engine.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> make_engine<Tables>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<Tables>(with) : make_on_files<Tables>(with);
}

}  // namespace perdure::papers
