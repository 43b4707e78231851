// SPDX-License-Identifier: BSD-3-Clause
// Reads rings that an attacker wrote with the recovery of execution in log, also with the checks of closing records made
// right, so that it follows their ways. Also a round trip: a log that counts as whole goes on, and what is committed
// behind it is read back exactly.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target xil_fuzz
//   xil_fuzz -timeout=1 -rss_limit_mb=512 -max_len=2048 [-runs=1000000 | -max_total_time=60] [corpus/]
//
// Input: byte 0 the kind of run, byte 1 the retired timestamp, then the words of the ring, whole lines of it.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "perdure/domain/dram.h"
#include "papers/blurred/xil_log.h"

namespace {

using namespace perdure;  // NOLINT

void require(bool holds) {
  if (!holds) std::abort();
}

struct alignas(kLineBytes) Line {
  Word words[kLineBytes / kWordBytes];
};

/// Gives every closing record the check of what stands there now, the records before it first.
void make_checks_right(const Ring& ring) {
  Dram domain;
  const xil::Records records(ring);
  for (xil::Place index = 0; index < records.count(); ++index) {
    const xil::Halves found = records.load(index);
    if (xil::is_data(found)) continue;
    xil::Closing closing = xil::closing_of(found);
    closing.timestamp %= 16;
    closing.back %= records.count();
    closing.age %= 4;
    const bool torn = (found.meta & xil::kTornInMeta) != 0;
    const xil::Place place = index + records.count() * (torn ? 2 : 3);
    records.store(domain, place, records.seal(closing, place));
  }
}

void go_on(const Ring& ring, const XilScan& scan, std::uint64_t retired) {
  Dram domain;
  XilLog log(ring, scan);
  log.adopt(domain);
  log.settle(domain);
  std::uint64_t timestamp = retired;
  if (!scan.transactions.empty()) timestamp = scan.transactions.back().timestamp;
  if (log.free_records() == 0) {
    retired = timestamp;
    log.truncate_to(log.begin());
  }
  if (timestamp == kMax48) return;
  log.append(domain, 8, 1);
  log.abort(domain);
  if (log.free_records() == 0) {
    retired = timestamp;
    log.truncate_to(log.begin());
  }
  log.append(domain, 16, ~Word{0});
  log.commit(domain, timestamp + 1);
  const XilScan after = scan_xil(ring, retired);
  require(after.damage == nullptr && !after.transactions.empty());
  require(after.transactions.back().timestamp == timestamp + 1);
  std::uint64_t updates = 0;
  for_each_update(ring, after.transactions.back(), [&](const xil::Update& update) {
    require(update.address == 16 && update.value == ~Word{0} && update.bytes == 0xff);
    ++updates;
  });
  require(updates == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes < 2 + kLineBytes) return 0;
  std::vector<Line> lines((bytes - 2) / kLineBytes);
  std::memcpy(lines.data(), data + 2, lines.size() * kLineBytes);
  const Ring ring{lines.front().words, lines.size() * kLineBytes / kWordBytes, nullptr};
  const std::uint64_t retired = data[1] % 16;
  if (data[0] % 2 != 0) make_checks_right(ring);

  const XilScan scan = scan_xil(ring, retired);
  require(scan.damage == nullptr || scan.transactions.empty());
  if (scan.damage != nullptr) return 0;
  require(scan.tail - scan.head <= ring.count / xil::kRecordWords);
  std::uint64_t last = retired;
  for (const XilTransaction& transaction : scan.transactions) {
    require(transaction.timestamp > last && transaction.first < transaction.commit);
    last = transaction.timestamp;
    for_each_update(ring, transaction, [](const xil::Update&) {});
  }
  // A log's age may forbid a commit that an attacker's timestamps lead to; an engine retires first.
  if (last - retired < 1000 && ring.count / xil::kRecordWords >= 8) go_on(ring, scan, retired);
  return 0;
}
