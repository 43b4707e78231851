// SPDX-License-Identifier: BSD-3-Clause
#include "bench/comparison/run.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "bench/comparison/apart.h"
#include "measure/settings.h"
#include "bench/system.h"

namespace perdure::bench::comparison {
namespace {

constexpr std::uint64_t kSample = 200;  // keys of a lane that are looked up after each row
constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

/// As it lies in shared memory.
struct SharedCell {
  bool measured;
  Cell cell;
};

/// One store with its threads' parts.
class Contender {
 public:
  Contender(const Plan& plan, const StoreKind& kind, std::uint64_t value_bytes, unsigned threads)
      : kind_(kind), directory_(plan.dir, kind.name), make_(maker_of(kind)) {
    const std::uint64_t live = std::max<std::uint64_t>(1, plan.live / threads);
    options_.dir = directory_.path();
    options_.place = plan.place;
    options_.value_bytes = value_bytes;
    options_.records = (live + 1) * threads;  // an insert comes before its delete
    options_.threads = threads;
    told([&] {
      store_ = make_(options_);
      for (unsigned thread = 0; thread < threads; ++thread) {
        lanes_.push_back(std::make_unique<Lane>(thread, live, value_bytes, plan.seed));
        lanes_.back()->fill(*store_);
      }
    });
  }

  bool can(Work work) const { return work != Work::kScan || kind_.ordered; }
  Contestant contestant(Work work) {
    return {{}, [this, work](std::uint64_t operations, unsigned thread) {
              told([&] { lanes_[thread]->run(*store_, work, operations); });
            }};
  }
  std::uint64_t verify(std::uint64_t most) {
    return told([&] {
      std::uint64_t looked_up = 0;
      for (const auto& lane : lanes_) looked_up += lane->verify(*store_, most);
      return looked_up;
    });
  }
  /// Closes the store, opens it again and looks at all of it.
  std::uint64_t verify_reopened() {
    return told([&] {
      store_.reset();
      store_ = make_(options_);
      if (kind_.ordered) verify_order(*store_, lanes_);
      return verify(kAll);
    });
  }

 private:
  /// Says whose failure it is.
  template <class Step>
  std::invoke_result_t<const Step&> told(const Step& step) {
    try {
      return step();
    } catch (const Exception& error) {
      throw Exception(error.code(), std::string(kind_.name) + ": " + error.what());
    }
  }

  const StoreKind& kind_;
  ScratchDirectory directory_;
  MakeStore make_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

Cell cell_of(const Timing& timing) {
  Cell cell;
  cell.ops_per_s = {1e9 / timing.wall_ns.median, 1e9 / timing.slowest_wall_ns,
                    1e9 / timing.fastest_wall_ns};
  cell.cpu_us = timing.cpu_ns.median / 1e3;
  cell.operations = timing.operations;
  return cell;
}

/// The rows of one size of values and one number of threads, which share their stores.
void measure_group(const Plan& plan, const std::vector<std::size_t>& rows, SharedCell* cells,
                   const std::function<void(std::size_t)>& tell) {
  const std::uint64_t value_bytes = plan.rows[rows[0]].info->value_bytes;
  const unsigned threads = plan.rows[rows[0]].threads;
  tell(rows[0]);
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const StoreKind* kind : plan.kinds)
    contenders.push_back(std::make_unique<Contender>(plan, *kind, value_bytes, threads));
  {
    Team team(threads, plan.place == Place::kMemory);
    for (const std::size_t row : rows) {
      if (row != rows[0]) tell(row);
      const Work work = plan.rows[row].info->work;
      std::vector<std::size_t> able;
      std::vector<Contestant> contestants;
      for (std::size_t kind = 0; kind < contenders.size(); ++kind) {
        if (!contenders[kind]->can(work)) continue;
        able.push_back(kind);
        contestants.push_back(contenders[kind]->contestant(work));
      }
      const std::vector<Timing> timings = race(team, contestants, plan.rules);
      for (std::size_t i = 0; i < able.size(); ++i) {
        SharedCell& shared = cells[row * plan.kinds.size() + able[i]];
        shared = {true, cell_of(timings[i])};
        shared.cell.verified = contenders[able[i]]->verify(kSample);
      }
    }
  }  // the team's threads leave the stores before these are closed
  for (std::size_t kind = 0; kind < contenders.size(); ++kind) {
    const std::uint64_t verified = contenders[kind]->verify_reopened();
    for (const std::size_t row : rows)
      cells[row * plan.kinds.size() + kind].cell.verified += verified;
    contenders[kind].reset();
  }
}

void measure_here(const Plan& plan, SharedCell* cells,
                  const std::function<void(std::size_t)>& tell) {
  std::vector<bool> done(plan.rows.size());
  for (std::size_t first = 0; first < plan.rows.size(); ++first) {
    if (done[first]) continue;
    std::vector<std::size_t> group;
    for (std::size_t row = first; row < plan.rows.size(); ++row) {
      if (plan.rows[row].threads != plan.rows[first].threads ||
          plan.rows[row].info->value_bytes != plan.rows[first].info->value_bytes)
        continue;
      group.push_back(row);
      done[row] = true;
    }
    measure_group(plan, group, cells, tell);
  }
}

}  // namespace

PlaceResult measure(const Plan& plan, std::size_t first_row, std::size_t all_rows) {
  const SharedMemory memory(plan.rows.size() * plan.kinds.size() * sizeof(SharedCell));
  auto* const cells = static_cast<SharedCell*>(memory.data());
  std::size_t told = first_row;
  run_apart([&] {
    measure_here(plan, cells, [&](std::size_t row) {
      reproduce::tell_progress(
          fmt::format("{}: {}, {} thread{}", place_name(plan.place), plan.rows[row].info->title,
                      plan.rows[row].threads, plan.rows[row].threads == 1 ? "" : "s"),
          told++, all_rows);
    });
  });
  PlaceResult result{plan, file_system_of(plan.dir), {}};
  for (std::size_t row = 0; row < plan.rows.size(); ++row) {
    auto& line = result.cells.emplace_back();
    for (std::size_t kind = 0; kind < plan.kinds.size(); ++kind) {
      const SharedCell& shared = cells[row * plan.kinds.size() + kind];
      line.push_back(shared.measured ? std::optional(shared.cell) : std::nullopt);
    }
  }
  return result;
}

}  // namespace perdure::bench::comparison
