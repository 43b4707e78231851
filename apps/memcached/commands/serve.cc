// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/commands/serve.h"

#include <signal.h>

#include <memory>

#include "apps/memcached/layout.h"
#include "apps/memcached/object_store.h"
#include "apps/memcached/pool_store.h"
#include "apps/memcached/server.h"
#include "perdure/expert.h"
#include "tools/command.h"

namespace perdure::memcached {
namespace {

using tools::Report;

enum class StoreKind : std::uint8_t { kAsFound, kPool, kObjects };

struct ServeOptions {
  std::string file;
  StoreKind kind = StoreKind::kAsFound;
  ServerOptions server;
  StoreOptions store;
  std::uint64_t item_size_max = 1 << 20;
  Durability durability = Durability::kStrict;
  bool refuse_when_full = false;
  bool allow_shutdown = false;
  bool json = false;
  ExpertOptions pool;
};

/// An option in bytes that takes "64M".
void add_bytes(tools::Command command, const std::string& name, std::uint64_t& value,
               std::uint64_t least, std::uint64_t most, const std::string& what) {
  command
      .add_option_function<std::string>(
          name, [&value](const std::string& text) { value = tools::parse_bytes(text); }, what)
      .show_default(tools::human_bytes(value))
      .type_name("SIZE")
      .check([least, most](const std::string& text) {
        try {
          const std::uint64_t bytes = tools::parse_bytes(text);
          if (bytes >= least && bytes <= most) return std::string();
          return text + " is not from " + tools::human_bytes(least) + " to " +
                 tools::human_bytes(most);
        } catch (const Exception& error) {
          return std::string(error.what());
        }
      });
}

/// The cache that the pool has, or a new one. Errors: throws Exception, of kInvalid where it is not of the kind that was asked for.
std::unique_ptr<ItemStore> open_store(Pool& pool, Syncer& syncer, const Clock& clock,
                                      const ServeOptions& options) {
  const bool of_objects = ObjectStore::is_in(pool);
  const bool of_a_pool = pool.find_root<Cache>(kRoot) != nullptr;
  if (of_objects && options.kind == StoreKind::kPool)
    throw Exception(Code::kInvalid, "holds a heap of objects; serve it with --store objects");
  if (of_a_pool && options.kind == StoreKind::kObjects)
    throw Exception(Code::kInvalid, "holds a cache without objects; serve it with --store pool");
  if (of_objects || options.kind == StoreKind::kObjects)
    return std::make_unique<ObjectStore>(pool, syncer, clock, options.store);
  return std::make_unique<PoolStore>(pool, syncer, clock, options.store);
}

void serve(const ServeOptions& options) {
  if (options.server.socket.empty() && options.server.port == 0)
    throw Exception(Code::kInvalid, "--socket or --port must say where to listen");
  // Before any thread: a client that goes away is an error of a send, nothing more.
  ::signal(SIGPIPE, SIG_IGN);
  ExpertOptions pool_options = options.pool;
  pool_options.let_others_look = true;
  if (options.durability == Durability::kStrict)
    pool_options.relaxed_delay = std::chrono::milliseconds(0);  // the syncer asks in time
  Pool pool = Pool::open_or_create(options.file, pool_options).value();
  Clock clock(unix_seconds());
  Syncer syncer(pool, options.durability == Durability::kStrict);
  std::unique_ptr<ItemStore> store;
  try {
    store = open_store(pool, syncer, clock, options);
  } catch (const Exception& error) {
    throw Exception(error.code(), options.file + ": " + error.what());
  }
  Service service;
  service.store = store.get();
  service.clock = &clock;
  service.item_size_max = options.item_size_max;
  service.allow_shutdown = options.allow_shutdown;
  service.evict = options.store.evict;
  Server server(service, syncer, clock, options.server);
  Report report = tools::describe(pool, options.file);
  report["durability"] = syncer.relaxed() && !syncer.delays() ? "relaxed" : "strict";
  if (!options.server.socket.empty()) report["socket"] = options.server.socket;
  if (server.port() != 0)
    report["tcp"] = options.server.listen + ":" + std::to_string(server.port());
  report["threads"] = options.server.threads;
  report["items"] = store->counts().items;
  report["occupied_bytes"] = store->counts().bytes;
  report["memory_limit_bytes"] = options.store.limit_bytes;
  tools::print(report, options.json);
  std::fflush(stdout);

  server.run();
  if (syncer.relaxed()) pool.sync();
  tools::print({{"answered", server.requests()}, {"items", store->counts().items}}, options.json);
}

constexpr const char* kAbout =
    R"(A memcached whose items survive: its text protocol, classic and meta, over a pool.

What a client was told is stored, deleted or counted is so after a crash (of what --domain says); a restart serves at
once, however much there is.)";

constexpr const char* kFooter =
    R"TEXT(Examples:
  perdure serve cache.pool --port 11211
  perdure serve /dev/shm/cache.pool --domain adr --socket /run/user/1000/cache.sock --memory-limit 4G --threads 4
  printf 'set k 0 0 5\r\nhello\r\nget k\r\nquit\r\n' | nc localhost 11211
docs/MEMCACHED.md tells what is guaranteed, and what differs from memcached.)TEXT";

}  // namespace

