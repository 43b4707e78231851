// SPDX-License-Identifier: BSD-3-Clause
// ldap demo: slapd over our server, filled by many clients while both processes are killed, again
// and again. Whatever slapd acknowledged must be there afterwards, and whatever is there must be
// whole.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <unordered_set>

#include <fmt/core.h>

#include "apps/ldap/directory.h"
#include "bench/ldap/ldap_commands.h"
#include "bench/ldap/load.h"
#include "bench/ldap/slapd.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/reachability.h"

namespace perdure::ldap {
namespace {

namespace fs = std::filesystem;
using bench::LdapLoad;
using bench::LdapLoaded;
using tools::Report;

struct DemoOptions {
  std::string dir = "data/ldap";
  std::string slapd;
  std::uint64_t entries = 20000;
  std::uint64_t kills = 3;
  std::uint64_t clients = 16;
  std::uint64_t seed = std::random_device{}();
  bool json = false;
};

/// `ldap slapd`: a slapd in front of a server that runs already.
void be_slapd(const DemoOptions& options, const std::string& socket) {
  const SlapdFiles files = find_slapd(options.slapd);
  fs::create_directories(options.dir);
  const std::string directory = fs::absolute(options.dir).lexically_normal().string();
  fmt::print(
      "slapd listens at {0}; for example:\n  ldapsearch -LLL -x -H {0} -D {1} -w {2} -b {3}\n",
      slapd_uri(directory), kAdmin, kAdminPassword, kSuffix);
  std::fflush(stdout);
  become_slapd(files, directory, sock_database(fs::absolute(socket).lexically_normal()));
}

class Demo {
 public:
  explicit Demo(const DemoOptions& options)
      : options_(&options), files_(find_slapd(options.slapd)), random_(options.seed) {
    fs::create_directories(options.dir);
    directory_ = fs::absolute(options.dir).lexically_normal().string();
    if (fs::exists(directory_ + "/ldap.pool") && !fs::exists(directory_ + "/made-by-demo"))
      throw Exception(Code::kExists,
                      directory_ + ": holds a pool that no demo made; name another directory");
    fs::remove(directory_ + "/ldap.pool");
    Process({"touch", "made-by-demo"}, "/dev/null", {}, directory_).wait();
  }

  int run() {
    std::uint64_t acknowledged = 0;
    Report kills = Report::array();
    tools::Progress progress("adding through slapd", options_->entries);
    for (std::uint64_t round = 0; round <= options_->kills; ++round) {
      const std::uint64_t left = options_->entries - std::min(options_->entries, next_);
      const bool to_the_end = round == options_->kills;
      // Somewhere in this round's share.
      std::uniform_int_distribution<std::uint64_t> anywhere(
          1, std::max<std::uint64_t>(1, left / (options_->kills - round + 1)));
      const std::uint64_t target = to_the_end ? ~std::uint64_t{0} : anywhere(random_);
      const std::uint64_t lost_before = violations_.size();
      const LdapLoaded loaded = add_until(target, left, acknowledged, progress);
      const Report check = verify();
      if (to_the_end) {
        last_leg_ = static_cast<double>(loaded.operations) / std::max(loaded.seconds, 1e-9);
      } else {
        kills.push_back({{"acknowledged", acknowledged},
                         {"present", check["present"]},
                         {"in_doubt_and_present", check["in_doubt_and_present"]},
                         {"replayed", check["replayed"]},
                         {"violations", violations_.size() - lost_before}});
      }
    }
    const std::uint64_t present = verify()["present"];
    tools::print({{"directory", directory_},
                  {"entries_acknowledged", acknowledged},
                  {"entries_present", present},
                  {"kills_of_both_processes", options_->kills},
                  {"violations", violations_.size()},
                  {"adds_per_second_at_the_end", static_cast<std::uint64_t>(last_leg_)},
                  {"after_each_kill", kills}},
                 options_->json);
    for (const std::string& violation : violations_)
      fmt::print(stderr, "perdure: violation: {}\n", violation);
    return violations_.empty() ? tools::kDone : tools::kNegative;
  }

 private:
  std::string at(const char* name) const { return directory_ + "/" + name; }

