// SPDX-License-Identifier: BSD-3-Clause
// torture: real processes, killed with SIGKILL at random moments, a quarter of them while they
// still recover; and a verifier that knows from the committed counts alone what every byte of the
// pool must say (torture_state.h).
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include <fmt/core.h>

#include "papers/pool.h"
#include "tools/child.h"
#include "tools/command.h"
#include "tools/lab/commands.h"
#include "tools/progress.h"
#include "tools/reachability.h"
#include "tools/torture_state.h"

namespace perdure::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kStateRoot = "torture";
constexpr const char* kMapRoot = "torture.map";

struct TortureOptions {
  std::string file;
  std::uint64_t kills = 500;
  std::uint64_t threads = 4;
  double seconds_per_run = 0.03;
  std::uint64_t seed = std::random_device{}();
  std::string domain = "auto";
  bool change = false;  // engine and truncation, all the time
  bool json = false;
  papers::LabOptions pool = [] {
    // Small logs, segments and few private pages: truncation, growth and spilled records happen all the time, and pages go
    // home and come back.
    papers::LabOptions small;
    small.capacity_bytes = std::uint64_t{1} << 30;
    small.segment_bytes = std::uint64_t{128} << 10;
    small.ring_bytes = std::uint64_t{64} << 10;
    small.log_slots = 20;
    small.private_bytes = std::uint64_t{64} << 10;
    return small;
  }();
};

// ---- the worker ---------------------------------------------------------------------------------

/// Tags below kMaxTortureThreads acknowledge a transaction of that thread.
enum Tag : std::uint8_t { kOpening = 100, kReplayed = 101 };

void apply(Tx& tx, TortureState& state, TortureMap& map, std::uint64_t thread, std::uint64_t n) {
  const TortureStep step = torture_step(thread, n);
  if (step.transfer) {
    std::int64_t& from = state.balances[step.from];
    tx.store(from, tx.load(from) - step.amount);
    std::int64_t& to = state.balances[step.to];
    tx.store(to, tx.load(to) + step.amount);
  } else {
    const std::string key = torture_key(thread, step.key);
    const std::uint64_t ledger = tx.load(state.ledger);
    if (step.erase) {
      if (map.erase(tx, key)) tx.store(state.ledger, ledger - 1);
    } else if (map.put(tx, key, torture_value(thread, n))) {
      tx.store(state.ledger, ledger + 1);
    }
  }
  tx.store(state.committed[thread].value, n);
}

