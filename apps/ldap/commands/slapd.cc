#include "apps/ldap/commands/slapd.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "perdure/error.h"

namespace perdure::ldap {
namespace {

namespace fs = std::filesystem;

std::string end_of(const std::string& file) {
  constexpr std::size_t kBytes = 600;
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  const std::string all = std::move(text).str();
  return all.size() > kBytes ? all.substr(all.size() - kBytes) : all;
}

bool is_listening(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    throw Exception(Code::kInvalid, path + ": too long for a socket; choose a shorter directory");
  std::memcpy(address.sun_path, path.data(), path.size());
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool listening = probe >= 0 && ::connect(probe, reinterpret_cast<const sockaddr*>(&address),
                                                 sizeof(address)) == 0;
  if (probe >= 0) ::close(probe);
  return listening;
}

void wait_until_listening(Process& process, const std::string& socket, const std::string& log) {
  constexpr auto kPatience = std::chrono::seconds(60);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!is_listening(socket)) {
    if (!process.running() || std::chrono::steady_clock::now() > deadline)
      throw Exception(Code::kIo,
                      socket + ": nobody came to listen; the log ends with:\n" + end_of(log));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  return all;
}

bool is_tree(const fs::path& tree) { return fs::exists(tree / "usr/sbin/slapd"); }

/// Downloads the package and unpacks it beside its place first, so that what is there is whole.
void fetch(const fs::path& tree) {
  const fs::path work = tree.string() + ".fetch-" + std::to_string(::getpid());
  const fs::path log = work / "log";
  fs::create_directories(work);
  const auto run = [&](const std::vector<std::string>& arguments) {
    return Process(arguments, log, {"DEBIAN_FRONTEND=noninteractive"}, work).wait() == 0;
  };
  bool done = run({"apt-get", "-qq", "download", "slapd"});
  std::string package;
  for (const fs::directory_entry& file : fs::directory_iterator(work)) {
    if (file.path().extension() == ".deb") package = file.path().filename();
  }
  done = done && !package.empty() && run({"dpkg", "-x", package, "tree"}) && is_tree(work / "tree");
  const std::string why = done ? "" : end_of(log);
  std::error_code failed;
  if (done) fs::rename(work / "tree", tree, failed);  // another process may have been faster
  fs::remove_all(work);
  if (!is_tree(tree))
    throw Exception(Code::kNotFound,
                    tree.string() + ": no slapd, and it could not be fetched (" + why +
                        "); install the package slapd, or unpack it there with dpkg -x");
}

}  // namespace

// ---- processes ----------------------------------------------------------------------------------

Process::Process(const std::vector<std::string>& arguments, const std::string& log,
                 const std::vector<std::string>& environment, const std::string& directory) {
  std::vector<char*> argv = pointers(arguments);
  argv.push_back(nullptr);
  std::vector<char*> variables = pointers(environment);
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  ::posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  const int failed =
      ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    pid_ = -1;
    throw Exception(Code::kIo, arguments[0] + ": cannot be started: " + std::strerror(failed));
  }
}

Process::Process(Process&& from) noexcept : pid_(std::exchange(from.pid_, -1)) {}

Process::~Process() { kill(); }

bool Process::running() {
  if (pid_ <= 0) return false;
  siginfo_t state{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &state, WEXITED | WNOHANG | WNOWAIT);
  return state.si_pid == 0;
}

void Process::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
  wait();
}

int Process::stop() {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
  return wait();
}

