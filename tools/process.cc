// SPDX-License-Identifier: BSD-3-Clause
#include "tools/process.h"

#include <fcntl.h>
#include <netinet/in.h>
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

namespace perdure::tools {
namespace {

namespace fs = std::filesystem;

template <class Address>
bool can_connect(int family, const Address& address) {
  const int probe = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool listening = probe >= 0 && ::connect(probe, reinterpret_cast<const sockaddr*>(&address),
                                                 sizeof(address)) == 0;
  if (probe >= 0) ::close(probe);
  return listening;
}

bool is_listening(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    throw Exception(Code::kInvalid, path + ": too long for a socket; choose a shorter directory");
  std::memcpy(address.sun_path, path.data(), path.size());
  return can_connect(AF_UNIX, address);
}

template <class Listening>
void wait_until(const Listening& listening, Process& process, const std::string& where,
                const std::string& log) {
  constexpr auto kPatience = std::chrono::seconds(60);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!listening()) {
    if (!process.running() || std::chrono::steady_clock::now() > deadline)
      throw Exception(Code::kIo,
                      where + ": nobody came to listen; the log ends with:\n" + end_of(log));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  return all;
}

}  // namespace

std::string end_of(const std::string& file) {
  constexpr std::size_t kBytes = 600;
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  const std::string all = std::move(text).str();
  return all.size() > kBytes ? all.substr(all.size() - kBytes) : all;
}

void become(const std::vector<std::string>& arguments,
            const std::vector<std::string>& environment) {
  std::vector<char*> argv = pointers(arguments);
  argv.push_back(nullptr);
  std::vector<char*> variables = pointers(environment);
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  variables.push_back(nullptr);
  ::execvpe(argv[0], argv.data(), variables.data());
  throw Exception(Code::kIo, arguments[0] + ": cannot be started: " + std::strerror(errno));
}

void wait_until_listening(Process& process, const std::string& socket, const std::string& log) {
  wait_until([&] { return is_listening(socket); }, process, socket, log);
}

void wait_until_listening(Process& process, std::uint16_t port, const std::string& log) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  wait_until([&] { return can_connect(AF_INET, address); }, process, "port " + std::to_string(port),
             log);
}

// Downloads it and unpacks it beside its place first, so that what is there is whole.
void unpack_package(const std::string& name, const std::string& where, const std::string& program) {
  const fs::path tree = where;
  const auto is_tree = [&](const fs::path& at) { return fs::exists(at / program); };
  if (is_tree(tree)) return;
  if (tree.has_parent_path()) fs::create_directories(tree.parent_path());
  const fs::path work = tree.string() + ".fetch-" + std::to_string(::getpid());
  const fs::path log = work / "log";
  fs::create_directories(work);
  const auto run = [&](const std::vector<std::string>& arguments) {
    return Process(arguments, log, {"DEBIAN_FRONTEND=noninteractive"}, work).wait() == 0;
  };
  bool done = run({"apt-get", "-qq", "download", name});
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
                    tree.string() + ": no " + name + ", and it could not be fetched (" + why +
                        "); install the package " + name + ", or unpack it there with dpkg -x");
}

Process::Process(const std::vector<std::string>& arguments, const std::string& log,
                 const std::vector<std::string>& environment, const std::string& directory,
                 const std::string& output) {
  std::vector<char*> argv = pointers(arguments);
  argv.push_back(nullptr);
  std::vector<char*> variables = pointers(environment);
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (output.empty()) {
    ::posix_spawn_file_actions_adddup2(&actions, 2, 1);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
  }
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
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

}  // namespace perdure::tools
