// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/commands/ldap.h"

#include <signal.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>

#include <fmt/core.h>

#include "apps/ldap/matching.h"
#include "apps/ldap/protocol.h"
#include "apps/ldap/server.h"
#include "perdure/expert.h"
#include "tools/command.h"
#include "tools/progress.h"

namespace perdure::ldap {
namespace {

using tools::Report;

struct LdapOptions {
  std::string pool = "ldap.pool";
  std::string socket = "perdure-ldap.sock";
  std::string index;
  std::string admin;
  std::string password_file;
  std::string input = "-";
  std::string filter = "(objectClass=*)";
  std::string base;
  std::string scope = "sub";
  std::uint64_t limit = 0;
  std::uint64_t threads = 32;
  bool json = false;
  ExpertOptions options;
};

/// Rings long enough that many updates share one pass of writing home pages, and as many as there
/// may be threads.
constexpr std::uint64_t kRingBytes = 4 << 20;
constexpr unsigned kMaxThreads = 60;

DirectoryOptions directory_options(const LdapOptions& options) {
  DirectoryOptions chosen;
  if (!options.index.empty())
    chosen.index = parse_attribute_list(options.index == "none" ? "" : options.index);
  return chosen;
}

Pool open_pool(const LdapOptions& options) {
  ExpertOptions pool_options = options.options;
  pool_options.let_others_look = true;
  return Pool::open_or_create(options.pool, pool_options).value();
}

Service service_of(Directory& directory, const LdapOptions& options) {
  Service service{&directory, {}, {}};
  if (options.admin.empty()) return service;
  service.admin = parse_dn(options.admin).value().normalised();
  std::ifstream file(options.password_file);
  if (!std::getline(file, service.admin_password) || service.admin_password.empty())
    throw Exception(Code::kIo, options.password_file + ": has no password in its first line");
  return service;
}

// ---- serve --------------------------------------------------------------------------------------

void serve(const LdapOptions& options) {
  // Before any thread is started, so that all leave these signals to sigwait() below.
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  Pool pool = open_pool(options);
  Directory directory(pool, directory_options(options));
  Server server(service_of(directory, options), options.socket,
                static_cast<unsigned>(options.threads));
  std::string indexed;
  for (const std::string& attribute : directory.indexed_attributes())
    indexed += (indexed.empty() ? "" : ",") + attribute;
  Report report = tools::describe(pool, options.pool);
  report["socket"] = options.socket;
  report["entries"] = directory.size();
  report["indexed"] = indexed;
  report["threads"] = options.threads;
  tools::print(report, options.json);
  std::fflush(stdout);

  int signal = 0;
  ::sigwait(&ends, &signal);
  server.stop();
  tools::print({{"answered", server.answered()}, {"entries", directory.size()}}, options.json);
}

// ---- load ---------------------------------------------------------------------------------------

/// Reads LDIF entry by entry.
class LdifReader {
 public:
  explicit LdifReader(std::istream& from) : from_(&from) {}

  /// The lines of the next entry, empty at the end. `line()` is where it began.
  std::string next() {
    std::string text;
    std::string line;
    bool comment = false;
    while (std::getline(*from_, line)) {
      ++lines_;
      if (line.ends_with('\r')) line.pop_back();
      if (line.empty()) {
        if (!text.empty()) return text;
        continue;
      }
      // A comment may be folded, too.
      if (line[0] == '#' || (comment && line[0] == ' ')) {
        comment = true;
        continue;
      }
      comment = false;
      if (text.empty()) begin_ = lines_;
      if (text.empty() && line.starts_with("version:")) continue;
      text += line + '\n';
    }
    return text;
  }
  std::uint64_t line() const { return begin_; }

