// SPDX-License-Identifier: BSD-3-Clause
// `perdure run`: refuses what cannot be carried, then starts the program with the runtime.
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "apps/run/launch.h"
#include "apps/run/place.h"
#include "apps/run/supervisor.h"
#include "perdure/error.h"
#include "tools/parts.h"

namespace perdure::run {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& program, const std::string& cause) {
  throw Exception(Code::kInvalid, program + ": " + cause);
}

std::string find_in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), X_OK) == 0) return name;
    throw Exception(Code::kNotFound, name + ": no program that may be run");
  }
  std::istringstream folders(std::getenv("PATH") == nullptr ? "/usr/bin:/bin"
                                                            : std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/" + name;
    if (::access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path)) return path;
  }
  throw Exception(Code::kNotFound, name + ": not in PATH");
}

/// Errors: Exception kInvalid with the cause.
void judge_program(const std::string& path, int depth = 0) {
  struct stat attributes{};
  if (::stat(path.c_str(), &attributes) != 0)
    throw Exception(Code::kNotFound, path + ": not there");
  if ((attributes.st_mode & (S_ISUID | S_ISGID)) != 0)
    refuse(path,
           "is setuid or setgid, and such programs take no runtime; run it as its owner "
           "without that bit");
  std::ifstream file(path, std::ios::binary);
  std::string head(256, '\0');  // As much as the kernel reads of a script.
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  const bool whole = file.gcount() >= static_cast<std::streamsize>(sizeof(Elf64_Ehdr));
  file.clear();
  if (head.starts_with("#!") && depth < 4) {
    std::istringstream words(head.substr(2));
    std::string interpreter;
    words >> interpreter;
    return judge_program(interpreter, depth + 1);
  }
  Elf64_Ehdr elf{};
  std::memcpy(&elf, head.data(), sizeof elf);
  if (!whole || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
    refuse(path, "is neither a program nor a script with an interpreter");
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != EM_X86_64)
    refuse(path, "is no 64-bit x86 program; only those are carried");
  for (int i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(elf.e_phoff + static_cast<Elf64_Off>(i) * sizeof part));
    file.read(reinterpret_cast<char*>(&part), sizeof part);
    if (file && part.p_type == PT_INTERP) return;
  }
  refuse(path, "is linked statically, so that no runtime can be loaded; link it dynamically");
}

/// A resume needs namespaces with a /proc of their own: better to know before the first epoch.
void judge_system() {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      enter_namespaces();
    } catch (const Exception& error) {
      fmt::print(stderr, "perdure: {}\n", error.what());
      ::_exit(1);
    }
    const pid_t first = ::fork();
    if (first == 0) ::_exit(mount_proc() ? 0 : 2);
    int status = 0;
    if (first < 0 || ::waitpid(first, &status, 0) != first) ::_exit(1);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child)
    throw Exception(Code::kIo, "no process can be started");
  if (WEXITSTATUS(status) == 2)
    throw Exception(Code::kIo,
                    "a /proc of its own cannot be mounted here, which a resume needs; "
                    "containers forbid it unless /proc is unmasked");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Exception(Code::kIo, "a program could not be brought back here; nothing was run");
}

/// Nothing is there but what DirectoryLock makes. Errors: Exception: kExists, kIo.
void expect_empty(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (name == "lock" || name == "alive") continue;
    throw Exception(Code::kExists, directory + ": holds " + name +
                                       "; `perdure resume` it, or name an empty directory");
  }
  if (error) throw Exception(Code::kIo, directory + ": " + error.message());
}

void make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw Exception(Code::kIo, directory + ": " + error.message());
  // Before it is changed: it may be somebody else's.
  expect_empty(directory);
  // All that the program has in its memory lies there.
  ::chmod(directory.c_str(), 0700);
}

}  // namespace

int run_program(const RunOptions& options) {
  ::signal(SIGCHLD, SIG_DFL);  // Ignored, it would hide how the program ended.
  const std::string program = find_in_path(options.command.front());
  judge_program(program);
  judge_system();
  const std::string runtime = tools::find_part("libperdure_runtime.so");
  tools::find_part("perdure_restorer");
  make_directory(options.directory);
  const std::string directory = fs::canonical(options.directory);
  const DirectoryLock lock(directory);
  // Another run may have begun there, and ended, while this one had no lock.
  expect_empty(directory);
  const Settings settings{options.epochs,
                          options.hold ? HeldOutput::of_this_process() : HeldOutput::Which{}};
  keep_settings(directory, settings);
  Supervisor supervisor(directory, settings, Keeper::create(directory, options.epochs), nullptr);
  constexpr int kAboveThoseInherited = 200;
  supervisor.prepare(kAboveThoseInherited);

  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw Exception(Code::kIo, "no process can be started");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::personality(static_cast<unsigned long>(::personality(0xffffffff)) | ADDR_NO_RANDOMIZE);
    const char* preload = std::getenv("LD_PRELOAD");
    ::setenv("LD_PRELOAD", preload == nullptr ? runtime.c_str() : (runtime + ":" + preload).c_str(),
             1);
    ::setenv("PERDURE_RUN_PID", std::to_string(::getpid()).c_str(), 1);
    supervisor.enter_program();
    supervisor.watch_program();
    std::vector<char*> words;
    for (const std::string& word : options.command)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(program.c_str(), words.data());
    fmt::print(stderr, "perdure: {}: {}\n", program, std::strerror(errno));
    ::_exit(127);
  }
  return supervisor.supervise(child, options.statistics);
}

}  // namespace perdure::run
