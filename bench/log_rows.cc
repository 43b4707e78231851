// SPDX-License-Identifier: BSD-3-Clause
#include "bench/log_rows.h"

#include "measure/scratch_memory.h"
#include "perdure/domain/adr.h"
#include "perdure/log/commit_log.h"
#include "perdure/log/line_log.h"
#include "perdure/log/tornbit_log.h"

namespace perdure::bench {
namespace {

constexpr std::uint64_t kRingBytes = std::uint64_t{1} << 20;

/// A log on scratch memory, emptied whenever it is full, as an application's log would be.
template <class Log>
class BareLog {
 public:
  explicit BareLog(const std::string& dir)
      : memory_(dir, kRingBytes + kLineBytes),
        log_(Ring{memory_.words() + kLineBytes / kWordBytes, kRingBytes / kWordBytes,
                  memory_.words()},
             0, 0) {}

  template <Domain D>
  void append(D domain, std::span<const Word> payload, std::uint64_t operations) {
    for (; operations > 0; --operations) {
      if (log_.free_words() < Log::log_words(payload.size())) {
        log_.truncate();
        log_.persist_head(domain);
        // Orders: the head before the words behind it are written again, as in every user of these
        //         logs.
        (void)domain.fence(Site::kHeadFence);
      }
      (void)log_.append(domain, payload);
      (void)log_.make_durable(domain);
    }
  }

  Contestant appends(std::uint64_t bytes, const std::optional<LatencyModel>& latency) {
    return {{},
            [this, latency, payload = std::vector<Word>(bytes / kWordBytes, 0x5a5a)](
                std::uint64_t operations, unsigned) {
              switch (x86::best_write_back()) {
                case x86::WriteBack::kClwb:
                  return append_to<x86::Clwb>(latency, payload, operations);
                case x86::WriteBack::kClflushopt:
                  return append_to<x86::Clflushopt>(latency, payload, operations);
                case x86::WriteBack::kClflush:
                  return append_to<x86::Clflush>(latency, payload, operations);
              }
            }};
  }

 private:
  template <class WriteBack>
  void append_to(const std::optional<LatencyModel>& latency, std::span<const Word> payload,
                 std::uint64_t operations) {
    if (latency) {
      append(Latency<Adr<WriteBack>>(*latency, {}), payload, operations);
    } else {
      append(Adr<WriteBack>{}, payload, operations);
    }
  }

  ScratchMemory memory_;
  Log log_;
};

}  // namespace

std::vector<LogRow> measure_logs(const std::string& dir, const RaceRules& rules,
                                 const std::vector<std::uint64_t>& sizes,
                                 const std::optional<LatencyModel>& latency) {
  BareLog<TornbitLog> tornbit(dir);
  BareLog<LineLog> line(dir);
  BareLog<CommitLog> commit_record(dir);
  Team team(1);
  std::vector<LogRow> rows;
  for (const std::uint64_t bytes : sizes) {
    const std::vector<Timing> timings =
        race(team,
             {tornbit.appends(bytes, latency), line.appends(bytes, latency),
              commit_record.appends(bytes, latency)},
             rules);
    rows.push_back({bytes, timings[0], timings[1], timings[2]});
  }
  return rows;
}

}  // namespace perdure::bench
