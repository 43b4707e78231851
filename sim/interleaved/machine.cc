// SPDX-License-Identifier: BSD-3-Clause
#include "sim/interleaved/machine.h"

#include <vector>

namespace perdure::interleaved {
namespace {

struct Seen {
  std::size_t thread;
  const void* place;
  std::uint64_t bits;
};
struct LateStore {
  std::size_t thread;
  void* place;
  std::uint64_t bits;
  void (*store)(void*, std::uint64_t);
};

std::uint64_t times_met = 0;
std::vector<Seen> all_seen;
std::vector<Seen> all_changed;  // what was there before
std::vector<LateStore> late_stores;

void put(std::vector<Seen>& all, const void* place, std::uint64_t bits) {
  const std::size_t me = interleave::current();
  for (Seen& seen : all) {
    if (seen.thread == me && seen.place == place) {
      seen.bits = bits;
      return;
    }
  }
  all.push_back({me, place, bits});
}
std::optional<std::uint64_t> get(const std::vector<Seen>& all, const void* place) {
  const std::size_t me = interleave::current();
  for (const Seen& seen : all) {
    if (seen.thread == me && seen.place == place) return seen.bits;
  }
  return std::nullopt;
}

bool stands_in(const detail::Here& here, std::string_view function) {
  return std::string_view(here.function_name()).find(function) != std::string_view::npos;
}

}  // namespace

WithFault::WithFault(const Fault& fault) {
  times_met = 0;
  detail::fault = &fault;
}
WithFault::~WithFault() { detail::fault = nullptr; }
std::uint64_t WithFault::met() const { return times_met; }

void share(const void* begin, std::size_t bytes) {
  detail::shared_begin = static_cast<const std::byte*>(begin);
  detail::shared_bytes = bytes;
}

void forget_seen() {
  all_seen.clear();
  all_changed.clear();
  late_stores.clear();
}

namespace detail {

bool is_left_out(Access access, std::memory_order order, const Here& here) {
  if (access != fault->access || !fault->late_until.empty() || !interleave::in_body()) return false;
  if (fault->order && *fault->order != order) return false;
  if (!fault->function.empty() && !stands_in(here, fault->function)) return false;
  if (fault->when != nullptr && !fault->when()) return false;
  ++times_met;
  return true;
}

bool put_off(void* place, std::uint64_t bits, void (*store)(void*, std::uint64_t),
             const Here& here) {
  if (fault->late_until.empty() || !interleave::in_body()) return false;
  if (!stands_in(here, fault->function)) return false;
  if (fault->when != nullptr && !fault->when()) return false;
  ++times_met;
  late_stores.push_back({interleave::current(), place, bits, store});
  return true;
}

void make_late_stores(const Here& here) {
  if (fault->late_until.empty() || !stands_in(here, fault->late_until)) return;
  const std::size_t me = interleave::current();
  for (const LateStore& late : late_stores) {
    if (late.thread != me) continue;
    interleave::step();
    late.store(late.place, late.bits);
    interleave::changed();
  }
  std::erase_if(late_stores, [&](const LateStore& late) { return late.thread == me; });
}

void note(const void* place, std::uint64_t bits) { put(all_seen, place, bits); }
std::optional<std::uint64_t> seen(const void* place) { return get(all_seen, place); }
void note_change(const void* place, std::uint64_t before) { put(all_changed, place, before); }
std::uint64_t changed_from(const void* place) { return get(all_changed, place).value_or(0); }

}  // namespace detail
}  // namespace perdure::interleaved
