// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/evaluation/carried_programs.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "papers/thynvm/memory/emulated_program.h"
#include "papers/thynvm/memory/inputs.h"
#include "papers/thynvm/memory/programs.h"
#include "perdure/error.h"
#include "tools/parts.h"

namespace perdure::bench::thynvm {
namespace {

std::string loop_input(std::uint64_t steps) {
  return fmt::format(
      "x = 0\n"
      "for i in range({}):\n"
      "    x = (x * 31 + i) & 0xffffffff\n"
      "print(x)\n",
      steps);
}

std::string dictionary_input(std::uint64_t entries) {
  return fmt::format(
      "state = 12345\n"
      "def draw():\n"
      "    global state\n"
      "    state = (state * 6364136223846793005 + 1442695040888963407) & 0xffffffffffffffff\n"
      "    return state >> 20\n"
      "entries = {{draw(): i for i in range({})}}\n"
      "tree = [draw(), None, None]\n"
      "for i in range({}):\n"
      "    key, node = draw(), tree\n"
      "    while node is not None:\n"
      "        side, above = 1 if key < node[0] else 2, node\n"
      "        node = node[side]\n"
      "    above[side] = [key, None, None]\n"
      "print(len(entries))\n",
      entries, entries / 12);
}

std::string hash_input(std::uint64_t steps) {
  return fmt::format(
      "my ($state, %count) = (12345);\n"
      "for my $i (1 .. {}) {{\n"
      "  $state = ($state * 1103515245 + 12345) % 2147483648;\n"
      "  $count{{ ($state >> 3) % 300000 }} += $i;\n"
      "}}\n"
      "print scalar(keys %count), \"\\n\";\n",
      steps);
}

std::string table_input(std::uint64_t rows) {
  constexpr const char* kDraws =
      "with recursive draw(n, x) as (select 1, {} union all select n + 1, (x * 1103515245 + 12345) "
      "% 2147483648 from draw where n < {}) ";
  return "create table item(id integer primary key, key integer, name text);\n"
         "create index by_key on item(key);\n" +
         fmt::format(fmt::runtime(kDraws), 1, rows) +
         "insert into item select n, x, 'item number ' || x from draw;\n" +
         fmt::format(fmt::runtime(kDraws), 2, rows / 3) +
         fmt::format("replace into item select 1 + x / 8 % {}, x, 'replaced by ' || x from draw;\n",
                     rows) +
         "select count(*), sum(key) from item;\n";
}

/// Most of the standard library, and more functions for more work; of a part of the work, some headers.
std::string source_input(double work) {
  const std::string all = memory::cplusplus_input();
  if (work < 1) return all.substr(0, all.find("#include <atomic>"));
  return all.substr(0, all.find("struct S" + std::to_string(static_cast<int>(work) - 1) + " "));
}

/// A path, or a name in PATH.
bool is_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  return false;
}

class Maker {
 public:
  Maker(std::string directory, double work) : directory_(std::move(directory)), work_(work) {}

  std::uint64_t part_of(double most) const {
    return static_cast<std::uint64_t>(std::max(1.0, most * work_));
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream file(path(name), std::ios::binary | std::ios::trunc);
    if (!(file << content).flush()) throw Exception(Code::kIo, path(name) + ": cannot be written");
    return path(name);
  }

  /// Adds a program of a Debian package, if it and its client are there.
  void add(const char* package, CarriedProgram program) {
    if (!is_program(program.command[0]) ||
        (!program.client.empty() && !is_program(program.client[0]))) {
      programs.missing += fmt::format("{}Not measured: {}, as the package {} is not installed.",
                                      programs.missing.empty() ? "" : " ", program.name, package);
      return;
    }
    memory::MeasuredProgram installed{};
    installed.package = package;
    try {
      program.version = memory::version_of(installed);
    } catch (const Exception&) {
      program.version = "of no package";
    }
    programs.all.push_back(std::move(program));
  }
  void add_writes(const char* pattern, const char* mib, double millions) {
    programs.all.push_back({fmt::format("{} writes, {} MB", pattern, mib),
                            fmt::format("{:.0f} million writes of 8 bytes", millions * work_),
                            "perdure",
                            {tools::find_part("perdure_guest_writes"), pattern, mib,
                             fmt::format("{}", millions * work_)},
                            {},
                            {},
                            ""});
  }