void add_serve_command(tools::Command app) {
  auto options = std::make_shared<ServeOptions>();
  // Workers, the main thread, the pool's own.
  constexpr unsigned kMostThreads = 56;
  tools::Command command = app.add_subcommand("serve", kAbout);
  command.add_option("FILE", options->file, "The pool; made if it is not there").required();
  tools::add_choice<StoreKind>(
      command, "--store", options->kind,
      {{"as-found", StoreKind::kAsFound},
       {"pool", StoreKind::kPool},
       {"objects", StoreKind::kObjects}},
      "How a new cache is kept. pool: the quicker one; objects: a heap of objects, as in NV-heaps. "
      "as-found: as it is, a new one as pool");
  ServerOptions& server = options->server;
  command.add_option("--socket", server.socket, "Listen on a Unix socket");
  command
      .add_option_function<std::string>(
          "--socket-mode",
          [&server](const std::string& text) {
            server.socket_mode = static_cast<unsigned>(std::stoul(text, nullptr, 8));
          },
          "Who may connect there (default: 600, octal)")
      .check([](const std::string& text) {
        const bool octal = !text.empty() && text.size() <= 4 &&
                           text.find_first_not_of("01234567") == std::string::npos;
        return octal ? std::string() : text + " is no octal mode";
      });
  command.add_option("--port", server.port, "Listen on TCP; memcached's port is 11211");
  command.add_option("--listen", server.listen, "The address for that").show_default();
  command.add_option("--metrics", server.metrics,
                     "ADDRESS:PORT where http://ADDRESS:PORT/metrics tells Prometheus");
  command.add_option("--threads", server.threads, "Workers").show_default().range(1u, kMostThreads);
  command.add_option("--connections", server.connections, "At most so many at a time")
      .show_default()
      .range(1u, 1'000'000u);
  tools::add_count(command, "--idle-timeout", server.idle_seconds,
                   "Seconds after which a silent connection is closed; 0: never");
  add_bytes(command, "--memory-limit", options->store.limit_bytes, 1 << 20, std::uint64_t{1} << 50,
            "Bytes of items; then unused ones go");
  command.add_flag("--refuse-when-full", options->refuse_when_full,
                   "A full cache refuses, and no item goes (memcached's -M)");
  add_bytes(command, "--item-size-max", options->item_size_max, 1 << 10, kMaxValueBytes,
            "The largest value");
  tools::add_choice<Durability>(
      command, "--durability", options->durability,
      {{"strict", Durability::kStrict}, {"relaxed", Durability::kRelaxed}},
      "strict: a reply waits until what it says is durable; relaxed: on files, up to 10 ms of the "
      "last writes may be lost, the newest first");
  command.add_flag("--enable-shutdown", options->allow_shutdown, "Clients may say shutdown");
  tools::add_open_options(command, options->pool);
  tools::add_create_options(command, options->pool);
  tools::add_json_flag(command, options->json);
  command.callback([options] {
    options->store.evict = !options->refuse_when_full;
    serve(*options);
  });
  command.footer(kFooter);
}

}  // namespace perdure::memcached
