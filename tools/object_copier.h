// SPDX-License-Identifier: BSD-3-Clause
// Makes a heap of objects of what was found in a damaged one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "perdure/object/salvage.h"
#include "perdure/pool.h"

namespace perdure::tools {

class ObjectCopier {
 public:
  ObjectCopier(Pool& to, const std::string& root, const std::function<void(const std::string&)>&);
  /// All objects, with references to those that were found, and counts that are true of these.
  void operator()(const object_layout::Graph& graph);
  std::uint64_t finish() const { return objects_; }

 private:
  Pool* pool_;
  object_layout::Control* control_;
  std::uint64_t objects_ = 0;
};

}  // namespace perdure::tools
