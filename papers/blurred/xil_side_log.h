// SPDX-License-Identifier: BSD-3-Clause
// XilSideLog: an XilLog behind the torn-bit log of a slot's ring (perdure/log/side_log.h). What must be committed while a
// transaction is open, or has no room here, goes to the torn-bit log.
#pragma once

#include <vector>

#include "papers/blurred/xil_log.h"
#include "perdure/log/log_area.h"

namespace perdure::blurred {

class XilSideLog final : public SideLog {
 public:
  explicit XilSideLog(const Ring& ring) : ring_(ring) {}

  static XilSideLog& of(LogSlot& slot) { return static_cast<XilSideLog&>(*slot.side); }
  static const XilSideLog& of(const LogSlot& slot) {
    return static_cast<const XilSideLog&>(*slot.side);
  }

  /// There from prepare() or collect() on.
  std::optional<XilLog>& log() { return log_; }
  const std::optional<XilLog>& log() const { return log_; }
  /// Transactions closed from here on may have home words that are not durable yet.
  void open_from(xil::Place place) { unfenced_from_ = place; }

  void prepare(AnyDomain& domain) override;
  std::optional<std::string> collect(std::uint64_t retired, const Visit& visit) override;
  bool needs_settling() const override { return found_ || log_->needs_settling(); }
  void adopt(AnyDomain& domain) override { log_->adopt(domain); }
  void settle(AnyDomain& domain) override { log_->settle(domain); }
  void empty() override { give_back(log_->begin()); }
  bool holds_closed() const override { return log_ && log_->head() != log_->begin(); }
  bool begin_truncation(AnyDomain& domain, std::uint64_t last_timestamp, bool all,
                        OffsetSet& lines) override;
  void end_truncation() override { give_back(end_); }

 private:
  void give_back(xil::Place end) {
    unfenced_from_ = end;
    log_->truncate_to(end);
  }

  Ring ring_;
  std::optional<XilLog> log_;
  bool found_ = false;  // collect() found transactions
  xil::Place unfenced_from_ = 0;
  xil::Place end_ = 0;  // of what is being truncated
};

/// Rings in which transactions execute.
extern const SideLogFormat kXilFormat;

}  // namespace perdure::blurred
