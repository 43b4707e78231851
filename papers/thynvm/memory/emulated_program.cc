// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/emulated_program.h"

#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "papers/thynvm/memory/ring.h"
#include "tools/parts.h"

namespace perdure::memory {
namespace {

namespace fs = std::filesystem;

constexpr int kRingInChild = 3;
constexpr const char* kPluginName = "libperdure_emulator.so";

std::optional<std::string> find_executable(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), R_OK) != 0) return std::nullopt;
    return fs::absolute(name);
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "/usr/bin:/bin" : path;
  while (!folders.empty()) {
    const std::size_t colon = std::min(folders.find(':'), folders.size());
    std::string candidate = std::string(folders.substr(0, colon)) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    folders.remove_prefix(std::min(colon + 1, folders.size()));
  }
  return std::nullopt;
}

void check_program(const std::string& path) {
  Elf64_Ehdr header{};
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? -1 : ::pread(file, &header, sizeof header, 0);
  const std::string why = std::strerror(errno);
  if (file >= 0) ::close(file);
  if (bytes < 0) throw Exception(Code::kIo, path + ": cannot be read: " + why);
  if (std::memcmp(header.e_ident, "#!", 2) == 0)
    throw Exception(Code::kInvalid,
                    path +
                        ": a script; name its interpreter as the program and the script as its "
                        "first argument");
  if (bytes < ssize_t{sizeof header} || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
      (header.e_type != ET_EXEC && header.e_type != ET_DYN))
    throw Exception(Code::kInvalid, path + ": not a program for x86-64 Linux (an ELF file)");
}

/// In an option of qemu a comma is written twice.
std::string commas_doubled(const std::string& text) {
  std::string doubled;
  for (const char each : text) doubled.append(each == ',' ? 2 : 1, each);
  return doubled;
}

int make_memory_file(const char* name) {
  const int file = ::memfd_create(name, MFD_CLOEXEC);
  if (file < 0)
    throw Exception(Code::kIo,
                    std::string("shared memory: cannot be had: ") + std::strerror(errno));
  return file;
}

std::uint32_t load(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }
void store(std::uint32_t& word, std::uint32_t value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}

}  // namespace

EmulatedProgram::EmulatedProgram(const Launch& launch) : name_(launch.program) {
  const auto emulator = find_executable(launch.emulator);
  if (!emulator)
    throw Exception(Code::kNotFound,
                    launch.emulator + ": not found; install the package qemu-user");
  const std::string plugin =
      launch.plugin.empty() ? tools::find_part(kPluginName) : fs::absolute(launch.plugin).string();
  if (::access(plugin.c_str(), R_OK) != 0)
    throw Exception(Code::kNotFound, plugin + ": the emulator's plugin is not there");
  const auto program = find_executable(launch.program);
  if (!program) throw Exception(Code::kNotFound, launch.program + ": no such program");
  check_program(*program);
  try {
    map_ring();
    spawn(launch, *emulator, *program, plugin);
  } catch (...) {
    release();
    throw;
  }
}

EmulatedProgram::~EmulatedProgram() { release(); }

void EmulatedProgram::release() {
  if (child_ > 0 && !status_) {
    ::kill(child_, SIGKILL);
    reap(0);
  }
  if (ring_ != nullptr) ::munmap(ring_, sizeof *ring_);
  if (ring_file_ >= 0) ::close(ring_file_);
  if (errors_ >= 0) ::close(errors_);
}

void EmulatedProgram::map_ring() {
  ring_file_ = make_memory_file("perdure-ring");
  errors_ = make_memory_file("perdure-stderr");
  void* memory = MAP_FAILED;
  if (::ftruncate(ring_file_, sizeof(perdure_ring)) == 0)
    memory =
        ::mmap(nullptr, sizeof(perdure_ring), PROT_READ | PROT_WRITE, MAP_SHARED, ring_file_, 0);
  if (memory == MAP_FAILED)
    throw Exception(Code::kIo, std::string("the ring: cannot be mapped: ") + std::strerror(errno));
  ring_ = static_cast<perdure_ring*>(memory);
  ring_->magic = PERDURE_RING_MAGIC;
  ring_->consumer = ::getpid();
}

