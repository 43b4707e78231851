// SPDX-License-Identifier: BSD-3-Clause
// Of the process and its threads: limits, priorities, pending signals, timers of timer_create, locks.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "apps/run/memory_map.h"
#include "apps/run/runtime/objects.h"

namespace perdure::run {

// The restorer adds to it: how long the program was not there between an epoch and its resume.
std::uint64_t away_ns = 0;

namespace {

constexpr std::uint64_t kParkBit = std::uint64_t{1} << (kParkSignal - 1);
TimerRecord timers[1024];
std::size_t timer_count = 0;
struct {
  std::uint64_t pending, queued;
  std::uint32_t no_new_privileges;
} status;

/// "signal/tid.17" and the like.
void read_notification(const char* at, const char* end, TimerRecord& timer) {
  while (at < end && *at == ' ') ++at;
  timer.notify = begins_with(at, "none")     ? SIGEV_NONE
                 : begins_with(at, "thread") ? SIGEV_THREAD
                                             : SIGEV_SIGNAL;
  const char* const target = find_text(at, end - at, "/tid.");
  const char* const line = find_text(at, end - at, "\n");
  if (target >= line) return;
  const char* number = target;
  timer.notify |= SIGEV_THREAD_ID;
  timer.tid = static_cast<std::int32_t>(parse_number(number, end, 10));
}

bool append_timers() {
  timer_count = 0;
  char* const text = workspace().maps;
  const long bytes = read_whole("/proc/self/timers", text, sizeof workspace().maps - 1);
  if (bytes < 0) return true;  // a kernel without that file: as if there were none
  text[bytes] = 0;
  const char* const end = text + bytes;
  for (const char* at = text; (at = find_text(at, end - at, "ID: ")) < end;) {
    if (timer_count == sizeof timers / sizeof *timers) {
      because("it has more than 1,024 timers (timer_create)");
      return false;
    }
    TimerRecord& timer = timers[timer_count++];
    timer = {};
    timer.id = static_cast<std::int32_t>(parse_number(at, end, 10));
    const char* signal = find_text(at, end - at, "signal: ");
    timer.signal = static_cast<std::int32_t>(parse_number(signal, end, 10));
    if (signal < end) ++signal;  // '/'
    timer.value = parse_number(signal, end, 16);
    read_notification(find_text(at, end - at, "notify:"), end, timer);
    // Clocks of processor time have negative numbers.
    const char* clock = find_text(at, end - at, "ClockID: ");
    const bool negative = clock < end && *clock == '-';
    if (negative) ++clock;
    const auto number = static_cast<std::int32_t>(parse_number(clock, end, 10));
    timer.setting.clock = negative ? -number : number;
    at = clock;
    itimerspec left{};
    syscall(SYS_timer_gettime, timer.id, &left);
    timer.setting.due = ns_of(left.it_value);
    timer.setting.interval = ns_of(left.it_interval);
    if (!append(RecordKind::kTimer, &timer, sizeof timer)) return false;
  }
  return true;
}

std::uint64_t pending_of(std::int32_t tid) {
  char path[64];
  char* at = put_text(path, path + sizeof path, "/proc/self/task/");
  at = put_number(at, path + sizeof path, static_cast<std::uint64_t>(tid));
  put_text(at, path + sizeof path, "/status");
  const long bytes = read_whole(path, workspace().text, sizeof workspace().text);
  return bytes <= 0 ? 0 : field_of(workspace().text, bytes, "SigPnd:", 16) & ~kParkBit;
}

/// `queued` signals are waiting somewhere in the user's processes; timers count as one each.
bool append_tasks(std::uint64_t queued) {
  const bool look = queued > timer_count;
  for (std::size_t i = 0; i < parked_threads(); ++i) {
    TaskRecord task{};
    task.tid = parked_thread(i).tid;
    const long priority = syscall(SYS_getpriority, PRIO_PROCESS, task.tid);
    task.nice = failed(priority) ? 0 : static_cast<std::int32_t>(20 - priority);
    const long policy = syscall(SYS_sched_getscheduler, task.tid);
    task.policy = failed(policy) ? 0 : static_cast<std::int32_t>(policy);
    syscall(SYS_sched_getparam, task.tid, &task.priority);
    task.pending = look ? pending_of(task.tid) : 0;
    if (!append(RecordKind::kTask, &task, sizeof task)) return false;
  }
  return true;
}

}  // namespace

void note_status(const char* text, long bytes) {
  status.pending = field_of(text, bytes, "ShdPnd:", 16) & ~kParkBit;
  status.queued = field_of(text, bytes, "SigQ:", 10);
  status.no_new_privileges = field_of(text, bytes, "NoNewPrivs:", 10) != 0 ? 1 : 0;
}

bool capture_attributes() {
  AttributesRecord all{};
  all.away_address = reinterpret_cast<std::uint64_t>(&away_ns);
  for (int limit = 0; limit < 16; ++limit) syscall(SYS_prlimit64, 0, limit, 0, all.limits[limit]);
  all.dumpable = static_cast<std::uint32_t>(syscall(SYS_prctl, PR_GET_DUMPABLE));
  all.no_huge_pages =
      static_cast<std::uint32_t>(syscall(SYS_prctl, PR_GET_THP_DISABLE, 0, 0, 0, 0));
  syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, &all.subreaper);
  char* const text = workspace().text;
  const long bytes = read_whole("/proc/self/oom_score_adj", text, sizeof workspace().text);
  if (bytes > 0) {
    const bool negative = text[0] == '-';
    const char* at = text + (negative ? 1 : 0);
    const auto score = static_cast<std::int32_t>(parse_number(at, text + bytes, 10));
    all.oom_score_adj = negative ? -score : score;
  }
  all.pending = status.pending;
  all.no_new_privileges = status.no_new_privileges;
  char* const path = workspace().path;
  const long length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, 4095);
  all.program_bytes = failed(length) ? 0 : static_cast<std::uint32_t>(length);
  return append(RecordKind::kAttributes, &all, sizeof all, path, all.program_bytes) &&
         append_timers() && append_tasks(status.queued);
}

bool append_locks(std::int32_t descriptor, const char* information, long bytes) {
  const char* const end = information + bytes;
  for (const char* at = information; (at = find_text(at, end - at, "\nlock:")) < end;) {
    const char* const line = find_text(at, end - at, "\n") - 1;
    const auto has = [&](const char* word) { return find_text(at, line - at, word) < line; };
    LockRecord lock{};
    lock.descriptor = descriptor;
    lock.kind = has(" POSIX ")    ? LockKind::kProcess
                : has(" OFDLCK ") ? LockKind::kDescription
                                  : LockKind::kWhole;
    if (lock.kind == LockKind::kWhole && !has(" FLOCK ")) continue;  // a lease
    lock.exclusive = has(" WRITE ") ? 1 : 0;
    // "... <device>:<inode> <first> <last or EOF>"
    const char* last = line;
    while (last > at && last[-1] != ' ') --last;
    const char* first = last - 1;
    while (first > at && first[-1] != ' ') --first;
    lock.begin = parse_number(first, line, 10);
    if (*last != 'E') lock.bytes = parse_number(last, line, 10) - lock.begin + 1;
    if (!append(RecordKind::kLock, &lock, sizeof lock)) return false;
  }
  return true;
}

}  // namespace perdure::run
