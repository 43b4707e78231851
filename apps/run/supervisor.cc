// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/supervisor.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perdure/error.h"

namespace perdure::run {
namespace {

volatile sig_atomic_t passed_to = 0;

void pass_on(int signal) {
  if (passed_to > 0) ::kill(passed_to, signal);
}

/// `where`: a file, as JSON; "-": a table, to stderr; empty: nowhere.
void report_statistics(const Keeper& keeper, const std::string& where) {
  if (where.empty()) return;
  const KeeperStatistics all = keeper.statistics();
  const nlohmann::ordered_json report{
      {"epochs", all.epochs},
      {"late", all.late},
      {"tracked", all.tracked},
      {"first_write_ns", all.fault_ns},
      {"written_pages", all.dirty_pages},
      {"whole_pages", all.whole_pages},
      {"blocks", all.blocks},
      {"log_bytes", all.log_bytes},
      {"home_bytes", all.home_bytes},
      {"pause_p50_ns", all.pause_p50_ns},
      {"pause_p99_ns", all.pause_p99_ns},
      {"pause_max_ns", all.pause_max_ns},
      {"pause_total_ns", all.pause_total_ns},
      {"stop_cpu_ns", all.stop_cpu_ns},
  };
  if (where != "-") {
    std::ofstream(where) << report.dump(2) << "\n";
    return;
  }
  for (const auto& [name, value] : report.items())
    fmt::print(stderr, "perdure: {:16} {:>14}\n", name, value.dump());
}

/// Nothing is left to resume, and nothing of what the program's memory held.
void remove_epochs(const std::string& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename();
    const bool epochs = name == "image" || name == "kept" || name == "released" ||
                        name == "broken" || name.starts_with("undo-") || name.starts_with("held-");
    if (epochs) std::filesystem::remove_all(entry.path(), ignored);
  }
}

/// Tells how the program ended, and keeps that in the directory when it was by itself.
int conclude(const std::string& directory, int status, bool power) {
  if (WIFEXITED(status)) {
    const std::string path = directory + "/ended";
    const std::string text = fmt::format("exit code {}\n", WEXITSTATUS(status));
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    // Before it is there, a resume repeats the end of the program, for which it needs the epochs.
    if (file.get() >= 0 && write_at(file.get(), text.data(), text.size(), 0) &&
        (!power || ::fsync(file.get()) == 0)) {
      remove_epochs(directory);
    } else {
      fmt::print(stderr, "perdure: {}; the epochs stay\n", io_error(path).message);
    }
    return WEXITSTATUS(status);
  }
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  fmt::print(stderr, "perdure: the program was ended by signal {}; `perdure resume {}` goes on\n",
             signal, directory);
  return 128 + signal;
}

const std::uint64_t kFromTheBeginning[kOutputs] = {};

}  // namespace

void keep_settings(const std::string& directory, const Settings& all) {
  const Keeper::Options& options = all.epochs;
  const nlohmann::ordered_json settings{
      {"durable", options.power ? "power" : "process"},
      {"epoch_ns", options.period_ns},
      {"budget_millionths", options.budget_millionths},
      {"recording", static_cast<int>(options.recording)},
      {"full", options.full_only},
      {"hold_output", all.held.output},
      {"hold_error", all.held.error},
      {"error_is_output", all.held.error_is_output},
  };
  std::ofstream file(directory + "/settings.json");
  file << settings.dump(2) << "\n";
  if (!file.flush()) throw Exception(io_error(directory + "/settings.json"));
}