void EmulatedProgram::spawn(const Launch& launch, const std::string& emulator,
                            const std::string& program, const std::string& plugin) {
  // What the program sees must not depend on the host's limits and chance: its kind of processor,
  // its stack, its "random" bytes.
  std::vector<std::string> words = {
      emulator,
      "-cpu",
      "qemu64,+rdrand",
      "-s",
      "8388608",
      "-seed",
      "1",
      "-plugin",
      commas_doubled(plugin) + ",ring=" + std::to_string(kRingInChild) +
          ",skip=" + (launch.skip_to_mark ? "mark" : std::to_string(launch.skip)) +
          ",instructions=" + std::to_string(launch.instructions),
      program};
  words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
  std::vector<std::string> settings = {"PATH=/usr/bin:/bin", "HOME=/", "LANG=C"};
  settings.insert(settings.end(), launch.environment.begin(), launch.environment.end());
  std::vector<char*> argv;
  std::vector<char*> environment;
  for (std::string& each : words) argv.push_back(each.data());
  for (std::string& each : settings) environment.push_back(each.data());
  argv.push_back(nullptr);
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, launch.input.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, launch.output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, errors_, 2);
  ::posix_spawn_file_actions_adddup2(&actions, ring_file_, kRingInChild);
  if (!launch.directory.empty())
    ::posix_spawn_file_actions_addchdir_np(&actions, launch.directory.c_str());
  // This thread's child inherits it.
  const int before = ::personality(0xffffffff);
  ::personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE);
  const int failed =
      ::posix_spawn(&child_, emulator.c_str(), &actions, nullptr, argv.data(), environment.data());
  ::personality(static_cast<unsigned long>(before));
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    child_ = -1;
    throw Exception(Code::kIo, name_ + ": cannot be started (input " + launch.input + ", output " +
                                   launch.output + ", directory " +
                                   (launch.directory.empty() ? "." : launch.directory) +
                                   "): " + std::strerror(failed));
  }
}

void EmulatedProgram::give_back_batch() {
  const std::uint32_t consumed = ring_->consumed + 1;
  store(ring_->consumed, consumed);
  if (load(ring_->producer_sleeps) != 0 &&
      load(ring_->published) - consumed <= PERDURE_RING_SLOTS / 2)
    perdure_ring_wake(&ring_->consumed);
  reading_ = false;
}

/// False when there will be no other.
bool EmulatedProgram::wait_for_batch() {
  const std::uint32_t consumed = ring_->consumed;
  while (load(ring_->published) == consumed) {
    if (status_ || read_last_) return false;
    store(ring_->consumer_sleeps, 1);
    if (load(ring_->published) == consumed) perdure_ring_nap(&ring_->published, consumed);
    store(ring_->consumer_sleeps, 0);
    reap(WNOHANG);  // It may have published before it died: look again.
  }
  return true;
}

void EmulatedProgram::reap(int options) {
  int status = 0;
  if (!status_ && ::waitpid(child_, &status, options) == child_) status_ = status;
}

std::span<const Access> EmulatedProgram::next() {
  if (reading_) give_back_batch();
  while (!read_last_ && wait_for_batch()) {
    const std::uint32_t slot = ring_->consumed % PERDURE_RING_SLOTS;
    const std::uint32_t length = ring_->lengths[slot];
    read_last_ = (length & PERDURE_RING_LAST) != 0;
    reading_ = true;
    const std::size_t count = length & ~PERDURE_RING_LAST;
    // Access is the layout of these words.
    if (count > 0) return {reinterpret_cast<const Access*>(ring_->records[slot]), count};
    give_back_batch();
  }
  reap(0);
  judge_end();
  return {};
}

void EmulatedProgram::judge_end() {
  reached_limit_ = read_last_ && ring_->state == PERDURE_RING_LIMITED;
  instructions_ = ring_->instructions;
  skipped_ = ring_->skipped;
  const int status = status_.value_or(0);
  if (WIFSIGNALED(status)) fail(std::string("was killed: ") + ::strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) fail("ended with status " + std::to_string(WEXITSTATUS(status)));
  if (!read_last_)
    fail(ring_->state == PERDURE_RING_WAITING
             ? "the emulator did not load the plugin; its version must be 6.0 to 8.x"
             : "became another program (exec), which cannot be followed; start that one");
  if (instructions_ == 0)
    throw Exception(Code::kInvalid,
                    name_ + ": ended after " + std::to_string(skipped_) +
                        " instructions, all of which were to be skipped: nothing was recorded");
}

void EmulatedProgram::fail(const std::string& what) const {
  std::string last_words(600, '\0');
  const off_t bytes = ::lseek(errors_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, bytes - static_cast<off_t>(last_words.size()));
  const ssize_t got = ::pread(errors_, last_words.data(), last_words.size(), from);
  last_words.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (!last_words.empty() && last_words.back() == '\n') last_words.pop_back();
  throw Exception(Code::kIo,
                  name_ + ": " + what + (last_words.empty() ? "" : "; it said: " + last_words));
}

}  // namespace perdure::memory
