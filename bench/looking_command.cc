// SPDX-License-Identifier: BSD-3-Clause
// What a writer pays for processes that look at its pool (Pool::inspect()): the same transactions alone
// and beside them, by turns.
#include "bench/looking_command.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/system.h"
#include "bench/workload.h"
#include "measure/measure.h"
#include "perdure/perdure.h"

namespace perdure::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kWords = std::uint64_t{1} << 20;
/// Words 2i and 2i + 1 have the sum 0 in every committed state.
using Words = std::array<Word, kWords>;

struct LookingOptions {
  DomainKind domain = DomainKind::kSync;
  std::string dir = ".";
  unsigned readers = 2;
  double hold_s = 1;
  RaceRules rules{7, 2};
  bool as_json = false;
};

/// What all processes share.
struct Shared {
  std::atomic<bool> go{false};
  std::atomic<std::uint64_t> images{0};
  std::atomic<bool> torn{false};
};

/// Looks at the pool as long as it may, one image after another, and reads all of it while it has it.
[[noreturn]] void look(const std::string& path, double hold_s, Shared& shared) {
  for (;;) {
    if (!shared.go) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    auto seen = Pool::inspect(path);
    if (!seen) {  // the writer is not there yet
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const auto* const words = seen->find_root<Words>("words");
    ++shared.images;
    const auto end = Clock::now() + std::chrono::duration<double>(hold_s);
    do {
      for (std::uint64_t i = 0; i < kWords; i += 2) {
        if ((*words)[i] + (*words)[i + 1] != 0) shared.torn = true;
      }
    } while (shared.go && Clock::now() < end);
  }
}

class Readers {
 public:
  /// Errors: throws Exception kIo: there is no memory, or no process, to be had.
  Readers(const LookingOptions& options, const std::string& path) {
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Exception(Code::kIo, "no memory to share with the readers");
    shared_ = new (memory) Shared;
    while (children_.size() < options.readers) {
      const pid_t child = ::fork();
      if (child == 0) look(path, options.hold_s, *shared_);
      if (child < 0) {
        end();
        throw Exception(Code::kIo, "no process for another reader");
      }
      children_.push_back(child);
    }
  }
  ~Readers() { end(); }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  std::uint64_t images() const { return shared_->images; }
  bool saw_half() const { return shared_->torn; }
  void rest() { shared_->go = false; }
  /// Returns when so many images have been taken as there are readers.
  /// Errors: throws Exception kBusy: they do not come to it.
  void start() {
    const std::uint64_t before = images();
    const auto end = Clock::now() + std::chrono::seconds(30);
    shared_->go = true;
    while (images() < before + children_.size()) {
      if (Clock::now() > end)
        throw Exception(Code::kBusy, "the readers could not look at the pool within 30 s");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  void end() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    ::munmap(shared_, sizeof(Shared));
  }

  Shared* shared_ = nullptr;
  std::vector<pid_t> children_;
};

double process_cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Writer {
 public:
  Writer(const LookingOptions& options, const std::string& path)
      : pool_(Pool::open(path, pool_options(options)).value()),
        words_(pool_.root<Words>("words")) {}
  static PoolOptions pool_options(const LookingOptions& options) {
    PoolOptions pool;
    pool.domain = options.domain;
    pool.capacity_bytes = std::uint64_t{1} << 30;
    pool.let_others_look = true;
    return pool;
  }

  struct Rate {
    double per_s;
    double per_cpu_s;
  };
  Rate run(double seconds) {
    const double cpu = process_cpu_s();
    const auto begin = Clock::now();
    const auto end = begin + std::chrono::duration<double>(seconds);
    std::uint64_t done = 0;
    while (Clock::now() < end) {
      for (int i = 0; i < 16; ++i, ++done) transfer();
    }
    const std::chrono::duration<double> wall = Clock::now() - begin;
    return {static_cast<double>(done) / wall.count(),
            static_cast<double>(done) / (process_cpu_s() - cpu)};
  }

 private:
  void transfer() {
    const std::uint64_t pair = 2 * random_.below(kWords / 2);
    const Word amount = random_.next();
    pool_.atomically([&](Tx& tx) {
      Word& from = (*words_)[pair];
      Word& to = (*words_)[pair + 1];
      tx.store(from, tx.load(from) - amount);
      tx.store(to, tx.load(to) + amount);
    });
  }

  Pool pool_;
  Words* words_;
  Random random_{1};
};

struct Result {
  Quartiles alone, beside;                  // transactions a second
  Quartiles alone_per_cpu, beside_per_cpu;  // and of a second of the writer's CPU time
  Quartiles rest, rest_per_cpu;             // what is left of the rate, of each round
  double images_per_s = 0;
};

Result measure_looking(const LookingOptions& options) {
  const ScratchFile file(options.dir, "looking");
  Pool::create(file.path(), Writer::pool_options(options)).value();
  Readers readers(options, file.path());  // before there are threads
  Writer writer(options, file.path());
  std::vector<double> alone, beside, alone_per_cpu, beside_per_cpu, rest, rest_per_cpu;
  std::uint64_t images = 0;
  writer.run(options.rules.seconds);  // warms up
  for (unsigned round = 0; round < options.rules.repetitions; ++round) {
    const Writer::Rate a = writer.run(options.rules.seconds);
    readers.start();
    const std::uint64_t before = readers.images();
    const Writer::Rate b = writer.run(options.rules.seconds);
    images += readers.images() - before;
    readers.rest();
    // Their images go, and with them what is kept for them.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    alone.push_back(a.per_s);
    alone_per_cpu.push_back(a.per_cpu_s);
    beside.push_back(b.per_s);
    beside_per_cpu.push_back(b.per_cpu_s);
    rest.push_back(b.per_s / a.per_s);
    rest_per_cpu.push_back(b.per_cpu_s / a.per_cpu_s);
  }
  if (readers.saw_half())
    throw Exception(Code::kCorrupt, file.path() +
                                        ": a reader saw half of a transaction; its figures mean "
                                        "nothing");
  Result result;
  result.alone = quartiles(alone);
  result.beside = quartiles(beside);
  result.alone_per_cpu = quartiles(alone_per_cpu);
  result.beside_per_cpu = quartiles(beside_per_cpu);
  result.rest = quartiles(rest);
  result.rest_per_cpu = quartiles(rest_per_cpu);
  result.images_per_s =
      static_cast<double>(images) / (options.rules.repetitions * options.rules.seconds);
  return result;
}

void run(const LookingOptions& options) {
  const Result result = measure_looking(options);
  if (options.as_json) {
    const auto json_of = [](const Quartiles& q) {
      return Json{{"median", q.median}, {"low", q.low}, {"high", q.high}};
    };
    const Json out{{"domain", domain_name(options.domain)},
                   {"readers", options.readers},
                   {"hold_s", options.hold_s},
                   {"images_per_s", result.images_per_s},
                   {"alone_per_s", json_of(result.alone)},
                   {"beside_per_s", json_of(result.beside)},
                   {"alone_per_cpu_s", json_of(result.alone_per_cpu)},
                   {"beside_per_cpu_s", json_of(result.beside_per_cpu)},
                   {"ratio", json_of(result.rest)},
                   {"ratio_per_cpu", json_of(result.rest_per_cpu)}};
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  std::printf(
      "Transfers between random words of 8 MiB, domain %s, alone and beside %u processes that look "
      "at the\n"
      "pool, each at one image for %g s and then at the next (%.1f images/s in all); medians of %u "
      "rounds:\n\n"
      "%-36s %12s %12s %8s %s\n",
      std::string(domain_name(options.domain)).c_str(), options.readers, options.hold_s,
      result.images_per_s, options.rules.repetitions, "", "alone", "beside", "ratio",
      "(quartiles)");
  const auto row = [](const char* name, const Quartiles& a, const Quartiles& b,
                      const Quartiles& ratio) {
    std::printf("%-36s %12.0f %12.0f %8.2f (%.2f to %.2f)\n", name, a.median, b.median,
                ratio.median, ratio.low, ratio.high);
  };
  row("transactions/s", result.alone, result.beside, result.rest);
  row("transactions/s of the writer's CPU", result.alone_per_cpu, result.beside_per_cpu,
      result.rest_per_cpu);
}

}  // namespace

void add_looking_command(tools::Command bench) {
  auto options = std::make_shared<LookingOptions>();
  tools::Command command = bench.add_subcommand(
      "looking", "What a writer pays for processes that look at its pool meanwhile");
  tools::add_choice<DomainKind>(command, "--domain", options->domain,
                                {{"adr", DomainKind::kAdr},
                                 {"dram", DomainKind::kDram},
                                 {"eadr", DomainKind::kEadr},
                                 {"sync", DomainKind::kSync}},
                                "sync (default), adr, eadr or dram");
  command.add_option("--dir", options->dir, "where the pool goes (default the current directory)")
      .existing_directory();
  command.add_option("--readers", options->readers, "processes that look").range(1, 64);
  command.add_option("--hold", options->hold_s, "for how many seconds each has an image")
      .range(0.0, 3600.0);
  command.add_option("--reps", options->rules.repetitions, "rounds").range(1, 1000);
  command.add_option("--seconds", options->rules.seconds, "length of each half of a round")
      .range(0.01, 600.0);
  tools::add_json_flag(command, options->as_json);
  command.callback([options] { run(*options); });
}

}  // namespace perdure::bench