/// One truncation after the other that the engine knows, for a few milliseconds each.
void change_truncation(Pool& pool, papers::EngineKind engine) {
  for (;;) {
    for (const Truncation truncation : {Truncation::kEachCommit, Truncation::kWhenFull,
                                        Truncation::kNextCommit, Truncation::kBackground}) {
      if (papers::is_softwrap(engine) && truncation != Truncation::kBackground &&
          truncation != Truncation::kWhenFull)
        continue;
      pool.set_truncation(truncation);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  }
}

/// Works until it is killed.
void work(const TortureOptions& options) {
  send_to_parent({kOpening, 0});
  Pool pool = papers::open(options.file, options.pool).value();
  send_to_parent({kReplayed, pool.recovery().records_replayed});
  auto* state = pool.root<TortureState>(kStateRoot);
  auto* map = pool.root<TortureMap>(kMapRoot);
  std::vector<std::thread> threads;
  threads.reserve(options.threads + 1);
  if (options.change) threads.emplace_back([&] { change_truncation(pool, options.pool.engine); });
  for (std::uint64_t t = 0; t < options.threads; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t n = pool.read_only([&](Tx& tx) { return tx.load(state->committed[t].value); });
      for (;;) {
        ++n;
        pool.atomically([&](Tx& tx) { apply(tx, *state, *map, t, n); });
        send_to_parent({static_cast<std::uint8_t>(t), n});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- the verifier -------------------------------------------------------------------------------

/// What the pool must hold after `committed[t]` transactions of each thread t.
class Model {
 public:
  Model() { balances_.fill(kOpeningBalance); }

  void advance(std::uint64_t thread, std::uint64_t to) {
    for (std::uint64_t n = done_[thread] + 1; n <= to; ++n) {
      const TortureStep step = torture_step(thread, n);
      if (step.transfer) {
        balances_[step.from] -= step.amount;
        balances_[step.to] += step.amount;
      } else if (step.erase) {
        records_.erase(torture_key(thread, step.key));
      } else {
        records_[torture_key(thread, step.key)] = {thread, n};
      }
    }
    done_[thread] = std::max(done_[thread], to);
  }
  std::uint64_t done(std::uint64_t thread) const { return done_[thread]; }
  const std::array<std::int64_t, kAccounts>& balances() const { return balances_; }
  std::size_t records() const { return records_.size(); }
  /// Whether `value` is what the last transaction that put `key` wrote.
  bool holds(std::string_view key, std::string_view value) const {
    const auto found = records_.find(std::string(key));
    return found != records_.end() && torture_value(found->second.thread, found->second.n) == value;
  }

 private:
  struct Origin {
    std::uint64_t thread;
    std::uint64_t n;
  };
  std::array<std::uint64_t, kMaxTortureThreads> done_{};
  std::array<std::int64_t, kAccounts> balances_;
  std::map<std::string, Origin> records_;
};

class Torture {
 public:
  explicit Torture(const TortureOptions& options) : options_(&options), random_(options.seed) {}

  int run() {
    prepare();
    verify(true);
    const auto start = Clock::now();
    {
      Progress progress("killing", options_->kills);
      while (kills_ < options_->kills && violations_.empty()) {
        kill_one();
        // Mostly from a private copy: then the file stays as the kill left it, and the next worker
        // has to recover it.
        verify(random_() % 4 == 0);
        progress.show(++kills_);
      }
    }
    if (violations_.empty()) verify(true);
    if (kills_ >= 20 && acknowledgements_ == 0) violate("no worker ever did anything");
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::uint64_t transactions = 0;
    for (std::size_t t = 0; t < kMaxTortureThreads; ++t) transactions += model_.done(t);
    print({{"file", options_->file},
           {"domain", domain_},
           {"acknowledged_survives", guarantee_},
           {"threads", options_->threads},
           {"seed", options_->seed},
           {"kills", kills_},
           {"kills_while_opening", kills_while_opening_},
           {"kills_per_second", static_cast<double>(kills_) / seconds},
           {"recoveries_with_replay", recoveries_with_replay_},
           {"records_replayed", records_replayed_},
           {"transactions_committed", transactions},
           {"transactions_acknowledged", acknowledgements_},
           {"violations", violations_.size()}},
          options_->json);
    for (const std::string& violation : violations_)
      fmt::print(stderr, "perdure: violation: {}\n", violation);
    if (!violations_.empty())
      fmt::print(stderr, "perdure: {} is left as it was found\n", options_->file);
    return violations_.empty() ? kDone : kNegative;
  }

 private:
  void prepare() {
    if (options_->pool.log_slots < options_->threads)
      throw Exception(Code::kInvalid, "--slots must be as many as --threads, at least");
    const bool exists = std::filesystem::exists(std::filesystem::symlink_status(options_->file));
    Pool pool = (exists ? papers::open(options_->file, options_->pool)
                        : papers::create(options_->file, options_->pool))
                    .value();
    if (exists && pool.find_root<TortureState>(kStateRoot) == nullptr)
      throw Exception(
          Code::kExists,
          options_->file + ": holds a pool that was not made by torture; name another file");
    auto* state = pool.root<TortureState>(kStateRoot);
    pool.root<TortureMap>(kMapRoot);
    pool.atomically([&](Tx& tx) {
      if (tx.load(state->opened) != 0) return;
      for (std::int64_t& balance : state->balances) tx.store(balance, kOpeningBalance);
      tx.store(state->opened, 1);
    });
    domain_ = std::string(domain_name(pool.domain()));
    guarantee_ = std::string(pool.guarantee());
  }

  /// Three kills of four come while the worker works, the others while it opens the pool and
  /// recovers.
  void kill_one() {
    std::vector<std::string> command{
        "torture-worker", options_->file,
        "--threads",      std::to_string(options_->threads),
        "--domain",       options_->domain,
        "--engine",       std::string(papers::engine_name(engine())),
        "--truncation",   std::string(truncation_name(options_->pool.truncation))};
    if (options_->change) command.emplace_back("--change");
    Child worker(command);
    const auto opening = worker.receive();
    if (!opening || opening->tag != kOpening)
      throw Exception(Code::kIo, "the worker did not start");
    const auto start = Clock::now();
    bool opened = false;
    double longest = opening_seconds_;
    if (random_() % 4 != 0) {
      opened = take(worker);
      opening_seconds_ =
          std::max(0.001, std::chrono::duration<double>(Clock::now() - start).count());
      longest = options_->seconds_per_run;
    }
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::uniform_real_distribution(0.0, longest)(random_)));
    worker.kill();
    while (take(worker)) opened = true;
    if (!opened) ++kills_while_opening_;
    if (const int end = worker.wait(); end != -SIGKILL)
      violate(fmt::format("a worker ended by itself, with {}", end));
  }

  /// That of the next worker.
  papers::EngineKind engine() const {
    constexpr std::array kTurns = {papers::EngineKind::kMnemosyne, papers::EngineKind::kBlurred,
                                   papers::EngineKind::kAdaptive, papers::EngineKind::kSoftwrap,
                                   papers::EngineKind::kSoftwrapTables};
    return options_->change ? kTurns[kills_ % kTurns.size()] : options_->pool.engine;
  }

  /// Receives one message; false when there will be no more.
  bool take(Child& worker) {
    const auto message = worker.receive();
    if (!message) return false;
    if (message->tag == kReplayed) {
      note_replay(message->value);
    } else {
      acknowledged_[message->tag] = std::max(acknowledged_[message->tag], message->value);
      ++acknowledgements_;
    }
    return true;
  }

  void note_replay(std::uint64_t records) {
    records_replayed_ += records;
    recoveries_with_replay_ += records > 0 ? 1 : 0;
  }

  void violate(std::string what) {
    violations_.push_back(fmt::format("after kill {}: {}", kills_, what));
  }

  /// Recovers, in the file or in a private copy of it, and compares everything with the model.
  void verify(bool in_file) {
    auto opened =
        in_file ? papers::open(options_->file, options_->pool) : papers::inspect(options_->file);
    if (!opened) return violate(opened.error().message);
    Pool& pool = opened.value();
    if (in_file) note_replay(pool.recovery().records_replayed);
    auto* state = pool.root<TortureState>(kStateRoot);
    auto* map = pool.root<TortureMap>(kMapRoot);
    for (std::uint64_t t = 0; t < kMaxTortureThreads; ++t) {
      const std::uint64_t committed =
          pool.read_only([&](Tx& tx) { return tx.load(state->committed[t].value); });
      if (committed < acknowledged_[t])
        violate(fmt::format("thread {}: {} acknowledged, {} kept", t, acknowledged_[t], committed));
      // What an earlier recovery has shown must stay, too.
      if (committed < model_.done(t))
        violate(fmt::format("thread {}: {} were there, now {}", t, model_.done(t), committed));
      if (acknowledged_[t] != 0 && committed > std::max(acknowledged_[t], model_.done(t)) + 1)
        violate(fmt::format("thread {}: {} kept, but only {} begun", t, committed,
                            acknowledged_[t] + 1));
      model_.advance(t, committed);
    }
    pool.read_only([&](Tx& tx) { compare(tx, *state, *map); });
    const Reachability reached = trace_and_compare(pool);
    for (const std::string& what : reached.damage) violate(what);
    if (!reached.leaked.empty())
      violate(fmt::format("{} heap objects are leaked", reached.leaked.size()));
  }

  void compare(Tx& tx, TortureState& state, TortureMap& map) {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < kAccounts; ++i) {
      const std::int64_t balance = tx.load(state.balances[i]);
      total += balance;
      if (balance != model_.balances()[i])
        violate(fmt::format("account {} holds {}, not {}", i, balance, model_.balances()[i]));
    }
    if (total != kOpeningBalance * static_cast<std::int64_t>(kAccounts))
      violate(fmt::format("the accounts sum up to {}", total));
    std::size_t records = 0;
    map.for_each(tx, [&](std::string_view key, std::string_view value) {
      ++records;
      if (!model_.holds(key, value))
        violate(fmt::format("record '{}' is not what was last put", key));
    });
    for (const auto& [what, count] :
         {std::pair("ledger", tx.load(state.ledger)), std::pair("size", map.size(tx)),
          std::pair("walk", std::uint64_t{records})}) {
      if (count != model_.records())
        violate(fmt::format("{} of the map: {} records, not {}", what, count, model_.records()));
    }
  }

  const TortureOptions* options_;
  std::mt19937_64 random_;
  Model model_;
  std::array<std::uint64_t, kMaxTortureThreads> acknowledged_{};
  std::uint64_t acknowledgements_ = 0;
  double opening_seconds_ = 0.001;  // that the last opening took
  std::uint64_t kills_ = 0;
  std::uint64_t kills_while_opening_ = 0;
  std::uint64_t recoveries_with_replay_ = 0;
  std::uint64_t records_replayed_ = 0;
  std::vector<std::string> violations_;
  std::string domain_;
  std::string guarantee_;
};

}  // namespace

