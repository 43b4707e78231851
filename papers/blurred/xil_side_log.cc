// SPDX-License-Identifier: BSD-3-Clause
#include "papers/blurred/xil_side_log.h"

#include <algorithm>

namespace perdure::blurred {

const SideLogFormat kXilFormat = {
    .head_salt = kSaltInLogHead,
    .tornbit_words =
        [](std::uint64_t ring_words) {
          // A quarter, but 2 KiB, which the heap's largest record needs, and no less than an XilLog cannot use.
          constexpr std::uint64_t kMostInLog = (xil::kMaxBack + 1) * xil::kRecordWords;
          return std::max({std::uint64_t{256}, ring_words / 4,
                           ring_words > kMostInLog ? ring_words - kMostInLog : 0});
        },
    .make = [](const Ring& ring) -> std::unique_ptr<SideLog> {
      return std::make_unique<XilSideLog>(ring);
    }};

void XilSideLog::prepare(AnyDomain& domain) {
  log_.emplace(XilLog::first_in(domain, ring_));
  unfenced_from_ = log_->begin();
}

std::optional<std::string> XilSideLog::collect(std::uint64_t retired, const Visit& visit) {
  const XilScan scan = scan_xil(ring_, retired);
  if (scan.damage != nullptr)
    return ", record " + std::to_string(scan.damaged_record) +
           " of execution in log: " + scan.damage;
  log_.emplace(ring_, scan);
  found_ = !scan.transactions.empty();
  std::vector<MaskedWrite> writes;
  for (const XilTransaction& transaction : scan.transactions) {
    const std::uint64_t place = transaction.commit % (ring_.count / xil::kRecordWords);
    writes.clear();
    if (!for_each_write(ring_, transaction,
                        [&](const MaskedWrite& write) { writes.push_back(write); }))
      return ", the transaction that ends at record " + std::to_string(place) +
             " has a mask without its word";
    if (auto refused = visit(transaction.timestamp, place, writes)) return refused;
  }
  return std::nullopt;
}

bool XilSideLog::begin_truncation(AnyDomain& domain, std::uint64_t last_timestamp, bool all,
                                  OffsetSet& lines) {
  // Once: its owner may abort meanwhile.
  const xil::Place closed = log_->begin();
  end_ = log_->for_each_closed(
      all ? log_->head() : unfenced_from_, closed,
      [&](std::uint64_t timestamp, xil::Place first, xil::Place commit) {
        if (timestamp > last_timestamp) return false;
        for (xil::Place place = first; place < commit; ++place)
          lines.insert(round_down(log_->update(place).address, kLineBytes));
        return true;
      },
      [](xil::Place, xil::Place) {});
  if (!all) end_ = closed;
  if (end_ == log_->head()) return false;
  log_->reset_holes(domain, end_);
  return true;
}

}  // namespace perdure::blurred
