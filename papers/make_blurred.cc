// SPDX-License-Identifier: BSD-3-Clause
#include "papers/make_engine.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> make_engine<Blurred>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<Blurred>(with) : make_on_files<Blurred>(with);
}
template <>
std::unique_ptr<Engine> make_engine<Adaptive>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<Adaptive>(with) : make_on_files<Adaptive>(with);
}

}  // namespace perdure::papers
