// SPDX-License-Identifier: BSD-3-Clause
// Kills a program at one after the other of its instructions, and lets it check itself in the next run.
//
//   survive_driver PROGRAM DOMAIN KILLS TRANSACTIONS   in an empty directory; DOMAIN: a value of PERDURE_DOMAIN
//
// 1. One run is stepped through, instruction by instruction, from before its first transaction to behind its last. That gives
//    the addresses of all that they execute: begin, barriers, allocation, log, commit, home stores, truncation.
// 2. KILLS further runs, spread evenly over these steps, begin with what the last one left behind. Each is stopped by a
//    breakpoint at its step's instruction, as often as the first run came by, and killed (SIGKILL) there.
// 3. The next run begins with a check: what is there must agree, and everything acknowledged must be there. One transaction
//    may have become durable that was not acknowledged yet.
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

namespace {

const char* program;
std::string transactions;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

std::string ended(int status) {
  if (WIFEXITED(status)) return "ended with status " + std::to_string(WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "was stopped by signal " + std::to_string(WSTOPSIG(status));
}

int wait_for(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) fail("waitpid failed");
  return status;
}

bool stopped_by(int status, int signal) { return WIFSTOPPED(status) && WSTOPSIG(status) == signal; }

pid_t start(const char* verb) {
  const pid_t child = ::fork();
  if (child < 0) fail("fork failed");
  if (child == 0) {
    // Instructions at the same addresses in every run.
    ::personality(ADDR_NO_RANDOMIZE);
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::execl(program, program, "counter", verb, transactions.c_str(), nullptr);
    ::_exit(127);
  }
  return child;
}

/// A run that has checked what the one before it left, and is about to begin its first transaction.
pid_t start_work() {
  const pid_t child = start("work");
  int status = wait_for(child);
  while (stopped_by(status, SIGTRAP)) {  // exec
    ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
    status = wait_for(child);
  }
  if (!stopped_by(status, SIGSTOP))
    fail("the program found damage, or could not start: it " + ended(status));
  return child;
}

void end(pid_t child) {
  ::kill(child, SIGKILL);
  const int status = wait_for(child);
  if (!WIFSIGNALED(status)) fail("instead of being killed the program " + ended(status));
}

user_regs_struct registers(pid_t child) {
  user_regs_struct all{};
  if (::ptrace(PTRACE_GETREGS, child, nullptr, &all) != 0) fail("ptrace cannot read registers");
  return all;
}

/// The address of every instruction up to the second stop.
std::vector<std::uint64_t> trace_of_a_run() {
  std::vector<std::uint64_t> trace;
  const pid_t child = start_work();
  for (;;) {
    trace.push_back(registers(child).rip);
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) fail("ptrace cannot step");
    const int status = wait_for(child);
    if (stopped_by(status, SIGSTOP)) break;
    if (!stopped_by(status, SIGTRAP)) fail("while it was traced the program " + ended(status));
  }
  end(child);
  return trace;
}

/// Runs until the instruction at `address` is about to be executed for the `times`-th time. False when the transactions
/// were through before.
bool run_to(pid_t child, std::uint64_t address, int times) {
  auto* const at = reinterpret_cast<void*>(address);
  errno = 0;
  const long code = ::ptrace(PTRACE_PEEKTEXT, child, at, nullptr);
  if (errno != 0) fail("ptrace cannot read instructions");
  const long trap = (code & ~0xffL) | 0xcc;  // int3
  for (int i = 1;; ++i) {
    if (::ptrace(PTRACE_POKETEXT, child, at, trap) != 0) fail("ptrace cannot set a breakpoint");
    ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
    int status = wait_for(child);
    if (stopped_by(status, SIGSTOP)) return false;
    if (!stopped_by(status, SIGTRAP)) fail("before a breakpoint the program " + ended(status));
    ::ptrace(PTRACE_POKETEXT, child, at, code);
    user_regs_struct all = registers(child);
    all.rip = address;
    ::ptrace(PTRACE_SETREGS, child, nullptr, &all);
    if (i == times) return true;
    ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    status = wait_for(child);
    if (!stopped_by(status, SIGTRAP)) fail("behind a breakpoint the program " + ended(status));
  }
}

void stay_on_one_cpu() {
  // Or every step of the program wakes another CPU up.
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const int here = ::sched_getcpu();
  if (here < 0) return;
  CPU_SET(static_cast<std::size_t>(here), &cpus);
  (void)::sched_setaffinity(0, sizeof(cpus), &cpus);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) fail("usage: survive_driver PROGRAM DOMAIN KILLS TRANSACTIONS");
  program = argv[1];
  ::setenv("PERDURE_DOMAIN", argv[2], 1);
  const long kills = std::atol(argv[3]);
  transactions = argv[4];
  stay_on_one_cpu();

  end(start_work());  // makes the files
  const std::vector<std::uint64_t> trace = trace_of_a_run();
  const auto steps = static_cast<long>(trace.size());
  if (steps < 1000) fail("only " + std::to_string(steps) + " instructions: nothing was tested");

  // A loop of many turns is entered a few times only: each turn of it would be a stop of its own.
  constexpr int kTimes = 60;
  std::set<std::uint64_t> killed_at;
  long killed = 0;
  for (long kill = 0; kill < kills; ++kill) {
    long step = steps * kill / kills;
    int times = 0;
    for (; step < steps; ++step) {
      times = 0;
      for (long i = 0; i <= step; ++i) times += trace[i] == trace[step] ? 1 : 0;
      if (times <= kTimes) break;
    }
    if (step == steps) break;
    const pid_t child = start_work();
    // The path differs a little from run to run: it may not come by so often.
    if (run_to(child, trace[step], times)) {
      killed_at.insert(trace[step]);
      ++killed;
    }
    end(child);
  }
  const pid_t last = start_work();  // checks
  end(last);
  std::printf("%ld instructions in %s transactions; %ld runs killed among them, at %zu places\n",
              steps, transactions.c_str(), killed, killed_at.size());
  return killed > kills / 2 ? 0 : 1;
}
