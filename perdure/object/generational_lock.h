// SPDX-License-Identifier: BSD-3-Clause
// generational_lock: a lock in an object, which a crash releases (NV-heaps §3.3). It holds the
// generation of the heap that took it; every open begins a new one, so no scan is needed to free
// what a dead process held.
#pragma once

#include "perdure/object/core.h"
#include "perdure/object/types.h"

namespace perdure {

/// A field of a persistent class, for data that has to stay as it is across several transactions.
/// (Within one nothing needs a lock.) The lock is taken and released inside transactions, and both
/// take effect with them. Threads: any; it does not know which has it.
class generational_lock {
 public:
  generational_lock() = delete;
  generational_lock* operator&() = delete;

  bool held() const {
    detail::Session& session = detail::session_of(this, sizeof(*this));
    return session.load(generation_) == session.core->generation();
  }
  /// False: it is taken.
  bool try_acquire() {
    if (held()) return false;
    detail::Session& session = detail::session_of(this, sizeof(*this));
    session.store(generation_, session.core->generation());
    return true;
  }
  void release() { detail::session_of(this, sizeof(*this)).store(generation_, std::uint64_t{0}); }

 private:
  generational_lock(const generational_lock&) = default;
  std::uint64_t generation_;
};

template <>
struct detail::MemberTraits<generational_lock> {
  static constexpr bool kIsMember = true;
  static constexpr MemberKind kKind = MemberKind::kValue;
  static constexpr std::size_t kCount = 1;
  using Targets = List<>;
  static std::string type() { return "generational_lock"; }
};

}  // namespace perdure
