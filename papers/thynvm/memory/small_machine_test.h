// SPDX-License-Identifier: BSD-3-Clause
// A computer so small that its caches and tables overflow all the time: for tests.
#pragma once

#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "papers/thynvm/memory/model.h"

namespace perdure::memory {

inline Model small_model(Reading reading) {
  Model model = Model::of(reading);
  model.l1 = {2, 2, 4};
  model.l2 = {4, 2, 12};
  model.l3 = {8, 4, 28};
  model.block_entries = 16;
  model.page_entries = model.shadow_buffers = 6;
  model.to_pages = 6;
  model.to_blocks = 4;
  if (model.flush_after_dirtied != 0) model.flush_after_dirtied = 8;
  if (model.epoch != 0) model.epoch = cycles_of_us(20);
  return model;
}

/// What a test of a system and a reading is called.
inline std::string name_of_system_and_reading(
    const testing::TestParamInfo<std::tuple<System, Reading>>& test) {
  std::string name = std::string(system_name(std::get<0>(test.param))) + "_" +
                     std::string(reading_name(std::get<1>(test.param)));
  std::erase(name, '-');
  return name;
}

}  // namespace perdure::memory