  CarriedPrograms programs;

 private:
  std::string directory_;
  double work_;
};

}  // namespace

CarriedPrograms carried_programs(const std::string& directory, double work) {
  Maker make(directory, work);
  const std::vector<std::string> python{"/usr/bin/python3", "-S", "-s", "-B"};
  const auto script = [&](const std::string& name, const std::string& content) {
    std::vector<std::string> command = python;
    command.push_back(make.write(name, content));
    return command;
  };
  const std::uint64_t steps = make.part_of(15e6), entries = make.part_of(1.5e6),
                      rows = make.part_of(600e3), counts = make.part_of(2.4e6);
  make.add("python3-minimal", {.name = "python3, numeric loop",
                               .what = fmt::format("{} steps", steps),
                               .command = script("loop.py", loop_input(steps))});
  make.add("bzip2",
           {.name = "bzip2",
            .what = fmt::format("{} MB of text", make.part_of(20)),
            .command = {"/bin/bzip2", "--keep", "--stdout",
                        make.write("input.txt", memory::text_input(make.part_of(20) << 20))}});
  make.add("sqlite3", {.name = "sqlite3, in memory",
                       .what = fmt::format("{} rows with a random index, a third replaced", rows),
                       .command = {"/usr/bin/sqlite3", "-batch", ":memory:",
                                   ".read " + make.write("input.sql", table_input(rows))}});
  make.add("g++-12",
           {.name = "cc1plus",
            .what = "-O2 of most headers of the standard library",
            .command = {"/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "-quiet", "-O2", "-std=c++20",
                        "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE", "-frandom-seed=1", "-o",
                        "/dev/null", make.write("input.cc", source_input(work))}});
  make.add("python3-minimal",
           {.name = "python3, dictionary",
            .what = fmt::format("{} random keys, and a tree of {}", entries, entries / 12),
            .command = script("dictionary.py", dictionary_input(entries)),
            .environment = {"PYTHONHASHSEED=0"}});
  make.add("perl-base", {.name = "perl, hash",
                         .what = fmt::format("{} counts of up to 300,000 keys", counts),
                         .command = {"/usr/bin/perl", make.write("hash.pl", hash_input(counts))},
                         .environment = {"PERL_HASH_SEED=0", "PERL_PERTURB_KEYS=0"}});
  make.add_writes("random", "4", 500);
  // Epochs of 10 ms make it take tens of times as long.
  make.add_writes("random", "64", 25);
  make.add_writes("sequential", "256", 500);
  const std::string socket = make.path("redis"), requests = fmt::format("{}", make.part_of(800e3));
  // The server is in the package of its tools, by another name, which it goes by; its own package starts a service.
  const std::string server = make.path("redis-server");
  std::filesystem::remove(server);
  std::filesystem::create_symlink("/usr/bin/redis-check-rdb", server);
  make.add("redis-tools", {.name = "redis-server",
                           .what = requests + " times SET of 400,000 random keys, pipelined",
                           .command = {server, "--port", "0", "--unixsocket", socket, "--save", "",
                                       "--appendonly", "no"},
                           .client = {"redis-benchmark", "-s", socket, "-t", "set", "-r", "400000",
                                      "-n", requests, "-P", "16", "-q"},
                           .socket = socket});
  return std::move(make.programs);
}

CarriedProgram steady_program(std::uint64_t mib, unsigned threads, std::uint64_t kib_each_10ms,
                              double seconds, const std::string& life) {
  CarriedProgram program{.name = "steady load",
                         .version = "perdure",
                         .command = {tools::find_part("perdure_guest_steady"), std::to_string(mib),
                                     std::to_string(threads), std::to_string(kib_each_10ms),
                                     fmt::format("{}", seconds)}};
  program.what =
      fmt::format("{} threads write {} KiB in 10 ms, pages one after the other, of {} MiB", threads,
                  kib_each_10ms, mib);
  if (!life.empty()) program.command.push_back(life);
  return program;
}

}  // namespace perdure::bench::thynvm
