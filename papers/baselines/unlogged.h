// SPDX-License-Identifier: BSD-3-Clause
// Unlogged: the baselines, engines without a log: what isolation and flushes cost by themselves. Not for data.
#pragma once

#include "perdure/engine/engine_on.h"

namespace perdure::baselines {

/// The baselines: no log. With `kFlush` home words are flushed and fenced once, at the end (a cut
/// in between leaves half a transaction); without it nothing is made durable at all.
template <Domain D, bool kFlush>
class Unlogged final : public EngineOn<D> {
  using Base = EngineOn<D>;
  using Base::domain_, Base::parts_;

 public:
  using Base::Base;
  std::string_view name() const override { return kFlush ? "nonatomic" : "volatile"; }
  bool is_durable() const override { return false; }
  Result<RecoveryReport> recover() override { return Base::recover_into(RingLayout::kTornbit); }
  void commit(Tx& tx, std::size_t, Durability) override {
    const std::uint64_t timestamp = parts_.clock->draw().timestamp;
    tx.validate_at(timestamp);
    publish(tx.writes(), 0);
    tx.make_visible(timestamp);
    tx.finish();
  }
  void publish(std::span<const MaskedWrite> writes, std::size_t) override {
    for (const MaskedWrite& write : writes) {
      parts_.logs->apply(domain_, write);
      if (kFlush) domain_.flush(parts_.region->word(write.offset), kWordBytes, Site::kHome);
    }
    if (kFlush) (void)domain_.fence(Site::kLogCommit);  // a baseline: it promises nothing
  }
  void sync() override {}
  void truncate() override {}
  void set_truncation(Truncation) override {
    throw Exception(Code::kMisuse, "this engine keeps no logs that could be truncated");
  }
  Truncation truncation() const override { return Truncation::kAuto; }
};

}  // namespace perdure::baselines
