// SPDX-License-Identifier: BSD-3-Clause
// The process that a carried program is a child of: commits its epochs, holds its output, and tells how it ended.
//
//   prepare()      descriptors for the program get their numbers
//   fork           in the child: enter_program(), watch_program(), then exec
//   supervise()    until the program has ended
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/held_output.h"
#include "apps/run/keeper.h"
#include "apps/run/program_files.h"

namespace perdure::run {

/// How a program is run; kept in the state directory for its resumes.
struct Settings {
  Keeper::Options epochs{};
  HeldOutput::Which held{};
};
/// Errors: Exception: kIo; kNotFound; kCorrupt.
void keep_settings(const std::string& directory, const Settings& settings);
Settings read_settings(const std::string& directory);

class Supervisor {
 public:
  /// `from`: the epoch that the program goes on from; none: it begins. Errors: Exception: kIo.
  Supervisor(const std::string& directory, const Settings& settings, std::unique_ptr<Keeper> keeper,
             const Image* from);

  Keeper& keeper() { return *keeper_; }
  /// Gives the program's descriptors numbers from `least` on. Errors: Exception: kIo.
  void prepare(int least);
  /// The descriptors that the program begins with, besides its own.
  const std::vector<int>& handed() const { return handed_; }
  /// What else its process needs until exec.
  int until_exec() const { return until_exec_; }
  /// In the program's process, before exec: its outputs and what it is given; then, last, its system calls.
  void enter_program() const;
  void watch_program() const;

  /// Waits for `child`, through which the program ends. `status`: how the program itself ended, when that is known
  /// otherwise; else as the child did. Then commits what was staged and releases what may be. Returns the tool's exit code.
  int supervise(pid_t child, const std::string& statistics,
                const std::function<std::optional<int>()>& status = {});

 private:
  /// Those that the runtime takes; `give(descriptor)` answers the number that the program has it by.
  template <class Give>
  void hand_over(Give give);
  void hand_over_at_exec(const files::Call& call, int listener);

  const std::string directory_;
  const bool power_;
  std::unique_ptr<Keeper> keeper_;
  HeldOutput held_;
  ProgramFiles files_;
  std::vector<Descriptor> given_;
  std::vector<int> handed_;
  int until_exec_ = -1;
};

/// Waits for a child, passing on the signals that ask for an end. Returns its status. Changes this process's handlers
/// of SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT for good.
int wait_for(pid_t child);

}  // namespace perdure::run