void add_torture_command(Command app) {
  const auto add = [&](const char* name, const char* about, void (*run)(const TortureOptions&)) {
    auto options = std::make_shared<TortureOptions>();
    Command command = app.add_subcommand(name, about);
    command.add_option("FILE", options->file, "The pool; made if it is not there").required();
    command.add_option("--threads", options->threads, "Threads of the worker")
        .show_default()
        .range(std::size_t{1}, kMaxTortureThreads);
    command.add_flag("--change", options->change,
                     "Another engine after each kill, another truncation every few milliseconds");
    add_open_options(command, options->pool);
    add_engine_option(command, options->pool.engine);
    command.callback([options, run] {
      options->domain = domain_name(options->pool.domain);
      run(*options);
    });
    return std::pair(command, options);
  };
  const auto [torture, options] =
      add("torture",
          "Kill a process in the middle of its transactions, recover, verify, again and again",
          [](const TortureOptions& chosen) {
            if (const int code = Torture(chosen).run(); code != kDone) leave_with(code);
          });
  add_count(torture, "--kills", options->kills, "How often").show_default();
  torture
      .add_option("--seconds-per-run", options->seconds_per_run,
                  "A kill comes within this time of the work, at random")
      .show_default()
      .range(0.0, 3600.0);
  torture.add_option("--seed", options->seed, "Of the moments of the kills; random if not given");
  add_create_options(torture, options->pool);
  add_json_flag(torture, options->json);
  torture.footer(
      "Transfers between accounts and puts and erasures in a hash map, from several threads. Every "
      "committed\n"
      "transaction is determined by its number, so each recovery is compared word for word with "
      "what must be there.\n"
      "Examples:\n"
      "  perdure-lab torture /dev/shm/t.pool --kills 500     process death, memory\n"
      "  perdure-lab torture ./t.pool --kills 200            the same on a file, synced by every "
      "commit");
  add("torture-worker", "The process that torture kills", work).first.hide();
}

}  // namespace perdure::tools
