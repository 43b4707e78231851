// SPDX-License-Identifier: BSD-3-Clause
// What the Sync domain writes of a region: past the mapping, summed up, and seen by those who look on.
#include <algorithm>

#include "perdure/lost_pages.h"
#include "perdure/region/onlookers.h"
#include "perdure/region/region.h"

namespace perdure {

template <class Put>
bool RegionDevice::for_each_piece(Offset offset, const void* data, std::size_t bytes, Put put) {
  // The data may have been copied from zeros that stand for a page that could not be read.
  if (detail::any_lost_page() && region_->loss()) return false;
  const auto* from = static_cast<const std::byte*>(data);
  const auto piece_in = [&](const Region::Part& part) {
    const Offset begin = std::max(offset, part.begin);
    const Offset end = std::min(offset + bytes, part.end);
    return begin >= end || part.device == FileDevice(-1, -1) ||
           put(part.device, part.device_begin + (begin - part.begin), from + (begin - offset),
               end - begin);
  };
  if (!piece_in(region_->own_file())) return false;
  for (const Region::Part& part : region_->parts()) {
    if (!piece_in(part)) return false;
  }
  return true;
}

bool RegionDevice::write(Offset offset, const void* data, std::size_t bytes) {
  const PageSums::Writing summed(region_->sums(), offset, bytes);
  if (!summed.may()) return false;
  const Onlookers::Writing writing(region_->onlookers(), offset, bytes);
  return for_each_piece(
      offset, data, bytes,
      [&](FileDevice device, Offset at, const void* piece, std::size_t piece_bytes) {
        if (std::find(written_.begin(), written_.end(), device) == written_.end())
          written_.push_back(device);
        return device.write(at, piece, piece_bytes);
      });
}

bool RegionDevice::write_durable(Offset offset, const void* data, std::size_t bytes) {
  const PageSums::Writing summed(region_->sums(), offset, bytes);
  if (!summed.may()) return false;
  const Onlookers::Writing writing(region_->onlookers(), offset, bytes);
  return for_each_piece(
      offset, data, bytes,
      [](FileDevice device, Offset at, const void* piece, std::size_t piece_bytes) {
        return device.write_durable(at, piece, piece_bytes);
      });
}

bool RegionDevice::sync() {
  bool durable = true;
  for (FileDevice& device : written_) durable = device.sync() && durable;
  written_.clear();
  return durable;
}

}  // namespace perdure