 private:
  std::istream* from_;
  std::uint64_t lines_ = 0;
  std::uint64_t begin_ = 0;
};

void load(const LdapOptions& options) {
  std::ifstream file;
  if (options.input != "-") {
    file.open(options.input);
    if (!file) throw Exception(Code::kIo, options.input + ": cannot be read");
  }
  LdifReader reader(options.input == "-" ? std::cin : file);
  Pool pool = open_pool(options);
  Directory directory(pool, directory_options(options));
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t loaded = 0;
  {
    tools::Progress progress("loading", 0);
    bool empty = directory.size() == 0;
    for (std::string text = reader.next(); !text.empty(); text = reader.next()) {
      const std::string where = fmt::format("{}: line {}: ", options.input, reader.line());
      Arena arena;
      unfold(text);
      std::string_view rest = text;
      std::string_view name;
      Values values;
      try {
        while (!rest.empty()) {
          const Value value = parse_line(take_line(rest), arena);
          if (!name.empty()) {
            values.push_back(value);
          } else if (equal_ignoring_case(value.attribute, "dn")) {
            name = value.value;
          } else {
            throw Exception(Code::kInvalid, "an entry begins with 'dn: '");
          }
        }
        const Dn dn = parse_dn(name).value();
        gather(values);
        const Outcome outcome = directory.add(dn, values, empty);
        if (outcome.code != ResultCode::kSuccess) throw Exception(Code::kInvalid, outcome.info);
      } catch (const Exception& error) {
        throw Exception(error.code(), where + error.what() +
                                          fmt::format("; the {} entries before it are in", loaded));
      }
      empty = false;
      progress.show(++loaded);
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  tools::print({{"loaded", loaded},
                {"entries", directory.size()},
                {"load_ns", seconds * 1e9},
                {"acknowledged_survives", pool.guarantee()}},
               options.json);
}

// ---- search -------------------------------------------------------------------------------------

void search(const LdapOptions& options) {
  Search asked;
  asked.filter = parse_filter(options.filter).value();
  asked.base = parse_dn(options.base).value();
  asked.scope = options.scope == "base"  ? Search::Scope::kBase
                : options.scope == "one" ? Search::Scope::kOneLevel
                                         : Search::Scope::kSubtree;
  asked.size_limit = options.limit;
  // A private copy: it works beside a server, and leaves the file as it is.
  Pool pool = Pool::inspect(options.pool).value();
  if (pool.find_root<Store>(kRoot) == nullptr)
    throw Exception(Code::kNotFound, options.pool + ": holds no directory");
  Directory directory(pool);
  constexpr std::size_t kWidth = 76;
  Report found = Report::array();
  const Outcome outcome = directory.search(asked, [&](const std::string& dn, const Values& values) {
    if (options.json) {
      Report entry = {{"dn", dn}};
      for (const Value& value : values)
        entry[std::string(value.attribute)].push_back(std::string(value.value));
      found.push_back(std::move(entry));
      return;
    }
    std::string text;
    append_line(text, "dn", dn, kWidth);
    for (const Value& value : values) append_line(text, value.attribute, value.value, kWidth);
    fmt::print("{}\n", text);
  });
  if (outcome.code != ResultCode::kSuccess && outcome.code != ResultCode::kSizeLimitExceeded)
    throw Exception(Code::kNotFound, options.pool + ": " + outcome.info);
  // Bytes that are no text are shown as replacement characters; LDIF carries them whole.
  if (options.json) fmt::print("{}\n", found.dump(2, ' ', false, Report::error_handler_t::replace));
}

constexpr const char* kAbout =
    R"(An LDAP directory in a pool: every update one durable transaction, served to OpenLDAP's slapd.

slapd speaks LDAP and knows schemas and access rules; its socket back end (slapd-sock(5)) hands each operation to this
server. In slapd.conf:
  moduleload back_sock.so
  database   sock
  suffix     "dc=example,dc=com"
  rootdn     "cn=admin,dc=example,dc=com"
  socketpath /path/of/perdure-ldap.sock
slapd leaves binds to the back end, also that of its rootdn: give it an entry with a userPassword, or --admin to serve.)";

constexpr const char* kFooter =
    R"TEXT(Examples:
  perdure ldap serve --pool people.pool --socket /run/user/1000/perdure-ldap.sock \
    --admin cn=admin,dc=example,dc=com --password-file secret.txt
  perdure ldap load people.ldif --pool people.pool
  perdure ldap search "(&(objectClass=person)(sn=hopper))" --pool people.pool
  perdure-lab ldap demo              a real slapd, filled while both are killed, and nothing lost
  perdure-lab ldap bench             the same operations on slapd's own database
A server has its pool for itself: load into a pool that nobody serves, or use ldapadd. search works beside a server.)TEXT";

}  // namespace

void add_ldap_commands(tools::Command app) {
  tools::Command ldap = app.add_subcommand("ldap", kAbout);
  ldap.require_subcommand();
  const auto add = [&](const char* name, const char* about, void (*run)(const LdapOptions&)) {
    auto options = std::make_shared<LdapOptions>();
    options->options.ring_bytes = kRingBytes;
    tools::Command command = ldap.add_subcommand(name, about);
    command.add_option("--pool", options->pool, "The pool").show_default();
    tools::add_json_flag(command, options->json);
    command.callback([options, run] { run(*options); });
    return std::pair(command, options);
  };
  const auto add_writing = [](tools::Command command, LdapOptions& options) {
    command.add_option("--index", options.index,
                       "Attributes found by equality without looking at every entry, as "
                       "uid,cn,mail, or none; a pool remembers them");
    tools::add_open_options(command, options.options);
    tools::add_create_options(command, options.options);
  };

  const auto [serving, serve_options] =
      add("serve", "Answer slapd's socket back end, until SIGTERM", serve);
  serving.add_option("--socket", serve_options->socket, "Where slapd finds the server")
      .show_default();
  serving
      .add_option("--threads", serve_options->threads,
                  "Requests under way at a time; at least slapd's own threads (16)")
      .show_default()
      .range(1u, kMaxThreads);
  tools::Option file = serving.add_option("--password-file", serve_options->password_file,
                                          "The admin's password, or {CRYPT} and its hash");
  serving
      .add_option("--admin", serve_options->admin,
                  "A name that may bind without an entry; slapd's rootdn")
      .needs(file);
  add_writing(serving, *serve_options);

  const auto [loading, load_options] =
      add("load", "Add the entries of an LDIF file, each durably; the first may be a suffix", load);
  loading.add_option("INPUT", load_options->input, "The file; - is standard input").show_default();
  add_writing(loading, *load_options);

  const auto [searching, search_options] =
      add("search", "Print the entries that a filter finds, as LDIF", search);
  searching.add_option("FILTER", search_options->filter, "As (uid=ada)").show_default();
  searching.add_option("--base", search_options->base, "Where to begin (default: everywhere)");
  tools::add_choice<std::string>(searching, "--scope", search_options->scope,
                                 {{"base", "base"}, {"one", "one"}, {"sub", "sub"}},
                                 "base, one (level), or sub, the default");
  tools::add_count(searching, "--limit", search_options->limit, "At most so many; 0: all");

  ldap.footer(kFooter);  // last: commands take over the footer that they are born under
}

}  // namespace perdure::ldap
