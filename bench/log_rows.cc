#include "bench/log_rows.h"

#include "bench/scratch_memory.h"
#include "perdure/domain/adr.h"
#include "perdure/log/commit_log.h"
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
      log_.append(domain, payload);
      (void)log_.make_durable(domain);
    }
  }

  Contestant appends(std::uint64_t bytes) {
    return {{},
            [this, payload = std::vector<Word>(bytes / kWordBytes, 0x5a5a)](
                std::uint64_t operations, unsigned) {
              switch (x86::best_write_back()) {
                case x86::WriteBack::kClwb: return append(Adr<x86::Clwb>{}, payload, operations);
                case x86::WriteBack::kClflushopt:
                  return append(Adr<x86::Clflushopt>{}, payload, operations);
                case x86::WriteBack::kClflush:
                  return append(Adr<x86::Clflush>{}, payload, operations);
              }
            }};
  }

 private:
  ScratchMemory memory_;
  Log log_;
};

}  // namespace

std::vector<LogRow> measure_logs(const std::string& dir, const RaceRules& rules) {
  BareLog<TornbitLog> tornbit(dir);
  BareLog<CommitLog> commit_record(dir);
  Team team(1);
  std::vector<LogRow> rows;
  for (std::uint64_t bytes = 8; bytes <= 4096; bytes *= 2) {
    const std::vector<Timing> timings =
        race(team, {tornbit.appends(bytes), commit_record.appends(bytes)}, rules);
    rows.push_back({bytes, timings[0], timings[1]});
  }
  return rows;
}

}  // namespace perdure::bench