int Process::wait() {
  if (pid_ <= 0) return 0;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// ---- slapd --------------------------------------------------------------------------------------

SlapdFiles find_slapd(const std::string& tree) {
  if (tree.empty() && ::access("/usr/sbin/slapd", X_OK) == 0 &&
      fs::exists("/usr/lib/ldap/back_sock.so"))
    return {"/usr/sbin/slapd", "/usr/lib/ldap", "/etc/ldap/schema", ""};
  const fs::path root = fs::absolute(tree.empty() ? "build/slapd" : tree).lexically_normal();
  if (!is_tree(root)) {
    if (root.has_parent_path()) fs::create_directories(root.parent_path());
    fetch(root);
  }
  SlapdFiles files{root / "usr/sbin/slapd", root / "usr/lib/ldap", root / "etc/ldap/schema", ""};
  for (const fs::directory_entry& each : fs::directory_iterator(root / "usr/lib")) {
    // libslapi lies in the directory of the architecture.
    if (each.is_directory() && each.path().filename().string().find("-linux-") != std::string::npos)
      files.libraries = each.path();
  }
  return files;
}

namespace {

std::string ldapi(const std::string& path) {
  std::string uri = "ldapi://";
  for (const char c : path) uri += c == '/' ? std::string("%2F") : std::string(1, c);
  return uri;
}

/// What it takes to run a slapd in the foreground.
struct Launch {
  std::string socket;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
};

/// Writes the configuration.
Launch prepare(const SlapdFiles& files, const std::string& directory, const std::string& name,
               const std::string& module, const std::string& database) {
  const std::string base = directory + "/" + name;
  std::ofstream conf(base + ".conf");
  for (const char* schema : {"core", "cosine", "inetorgperson", "nis"})
    conf << "include " << files.schema << "/" << schema << ".schema\n";
  conf << "moduleload " << files.modules << "/" << module << ".so\n"
       << "loglevel none\nsizelimit unlimited\n"
       << database << "suffix \"" << kSuffix << "\"\nrootdn \"" << kAdmin
       << "\"\nlastmod off\nrootpw " << kAdminPassword << "\n";
  conf.close();
  if (!conf) throw Exception(Code::kIo, base + ".conf: cannot be written");
  const std::string socket = base + ".ldapi";
  fs::remove(socket);
  Launch launch{socket, {files.program, "-h", ldapi(socket), "-f", base + ".conf", "-d", "0"}, {}};
  if (!files.libraries.empty()) launch.environment.push_back("LD_LIBRARY_PATH=" + files.libraries);
  return launch;
}

Process start(const Launch& launch, const std::string& log) {
  Process process(launch.arguments, log, launch.environment);
  wait_until_listening(process, launch.socket, log);
  return process;
}

}  // namespace

Slapd::Slapd(const SlapdFiles& files, const std::string& directory, const std::string& name,
             const std::string& module, const std::string& database)
    : uri_(ldapi(directory + "/" + name + ".ldapi")),
      process_(start(prepare(files, directory, name, module, database),
                     directory + "/" + name + ".log")) {}

void become_slapd(const SlapdFiles& files, const std::string& directory,
                  const std::string& database) {
  const Launch launch = prepare(files, directory, "slapd", "back_sock", database);
  for (const std::string& variable : launch.environment) {
    const std::size_t equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> argv = pointers(launch.arguments);
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  throw Exception(Code::kIo, launch.arguments[0] + ": cannot be started: " + std::strerror(errno));
}

std::string slapd_uri(const std::string& directory) { return ldapi(directory + "/slapd.ldapi"); }

std::string sock_database(const std::string& socket) {
  return "database sock\nsocketpath " + socket + "\n";
}

std::string mdb_database(const std::string& directory) {
  return "database mdb\nmaxsize 17179869184\ndirectory " + directory +
         "\nindex objectClass,uid,cn,sn,mail,member,memberUid eq\n";
}

Process start_server(const std::string& pool, const std::string& socket, const std::string& log,
                     const std::vector<std::string>& options) {
  // Not "/proc/self/exe" itself, which would name the wrong program once it is looked up later.
  std::vector<std::string> arguments{
      fs::read_symlink("/proc/self/exe"), "ldap", "serve", "--pool", pool, "--socket", socket};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const std::string secret = log + ".password";
  std::ofstream(secret) << kAdminPassword << "\n";
  fs::permissions(secret, fs::perms::owner_read | fs::perms::owner_write);
  arguments.insert(arguments.end(), {"--admin", kAdmin, "--password-file", secret});
  Process process(arguments, log);
  wait_until_listening(process, socket, log);
  return process;
}

}  // namespace perdure::ldap
