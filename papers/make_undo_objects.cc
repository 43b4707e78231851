// SPDX-License-Identifier: BSD-3-Clause
#include "papers/make_engine.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> make_engine<UndoObjects>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<UndoObjects>(with)
                                 : make_on_files<UndoObjects>(with);
}

}  // namespace perdure::papers
