// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perdure/mentions.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "perdure/api/pool_core.h"
#include "perdure/append_log.h"

namespace perdure::tools {
namespace {

class Search {
 public:
  Search(Pool& pool, std::vector<RegionEntry> regions)
      : pool_(&pool),
        region_(&core_of(pool).region()),
        objects_(live_objects(pool)),
        regions_(std::move(regions)),
        object_found_(objects_.size()),
        region_found_(regions_.size()) {}

  Unmentioned run(std::span<const std::byte> more) {
    scan(more.data(), more.size());
    for (const RegionEntry& region : regions_) scan(region_->base() + region.begin, region.bytes);
    for (const RootEntry& root :
         pool_->read_only([&](Tx& tx) { return core_of(*pool_).roots(tx); })) {
      found_object(root.object);
      if (root.type == Log::root_type()) scan_log(root);
    }
    while (!to_scan_.empty()) {
      const Reachability::Object object = objects_[to_scan_.back()];
      to_scan_.pop_back();
      scan(region_->base() + object.offset, object.bytes);
    }
    Unmentioned result;
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      if (!object_found_[i]) result.objects.push_back(objects_[i]);
    }
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      if (!region_found_[i]) result.regions.push_back(regions_[i]);
    }
    return result;
  }

 private:
  void scan(const std::byte* begin, std::uint64_t bytes) {
    for (std::uint64_t at = 0; at + kWordBytes <= bytes; at += kWordBytes) {
      Word word = 0;
      std::memcpy(&word, begin + at, kWordBytes);
      if (word == 0) continue;
      found_object(word);  // a link
      const Offset address = word - region_->superblock().preferred_base;
      found_object(address);
      if (const auto which = holder(regions_, address, [](const auto& r) { return r.begin; });
          which < regions_.size())
        region_found_[which] = true;
    }
  }

  /// A ring's own words hold the records shifted among torn bits.
  void scan_log(const RootEntry& root) {
    const std::string name(root.name.data(), ::strnlen(root.name.data(), root.name.size()));
    Log log = Log::open_or_create(*pool_, name, kPageBytes).value();
    log.for_each([&](std::span<const std::byte> record) { scan(record.data(), record.size()); });
  }

  /// `offset` may be anything.
  void found_object(Offset offset) {
    if (const auto at = holder(objects_, offset, [](const auto& o) { return o.offset; });
        at < objects_.size() && !object_found_[at]) {
      object_found_[at] = true;
      to_scan_.push_back(at);
    }
  }

  /// The index of the piece that `offset` lies in, or past the end.
  template <class Piece, class Begin>
  static std::size_t holder(const std::vector<Piece>& pieces, Offset offset, Begin begin) {
    const auto after =
        std::upper_bound(pieces.begin(), pieces.end(), offset,
                         [&](Offset wanted, const Piece& piece) { return wanted < begin(piece); });
    if (after == pieces.begin()) return pieces.size();
    const Piece& piece = *std::prev(after);
    if (offset - begin(piece) >= piece.bytes) return pieces.size();
    return static_cast<std::size_t>(std::prev(after) - pieces.begin());
  }

  Pool* pool_;
  Region* region_;
  std::vector<Reachability::Object> objects_;
  std::vector<RegionEntry> regions_;
  std::vector<bool> object_found_;
  std::vector<bool> region_found_;
  std::vector<std::size_t> to_scan_;  // objects that were found but not looked into
};

}  // namespace

std::vector<Reachability::Object> live_objects(Pool& pool) {
  std::vector<Reachability::Object> objects;
  core_of(pool).heap().for_each_object(
      [&](Offset offset, std::uint64_t bytes) { objects.push_back({offset, bytes}); });
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return objects;
}

Unmentioned find_unmentioned(Pool& pool) { return Search(pool, {}).run({}); }

Unmentioned find_unmentioned(AddressSpace& space) {
  return Search(space.pool(), space.regions()).run(space.statics_file());
}

}  // namespace perdure::tools