Settings read_settings(const std::string& directory) {
  const std::string path = directory + "/settings.json";
  std::ifstream file(path);
  if (!file)
    throw Exception(Code::kNotFound,
                    path + ": not there; name the directory that `perdure run --state` was given");
  try {
    const auto settings = nlohmann::json::parse(file);
    const int recording = settings.at("recording").get<int>();
    if (recording < 0 || recording > 2) throw std::out_of_range("recording");
    const HeldOutput::Which held{settings.value("hold_output", false),
                                 settings.value("hold_error", false),
                                 settings.value("error_is_output", false)};
    return {{settings.at("durable") == "power", settings.at("epoch_ns").get<std::uint64_t>(),
             std::clamp<std::uint64_t>(settings.at("budget_millionths").get<std::uint64_t>(), 1000,
                                       900'000),
             static_cast<Recording>(recording), settings.at("full").get<bool>()},
            held};
  } catch (const std::exception& error) {
    throw Exception(Code::kCorrupt,
                    path + ": " + error.what() +
                        R"(; write {"durable": "process", "epoch_ns": 1000000000, )"
                        R"("budget_millionths": 50000, "recording": 0, "full": false} into it)");
  }
}

Supervisor::Supervisor(const std::string& directory, const Settings& settings,
                       std::unique_ptr<Keeper> keeper, const Image* from)
    : directory_(directory),
      power_(settings.epochs.power),
      keeper_(std::move(keeper)),
      held_(directory, settings.epochs.power, keeper_->shared(), settings.held,
            from == nullptr ? kFromTheBeginning : from->process.output_end),
      files_(directory, settings.epochs.power, keeper_->shared(),
             [this](const files::Call& call, int listener) { hand_over_at_exec(call, listener); }) {
  keeper_->before_commit = [this](std::uint64_t) {
    held_.before_commit();
    return files_.before_commit();
  };
  keeper_->after_commit = [this](std::uint64_t epoch) {
    held_.after_commit();
    files_.after_commit(epoch);
  };
  keeper_->on_refused = [this] { files_.give_up_waiting(); };
}

template <class Give>
void Supervisor::hand_over(Give give) {
  const int ours[kGiven] = {keeper_->shared_file(), keeper_->shadow_file(), 2, held_.writing_end(1),
                            held_.writing_end(2)};
  for (int i = 0; i < kGiven; ++i) keeper_->shared().given[i] = ours[i] < 0 ? -1 : give(ours[i]);
}

void Supervisor::prepare(int least) {
  hand_over([&](int descriptor) {
    given_.emplace_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, least));
    if (given_.back().get() < 0)
      throw Exception(Code::kIo, "no descriptors are left; raise the limit (ulimit -n)");
    handed_.push_back(given_.back().get());
    return handed_.back();
  });
  until_exec_ = files_.prepare(least);
}

void Supervisor::hand_over_at_exec(const files::Call& call, int listener) {
  keeper_->expect_runtime();
  // A shell looks for a program in one directory after the other: it still has them.
  if (keeper_->shared().given[kGivenShared] >= 0) return;
  hand_over([&](int descriptor) {
    seccomp_notif_addfd wish{};
    wish.id = call.id;
    wish.srcfd = static_cast<std::uint32_t>(descriptor);
    return ::ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &wish);
  });
}

void Supervisor::enter_program() const {
  for (int descriptor = 1; descriptor <= kOutputs; ++descriptor) {
    if (held_.writing_end(descriptor) >= 0) ::dup2(held_.writing_end(descriptor), descriptor);
  }
  for (const int each : handed_) ::fcntl(each, F_SETFD, 0);
}

void Supervisor::watch_program() const { files_.enter_program(); }

int Supervisor::supervise(pid_t child, const std::string& statistics,
                          const std::function<std::optional<int>()>& status) {
  given_.clear();
  ::signal(SIGPIPE,
           SIG_IGN);  // Who reads what is released may be gone: the program is to learn of it.
  held_.start();
  const bool began = files_.start();
  if (began) keeper_->start();
  int ended = wait_for(child);
  keeper_->stop();
  files_.stop();
  bool known = true;
  if (status) {
    const std::optional<int> of_program = status();
    known = of_program.has_value();
    ended = of_program.value_or(ended);
  }
  held_.stop(known && WIFEXITED(ended));
  report_statistics(*keeper_, statistics);
  // Killed, with all in its namespace, or it could not go on: it has said why.
  if (status && !(known && began) && WIFEXITED(ended)) return WEXITSTATUS(ended);
  return conclude(directory_, ended, power_);
}

int wait_for(pid_t child) {
  passed_to = child;
  struct sigaction action{};
  action.sa_handler = &pass_on;
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2})
    ::sigaction(signal, &action, nullptr);
  // The terminal sends these to the program as well, which decides.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGQUIT, SIG_IGN);
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended != child && (ended > 0 || errno == EINTR)) continue;
    passed_to = 0;                             // Its number may be another's.
    return ended == child ? status : SIGKILL;  // Not known how: nothing is to be forgotten.
  }
}

}  // namespace perdure::run
