// SPDX-License-Identifier: BSD-3-Clause
// kv demo: a real data set, durable transactions, and a parent that kills the loader in the middle,
// again and again.
//
// The worker tells the parent, through a pipe, the number of every record once its commit has
// returned. Whatever was told must be there after the kill, and whatever is there must be whole.
#include <sys/stat.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>
#include <unordered_map>

#include <fmt/core.h>

#include "apps/kv/data_set.h"
#include "apps/kv/kv.h"
#include "apps/kv/store.h"
#include "perdure/api/pool_core.h"
#include "perdure/expert.h"
#include "tools/child.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/reachability.h"

namespace perdure::kv {
namespace {

using Clock = std::chrono::steady_clock;
using tools::Message;
using tools::Report;

struct DemoOptions {
  std::string file = "data/words.pool";
  std::uint64_t records = ~std::uint64_t{0};
  std::uint64_t kills = 5;
  std::uint64_t threads = 8;
  double seconds = 40;
  std::uint64_t seed = std::random_device{}();
  bool json = false;
  std::string domain = "auto";
  ExpertOptions pool;
};

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// ---- the worker ---------------------------------------------------------------------------------

enum Tag : std::uint8_t { kAcknowledged, kTransactions, kElapsedNs };

/// Loads what is missing, one record to a transaction, until the time is up; record i is thread i %
/// threads' work.
void work(const DemoOptions& options) {
  const DataSet set = load_data_set(options.records);
  Pool pool = Pool::open(options.file, options.pool).value();
  Map* map = pool.root<Map>(kRoot);
  std::atomic<std::uint64_t> transactions{0};
  Clock::time_point start;
  std::barrier ready(static_cast<std::ptrdiff_t>(options.threads),
                     [&]() noexcept { start = Clock::now(); });
  std::vector<std::thread> threads;
  threads.reserve(options.threads);
  for (std::uint64_t t = 0; t < options.threads; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t next = t;
      while (next < set.records.size() &&
             pool.read_only([&](Tx& tx) { return map->contains(tx, set.records[next].key); })) {
        next += options.threads;
      }
      ready.arrive_and_wait();
      for (; next < set.records.size() && nanoseconds_since(start) < options.seconds * 1e9;
           next += options.threads) {
        const Record& record = set.records[next];
        pool.atomically([&](Tx& tx) { map->put(tx, record.key, record.value); });
        tools::send_to_parent({kAcknowledged, next});
        ++transactions;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto elapsed = static_cast<std::uint64_t>(nanoseconds_since(start));
  tools::send_to_parent({kTransactions, transactions});
  tools::send_to_parent({kElapsedNs, elapsed});
}

// ---- the parent ---------------------------------------------------------------------------------

class Demo {
 public:
  explicit Demo(const DemoOptions& options)
      : options_(&options),
        set_(load_data_set(options.records)),
        acknowledged_(set_.records.size(), false) {
    for (std::size_t i = 0; i < set_.records.size(); ++i) index_.emplace(set_.records[i].key, i);
  }

  int run() {
    begin_anew();
    std::mt19937_64 random(options_->seed);
    // Kills fall into the first three quarters, so that the last leg is long enough to be measured.
    std::uniform_int_distribution<std::uint64_t> anywhere(
        1, std::max<std::uint64_t>(1, set_.records.size() * 3 / 4));
    std::vector<std::uint64_t> targets(options_->kills);
    for (std::uint64_t& target : targets) target = anywhere(random);
    std::sort(targets.begin(), targets.end());

    Report kills = Report::array();
    Report costs;
    {
      tools::Progress progress("loading " + set_.source, set_.records.size());
      for (const std::uint64_t target : targets) {
        run_worker(target, progress);
        kills.push_back(verify());
      }
      costs = run_worker(kToTheEnd, progress);
    }
    const auto present = verify()["present"].get<std::uint64_t>();
    tools::print(report(present, kills, costs), options_->json);
    for (const std::string& violation : violations_)
      fmt::print(stderr, "perdure: violation: {}\n", violation);
    return violations_.empty() ? tools::kDone : tools::kNegative;
  }

 private:
  static constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};

  /// Removes the pool of an earlier demo, and nothing else.
  void begin_anew() {
    const std::filesystem::path path(options_->file);
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
    if (std::filesystem::exists(std::filesystem::symlink_status(path))) {
      bool ours = false;
      {
        Pool old = inspect_closed(options_->file).value();
        // Without any root: a demo that was ended between creating and marking it.
        ours = old.find_root<DemoMarker>(kDemoRoot) != nullptr || old.usage().roots == 0;
      }
      if (!ours)
        throw Exception(Code::kExists,
                        options_->file +
                            ": holds a pool that no demo made; it is never overwritten, name "
                            "another file");
      std::filesystem::remove(path);
    }
    Pool pool = Pool::create(options_->file, options_->pool).value();
    DemoMarker* marker = pool.root<DemoMarker>(kDemoRoot);
    pool.atomically([&](Tx& tx) { tx.store(marker->made_by_demo, 1); });
    pool.root<Map>(kRoot);
  }

  /// Runs a worker until `target` records are acknowledged in all or its share of the time is over,
  /// and kills it; with kToTheEnd lets it end by itself. Answers what its transactions cost.
  Report run_worker(std::uint64_t target, tools::Progress& progress) {
    const double seconds = options_->seconds / static_cast<double>(options_->kills + 1);
    tools::Child worker(
        {"kv", "demo-worker", options_->file, "--records", std::to_string(options_->records),
         "--threads", std::to_string(options_->threads), "--domain", options_->domain, "--seconds",
         std::to_string(target == kToTheEnd ? seconds : 2 * options_->seconds)});
    const auto start = Clock::now();
    std::uint64_t totals[kElapsedNs + 1] = {};
    bool killed = false;
    while (const auto message = worker.receive()) {
      if (message->tag != kAcknowledged) {
        totals[message->tag] = message->value;
        continue;
      }
      acknowledged_[message->value] = true;
      ++acknowledged_count_;
      progress.show(acknowledged_count_);
      if (killed || target == kToTheEnd) continue;
      if (acknowledged_count_ >= target || nanoseconds_since(start) > seconds * 1e9) {
        worker.kill();
        killed = true;
      }
    }
    const int code = worker.wait();
    // It may have come to its end just before it was killed.
    if (code != 0 && !(killed && code == -SIGKILL))
      throw Exception(Code::kIo, "the loading process failed with code " + std::to_string(code));
    if (code == -SIGKILL) ++kills_;
    return {{"transactions", totals[kTransactions]},
            {"transactions_per_second",
             static_cast<std::uint64_t>(
                 static_cast<double>(totals[kTransactions]) * 1e9 /
                 static_cast<double>(std::max<std::uint64_t>(1, totals[kElapsedNs])))},
            {"loading_threads", options_->threads}};
  }

  void violate(std::string what) { violations_.push_back(std::move(what)); }

  /// Reopens, which recovers, and proves what the pool promised.
  Report verify() {
    const std::size_t before = violations_.size();
    const auto start = Clock::now();
    Pool pool = Pool::open(options_->file, options_->pool).value();
    const double open_ns = nanoseconds_since(start);
    Map* map = pool.root<Map>(kRoot);

    std::vector<bool> present(set_.records.size(), false);
    std::uint64_t count = 0;
    pool.read_only([&](Tx& tx) {
      std::fill(present.begin(), present.end(), false);
      count = 0;
      map->for_each(tx, [&](std::string_view key, std::string_view value) {
        const auto known = index_.find(std::string(key));
        if (known == index_.end())
          return violate(fmt::format("a record '{}' that nobody put", key));
        if (set_.records[known->second].value != value)
          violate(fmt::format("record '{}' is not whole", key));
        if (present[known->second]) violate(fmt::format("record '{}' is there twice", key));
        present[known->second] = true;
        ++count;
      });
      if (map->size(tx) != count)
        violate(fmt::format("{} records are there, {} are counted", count, map->size(tx)));
    });

    std::uint64_t in_flight = 0;
    for (std::size_t i = 0; i < present.size(); ++i) {
      if (acknowledged_[i] && !present[i])
        violate(fmt::format("record '{}' was acknowledged and is lost", set_.records[i].key));
      if (!present[i]) {
        // A thread stores its records in order, so nothing of its own may lie behind a gap.
        const std::size_t later = i + options_->threads;
        if (later < present.size() && present[later])
          violate(
              fmt::format("record '{}' is there, an earlier one is not", set_.records[later].key));
      } else if (!acknowledged_[i]) {
        ++in_flight;  // committed, but killed before it could say so
        acknowledged_[i] = true;
        ++acknowledged_count_;
      }
    }
    if (in_flight > options_->threads)
      violate(fmt::format("{} records more than could be in flight", in_flight));

    const tools::Reachability reached = tools::trace(pool);
    for (const std::string& what : reached.damage) violate(what);
    if (!reached.leaked.empty())
      violate(fmt::format("{} heap objects are leaked", reached.leaked.size()));
    domain_ = std::string(domain_name(pool.domain()));
    guarantee_ = std::string(pool.guarantee());
    used_bytes_ = pool.usage().object_bytes;
    return {{"present", count},
            {"in_flight", in_flight},
            {"open_ns", open_ns},
            {"replay_ns", pool.recovery().nanoseconds},
            {"replayed", pool.recovery().records_replayed},
            {"violations", violations_.size() - before}};
  }

  Report report(std::uint64_t present, const Report& kills, const Report& costs) const {
    Report out = {{"file", options_->file},
                  {"data_set", set_.source},
                  {"records", present},
                  {"left_out_when_time_was_up", set_.records.size() - present},
                  {"heap_bytes", used_bytes_},
                  {"durability_domain", domain_},
                  {"acknowledged_survives", guarantee_},
                  {"kills_survived", kills_},
                  {"violations", violations_.size()}};
    out["one_record_per_transaction"] = costs;
    out["after_each_kill"] = kills;
    return out;
  }

  const DemoOptions* options_;
  DataSet set_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<bool> acknowledged_;  // or found after a kill: must be there from then on
  std::uint64_t acknowledged_count_ = 0;
  std::uint64_t kills_ = 0;  // that came before the worker had ended by itself
  std::vector<std::string> violations_;
  std::string domain_;
  std::string guarantee_;
  std::uint64_t used_bytes_ = 0;
};

}  // namespace

void add_demo_command(tools::Command kv) {
  const auto add = [&](const char* name, const char* about, void (*run)(const DemoOptions&)) {
    auto options = std::make_shared<DemoOptions>();
    tools::Command command = kv.add_subcommand(name, about);
    command.add_option("FILE", options->file, "The pool; made anew if an earlier demo made it")
        .show_default();
    command
        .add_option("--records", options->records, "Records of the data set to load (default: all)")
        .positive();
    command
        .add_option("--seconds", options->seconds, "Stop loading after this time, on a slow device")
        .show_default()
        .positive();
    command
        .add_option("--threads", options->threads,
                    "Loading threads; on files they share the waits for the device")
        .show_default()
        .range(1, 32);
    tools::add_open_options(command, options->pool);
    command.callback([options, run] {
      options->domain = domain_name(options->pool.domain);
      run(*options);
    });
    return std::pair(command, options);
  };
  const auto [demo, options] = add(
      "demo", "Load a dictionary while being killed, and prove that nothing acknowledged is lost",
      [](const DemoOptions& chosen) {
        if (const int code = Demo(chosen).run(); code != tools::kDone) tools::leave_with(code);
      });
  tools::add_count(demo, "--kills", options->kills, "How often the loading process is killed")
      .show_default();
  demo.add_option("--seed", options->seed, "Where it is killed; random if not given");
  tools::add_json_flag(demo, options->json);
  add("demo-worker", "The process that the demo kills", work).first.hide();
}

}  // namespace perdure::kv
