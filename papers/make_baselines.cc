// SPDX-License-Identifier: BSD-3-Clause
#include "papers/make_engine.h"

namespace perdure::papers {

template <>
std::unique_ptr<Engine> make_engine<Base>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<Base>(with) : make_on_files<Base>(with);
}
template <>
std::unique_ptr<Engine> make_engine<BaseStream>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<BaseStream>(with)
                                 : make_on_files<BaseStream>(with);
}
template <>
std::unique_ptr<Engine> make_engine<Undo>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<Undo>(with) : make_on_files<Undo>(with);
}
template <>
std::unique_ptr<Engine> make_engine<Nonatomic>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<Nonatomic>(with) : make_on_files<Nonatomic>(with);
}
template <>
std::unique_ptr<Engine> make_engine<Volatile>(const EngineSetting& with) {
  return with.storage == nullptr ? make_on_memory<Volatile>(with) : make_on_files<Volatile>(with);
}

}  // namespace perdure::papers
