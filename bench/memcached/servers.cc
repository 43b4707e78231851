// SPDX-License-Identifier: BSD-3-Clause
#include "bench/memcached/servers.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/memcached/object_store.h"
#include "apps/memcached/server.h"
#include "papers/nvheaps/evaluation/safe_layer.h"
#include "papers/pool.h"
#include "perdure/error.h"
#include "perdure/pool.h"
#include "tools/parts.h"
#ifdef PERDURE_WITH_BERKELEY_DB
#include "bench/memcached/berkeley_store.h"
#endif

namespace perdure::bench::memcached {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kLimit = "1G";

Words ours(const std::string& directory, unsigned threads, const Address& address,
           const Words& more) {
  Words words{tools::find_part("perdure"),
              "serve",
              directory + "/cache.pool",
              "--threads",
              std::to_string(threads),
              "--memory-limit",
              kLimit};
  if (address.socket.empty()) {
    words.insert(words.end(), {"--port", std::to_string(address.port)});
  } else {
    words.insert(words.end(), {"--socket", address.socket});
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string& memcached_program() {
  static std::string program;
  return program;
}

Words theirs(unsigned threads, const Address& address, const Words& more) {
  Words words{memcached_program(), "-m", "1024", "-t", std::to_string(threads)};
  if (::geteuid() == 0) words.insert(words.end(), {"-u", "root"});
  if (address.socket.empty()) {
    words.insert(words.end(), {"-l", "127.0.0.1", "-U", "0", "-p", std::to_string(address.port)});
  } else {
    words.insert(words.end(), {"-s", address.socket});
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A hidden command of ours.
Words of_lab(const std::string& command, const std::string& directory, unsigned threads,
             const Address& address, const Words& more) {
  Words words{std::filesystem::read_symlink("/proc/self/exe"),
              "bench",
              command,
              directory,
              "--threads",
              std::to_string(threads)};
  if (address.socket.empty()) {
    words.insert(words.end(), {"--port", std::to_string(address.port)});
  } else {
    words.insert(words.end(), {"--socket", address.socket});
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

#ifdef PERDURE_WITH_BERKELEY_DB
/// A thread for each connection: they wait for the device, and share its writes only when they wait together.
Words berkeley(const std::string& directory, unsigned connections, const Address& address,
               bool safe) {
  return of_lab("serve-berkeley", directory, std::max(2u, connections), address,
                safe ? Words{"--safe"} : Words{});
}
#endif

/// Answers on `address` from a store, until SIGTERM.
void serve(perdure::memcached::ItemStore& store, perdure::memcached::Syncer& syncer,
           perdure::memcached::Clock& clock, unsigned threads, const Address& address) {
  ::signal(SIGPIPE, SIG_IGN);
  perdure::memcached::Service service;
  service.store = &store;
  service.clock = &clock;
  perdure::memcached::ServerOptions options;
  options.socket = address.socket;
  options.port = address.port;
  options.threads = threads;
  perdure::memcached::Server(service, syncer, clock, options).run();
}

/// The installed one, else one that is unpacked; empty when there is none.
std::string find_memcached(const std::string& tree, bool offline) {
  for (const char* installed : {"/usr/bin/memcached", "/usr/local/bin/memcached"}) {
    if (tree.empty() && ::access(installed, X_OK) == 0) return installed;
  }
  const std::string where =
      std::filesystem::absolute(tree.empty() ? "build/memcached" : tree).lexically_normal();
  constexpr const char* kProgram = "usr/bin/memcached";
  if (offline && !std::filesystem::exists(where + "/" + kProgram)) return "";
  try {
    tools::unpack_package("memcached", where, kProgram);
  } catch (const Exception& error) {
    if (error.code() != Code::kNotFound || !tree.empty()) throw;
    return "";
  }
  return where + "/" + kProgram;
}

}  // namespace

std::vector<ServerKind> server_kinds(const std::string& memcached_tree, bool offline) {
  std::vector<ServerKind> kinds;
  memcached_program() = find_memcached(memcached_tree, offline);
  if (!memcached_program().empty()) {
    kinds.push_back({"memcached", "nothing", false,
                     [](const std::string&, unsigned threads, unsigned, const Address& address) {
                       return theirs(threads, address, {});
                     }});
    kinds.push_back(
        {"memcached -e", "an orderly end", false,
         [](const std::string& directory, unsigned threads, unsigned, const Address& address) {
           return theirs(threads, address, {"-e", directory + "/memory"});
         }});
  }
  kinds.push_back(
      {"perdure adr", "power loss, on persistent memory", false,
       [](const std::string& directory, unsigned threads, unsigned, const Address& address) {
         return ours(directory, threads, address, {"--domain", "adr"});
       }});
  kinds.push_back(
      {"perdure dram", "the end of the process", false,
       [](const std::string& directory, unsigned threads, unsigned, const Address& address) {
         return ours(directory, threads, address, {"--domain", "dram"});
       }});
  kinds.push_back(
      {"perdure strict", "power loss", true,
       [](const std::string& directory, unsigned threads, unsigned, const Address& address) {
         return ours(directory, threads, address, {"--domain", "sync"});
       }});
  kinds.push_back(
      {"perdure relaxed", "power loss, but for 10 ms", true,
       [](const std::string& directory, unsigned threads, unsigned, const Address& address) {
         return ours(directory, threads, address, {"--domain", "sync", "--durability", "relaxed"});
       }});
#ifdef PERDURE_WITH_BERKELEY_DB
  kinds.push_back(
      {"BDB safe", "power loss", true,
       [](const std::string& directory, unsigned, unsigned connections, const Address& address) {
         return berkeley(directory, connections, address, true);
       }});
  kinds.push_back(
      {"BDB fast", "nothing", true,
       [](const std::string& directory, unsigned, unsigned connections, const Address& address) {
         return berkeley(directory, connections, address, false);
       }});
  kinds.push_back(
      {"BDB safe tmpfs", "the end of the process", false,
       [](const std::string& directory, unsigned, unsigned connections, const Address& address) {
         return berkeley(directory, connections, address, true);
       }});
  kinds.push_back(
      {"BDB fast tmpfs", "nothing", false,
       [](const std::string& directory, unsigned, unsigned connections, const Address& address) {
         return berkeley(directory, connections, address, false);
       }});
#endif
  return kinds;
}

std::vector<ServerKind> object_server_kinds() {
  std::vector<ServerKind> kinds;
  const auto add = [&](const std::string& name, const std::string& survives, const Words& more) {
    kinds.push_back(
        {name, survives, false,
         [more](const std::string& directory, unsigned threads, unsigned, const Address& address) {
           return of_lab("serve-objects", directory, threads, address, more);
         }});
  };
  for (const nvheaps::Memory& memory : nvheaps::kMemories) {
    const std::string name(memory.name);
    add("NV-heap " + name, "power loss, on such memory", {"--memory", name});
  }
  add("NV-heap NoDur", "nothing", {"--not-durable"});
  return kinds;
}

RunningServer::RunningServer(const ServerKind& its, const std::string& directory, unsigned threads,
                             std::uint16_t port, LoadOptions with)
    : kind(its), load(std::move(with)) {
  std::string name = "memcached";
  for (const char c : kind.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  directory_ = std::make_unique<ScratchDirectory>(directory, name);
  const std::string& at = directory_->path();
  const std::string log = at + "/log";
  load.address = {at + "/socket", 0};
  if (port != 0) load.address = {"", port};
  process_ = std::make_unique<tools::Process>(
      kind.command(at, threads, load.connections, load.address), log);
  if (port != 0) {
    tools::wait_until_listening(*process_, port, log);
  } else {
    tools::wait_until_listening(*process_, load.address.socket, log);
  }
  empty_bytes = resident_bytes(process_->id()).value_or(0);
  fill(load);
  filled_bytes = resident_bytes(process_->id()).value_or(0);
}

RunningServer::~RunningServer() {
  if (process_ != nullptr) process_->stop();
}

double cpu_seconds(pid_t process) {
  clockid_t clock{};
  timespec spent{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &spent) != 0)
    throw Exception(Code::kIo, "process " + std::to_string(process) + ": is gone");
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) / 1e9;
}

std::optional<std::uint64_t> resident_bytes(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  if (!(file >> all >> resident)) return std::nullopt;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void serve_berkeley(const BerkeleyOptions& options) {
#ifdef PERDURE_WITH_BERKELEY_DB
  perdure::memcached::Clock clock(perdure::memcached::unix_seconds());
  BerkeleyStore store(options.directory, options.safe, options.threads, clock);
  // The front end asks a syncer whether replies have to wait: of a pool in memory, which nobody writes to, never.
  papers::LabOptions small;
  small.domain = DomainKind::kDram;
  small.capacity_bytes = 64 << 20;
  Pool pool = papers::open_or_create(options.directory + "/none.pool", small).value();
  perdure::memcached::Syncer syncer(pool, false);
  serve(store, syncer, clock, options.threads, options.address);
#else
  throw Exception(Code::kInvalid, options.directory + ": Berkeley DB was not built in");
#endif
}

void serve_objects(const ObjectServerOptions& options) {
  nvheaps::HeapSetting setting;
  setting.layer = options.durable ? nvheaps::Layer::kCTx : nvheaps::Layer::kNoDur;
  const auto memory = std::find_if(nvheaps::kMemories.begin(), nvheaps::kMemories.end(),
                                   [&](const auto& one) { return one.name == options.memory; });
  if (memory == nvheaps::kMemories.end())
    throw Exception(Code::kInvalid, "--memory " + options.memory + ": DRAM, STTM or PCM");
  setting.memory = *memory;
  const papers::LabOptions pool_options = nvheaps::pool_options(setting);
  Pool pool = papers::open_or_create(options.directory + "/cache.heap", pool_options).value();
  perdure::memcached::Clock clock(perdure::memcached::unix_seconds());
  perdure::memcached::Syncer syncer(pool, true);
  perdure::memcached::ObjectStore store(pool, syncer, clock, {std::uint64_t{1} << 30, true});
  serve(store, syncer, clock, options.threads, options.address);
}

}  // namespace perdure::bench::memcached