  /// Starts both, adds persons until `target` of them are acknowledged, and kills both.
  LdapLoaded add_until(std::uint64_t target, std::uint64_t left, std::uint64_t& acknowledged,
                       tools::Progress& progress) {
    Process server = start_server(at("ldap.pool"), at("sock"), at("serve.log"));
    Slapd slapd(files_, directory_, "slapd", "back_sock", sock_database(at("sock")));
    LdapLoad load = slapd.load();
    bench::add_ldap_frame(load);
    expect_all(load);
    load.connections = static_cast<unsigned>(options_->clients);
    load.first = next_;
    load.count = left;
    std::uint64_t now = 0;
    bool killed = false;
    load.acknowledged = [&](std::uint64_t number) {
      acknowledged_.push_back(number);
      progress.show(++acknowledged);
      if (++now < target) return true;
      if (!killed) {
        killed = true;
        // What slapd had said before, and we read only now, counts as acknowledged like the rest. It goes first: it takes a
        // connection that the server's death ends for a success (docs/LDAP.md).
        slapd.process().kill();
        server.kill();
      }
      return false;
    };
    LdapLoaded loaded = bench::run_ldap_load(load);
    if (!killed && !loaded.failure.empty())
      violations_.push_back("adding ended: " + loaded.failure);
    in_doubt_.insert(loaded.in_doubt.begin(), loaded.in_doubt.end());
    // Numbers of this round end here, known or in doubt; the next begins behind them.
    next_ += loaded.operations + loaded.in_doubt.size();
    if (!killed) {
      slapd.process().stop();
      if (const int code = server.stop(); code != 0)
        violations_.push_back(fmt::format("the server ended with code {}", code));
    }
    return loaded;
  }

  /// What slapd finds must be what was acknowledged, and nothing that was never asked for.
  void expect_all(const LdapLoad& load) { compare(bench::ldap_persons(load)); }

  std::uint64_t compare(const std::vector<std::uint64_t>& present) {
    const std::unordered_set<std::uint64_t> there(present.begin(), present.end());
    const std::unordered_set<std::uint64_t> told(acknowledged_.begin(), acknowledged_.end());
    for (const std::uint64_t number : acknowledged_) {
      if (!there.contains(number))
        violations_.push_back(fmt::format("person {} was acknowledged and is lost", number));
    }
    std::uint64_t unsure = 0;
    for (const std::uint64_t number : present) {
      if (told.contains(number)) continue;
      if (in_doubt_.contains(number)) {
        ++unsure;
      } else {
        violations_.push_back(fmt::format("person {} is there and nobody added it", number));
      }
    }
    if (there.size() != present.size()) violations_.push_back("a person is there twice");
    return unsure;
  }

  /// Opens the pool, which recovers it, and looks at it without slapd.
  Report verify() {
    Pool pool = Pool::open(at("ldap.pool")).value();
    Directory directory(pool);
    for (const std::string& what : directory.verify()) violations_.push_back(what);
    const tools::Reachability reached = tools::trace(pool);
    for (const std::string& what : reached.damage) violations_.push_back(what);
    if (!reached.leaked.empty())
      violations_.push_back(fmt::format("{} heap objects are leaked", reached.leaked.size()));
    std::vector<std::uint64_t> present;
    Search search;
    search.filter = parse_filter("(objectClass=inetOrgPerson)").value();
    directory.search(search, [&](const std::string&, const Values& values) {
      for (const Value& value : values) {
        if (value.attribute == "employeeNumber")
          present.push_back(std::stoull(std::string(value.value)));
      }
    });
    const std::uint64_t unsure = compare(present);
    return {{"present", present.size()},
            {"in_doubt_and_present", unsure},
            {"replayed", pool.recovery().records_replayed}};
  }

  const DemoOptions* options_;
  SlapdFiles files_;
  std::mt19937_64 random_;
  std::string directory_;
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> acknowledged_;
  std::unordered_set<std::uint64_t> in_doubt_;
  std::vector<std::string> violations_;
  double last_leg_ = 0;
};

}  // namespace

void add_demo_command(tools::Command ldap) {
  constexpr const char* kTreeHelp =
      "Where the package slapd is unpacked, or will be (default: the installed one, else "
      "build/slapd)";
  auto front = std::make_shared<DemoOptions>();
  auto socket = std::make_shared<std::string>("perdure-ldap.sock");
  tools::Command slapd = ldap.add_subcommand(
      "slapd", "Run a real slapd in front of a server, without root, to try it by hand");
  slapd.add_option("--socket", *socket, "Where the server listens").show_default();
  slapd.add_option("--dir", front->dir, "Where its configuration and its socket go").show_default();
  slapd.add_option("--slapd", front->slapd, kTreeHelp);
  slapd.callback([front, socket] { be_slapd(*front, *socket); });

  auto options = std::make_shared<DemoOptions>();
  tools::Command command = ldap.add_subcommand(
      "demo", "Fill a directory through a real slapd while both are killed; nothing may be lost");
  command.add_option("DIR", options->dir, "Where pool, sockets and logs go").show_default();
  command.add_option("--slapd", options->slapd, kTreeHelp);
  tools::add_count(command, "--entries", options->entries, "Entries to add").show_default();
  tools::add_count(command, "--kills", options->kills, "How often both are killed").show_default();
  command.add_option("--clients", options->clients, "Connections that add")
      .show_default()
      .range(1, 64);
  command.add_option("--seed", options->seed, "When they are killed; random if not given");
  tools::add_json_flag(command, options->json);
  command.callback([options] {
    std::signal(SIGPIPE, SIG_IGN);  // a killed slapd is part of the demonstration
    if (const int code = Demo(*options).run(); code != tools::kDone) tools::leave_with(code);
  });
}

}  // namespace perdure::ldap
