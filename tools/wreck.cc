// SPDX-License-Identifier: BSD-3-Clause
#include "tools/wreck.h"

#include <algorithm>
#include <cstring>

#include "perdure/base/crc32c.h"
#include "perdure/heap/layout.h"
#include "tools/known_types.h"

namespace perdure::tools {

bool is_whole(const RootEntry& entry) {
  return entry.name[0] != '\0' && entry.check == crc32c(&entry, offsetof(RootEntry, check));
}

bool mend_root(RootEntry& entry, const std::vector<Reachability::Object>& live) {
  RootEntry changed = entry;
  auto* const bytes = reinterpret_cast<unsigned char*>(&changed);
  for (std::size_t bit = 0; bit < 8 * sizeof(entry); ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    if (is_whole(changed)) {
      entry = changed;
      return true;
    }
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  }
  for (const Reachability::Object& object : live) {
    changed.object = object.offset;
    if (!is_whole(changed)) continue;
    entry = changed;
    return true;
  }
  return false;
}

Wreck::Wreck(const std::string& path) : pool_(inspect_wreck(path, lost_).value()) {
  core_of(pool_).heap().for_each_object(
      [&](Offset offset, std::uint64_t bytes) { live_.push_back({offset, bytes}); });
  std::sort(live_.begin(), live_.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  reached_.resize(live_.size());
  owned_.resize(live_.size());
  find_roots();
  survey();
}

void Wreck::find_roots() {
  const Region& region = core_of(pool_).region();
  const auto* table =
      reinterpret_cast<const RootEntry*>(region.base() + region.superblock().root_offset);
  for (std::uint32_t i = 0; i < region.geometry().root_entries; ++i) {
    RootEntry entry = table[i];
    const RootEntry vacant{};
    if (std::memcmp(&entry, &vacant, sizeof(entry)) == 0) continue;
    if (!is_whole(entry) && !mend_root(entry, live_)) continue;  // said when the pool was opened
    const auto at = find(entry.object);
    if (at == live_.end() || at->bytes < entry.bytes) continue;
    roots_.push_back({{entry.name.data(), ::strnlen(entry.name.data(), entry.name.size())},
                      entry.type,
                      entry.object,
                      entry.bytes});
  }
}

void Wreck::survey() {
  for (const Root& root : roots_) {
    reached_[index_of(root.object)] = true;
    const KnownType* known = find_known_type(root.type);
    if (known != nullptr && known->bytes == root.bytes && known->salvage != nullptr) {
      known->salvage(*this, root, nullptr);
    } else {
      damaged_.push_back(root.object);  // what it leads to is not known: it may be any object
    }
  }
  // Where all is sound and yet something is left over, a link that is zero looks like nothing.
  if (damaged_.empty() && strays() > 0) {
    damaged_ = empty_;
    owned_.assign(live_.size(), false);
  }
  surveying_ = false;
}

Wreck::Objects::const_iterator Wreck::find(Offset offset) const {
  const auto found = std::lower_bound(
      live_.begin(), live_.end(), offset,
      [](const Reachability::Object& object, Offset wanted) { return object.offset < wanted; });
  return found != live_.end() && found->offset == offset ? found : live_.end();
}

std::size_t Wreck::index_of(Offset offset) const {
  const auto found = find(offset);
  if (found == live_.end())
    throw Exception(Code::kCorrupt,
                    "refers to byte " + std::to_string(offset) + ", where no live object starts");
  return static_cast<std::size_t>(found - live_.begin());
}

detail::Room Wreck::room(std::size_t index) const { return room_of(pool_, live_[index].bytes); }

}  // namespace perdure::tools
