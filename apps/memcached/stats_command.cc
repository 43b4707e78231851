// SPDX-License-Identifier: BSD-3-Clause
// stats: what the session itself knows of it; the rest the server says.
#include "apps/memcached/session.h"

namespace perdure::memcached {

void Session::stats(const Words& words, Buffer& out) {
  const std::string_view group = words[1];
  if (group == "reset") {
    if (service_->reset_stats) service_->reset_stats();
    return out.append("RESET\r\n");
  }
  const auto line = [&](std::string_view name, std::string_view value) {
    out.append("STAT ");
    out.append(name);
    out.append(' ');
    out.append(value);
    out.append("\r\n");
  };
  const auto number = [&](std::string_view name, std::uint64_t value) {
    line(name, NumberText(value).view());
  };
  const StoreCounts counts = service_->store->counts();
  if (group == "items") {
    // One class: sizes are the heap's affair.
    if (counts.items > 0) {
      number("items:1:number", counts.items);
      number("items:1:mem_requested", counts.bytes);
      number("items:1:evicted", counts.evictions);
      number("items:1:reclaimed", counts.reclaimed);
    }
  } else if (group == "slabs") {
    number("1:used_chunks", counts.items);
    number("1:mem_requested", counts.bytes);
    number("active_slabs", 1);
    number("total_malloced", counts.bytes);
  } else if (group == "sizes") {
    line("sizes_status", "disabled");
  } else if (!service_->stats || !service_->stats(group, line)) {
    return out.append("ERROR\r\n");
  }
  out.append("END\r\n");
}

}  // namespace perdure::memcached
