// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#include "apps/run/memory_map.h"
#include "apps/run/restorer/restorer.h"

namespace perdure::run {
namespace {

constexpr int kTimerRestoreIds = 77;  // PR_TIMER_CREATE_RESTORE_IDS, Linux 6.15
constexpr int kMostTimerIds = 1 << 16;
constexpr unsigned long kSetTicks = _IOW('T', 0, std::uint64_t);  // TFD_IOC_SET_TICKS

char maps[64 << 10];

struct KernelSigevent {
  std::uint64_t value;
  std::int32_t signal, notify, tid;
  std::int32_t rest[11];
};
static_assert(sizeof(KernelSigevent) == 64);

struct KernelSiginfo {
  std::int32_t signal, error, code, reserved;
  union {
    struct {
      std::int32_t pid;
      std::uint32_t uid;
    } sender;
    struct {
      std::int32_t id, overrun;
      std::uint64_t value;
    } timer;
    char room[112];
  };
};
static_assert(sizeof(KernelSiginfo) == 128);

itimerspec setting_of(const TimerSetting& setting) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  return {{static_cast<time_t>(setting.interval / kSecond),
           static_cast<long>(setting.interval % kSecond)},
          {static_cast<time_t>(setting.due / kSecond), static_cast<long>(setting.due % kSecond)}};
}

void take_locks() {
  for (std::uint64_t i = 0; i < plan().lock_count; ++i) {
    const LockRecord& lock = array<LockRecord>(plan().locks)[i];
    if (lock.kind != LockKind::kProcess) continue;
    struct flock range{};
    range.l_type = lock.exclusive != 0 ? F_WRLCK : F_RDLCK;
    range.l_start = static_cast<off_t>(lock.begin);
    range.l_len = static_cast<off_t>(lock.bytes);
    must(syscall(SYS_fcntl, lock.descriptor, F_SETLK, &range), "the lock on descriptor",
         static_cast<std::uint64_t>(lock.descriptor));
  }
}

/// With the id that it had. Kernels without the option count ids up: what does not fit is deleted.
void create_timer(const TimerRecord& timer) {
  KernelSigevent event{timer.value, timer.signal, timer.notify, timer.tid, {}};
  std::int32_t id = timer.id;
  for (int tries = 0; tries < kMostTimerIds; ++tries) {
    must(syscall(SYS_timer_create, timer.setting.clock, &event, &id), "timer",
         static_cast<std::uint64_t>(timer.id));
    if (id == timer.id) return;
    syscall(SYS_timer_delete, id);
  }
  fail("no timer gets the id", static_cast<std::uint64_t>(timer.id));
}

void start_timers() {
  const bool exact = !failed(syscall(SYS_prctl, kTimerRestoreIds, 1, 0, 0, 0));
  for (std::uint64_t i = 0; i < plan().timer_count; ++i)
    create_timer(array<TimerRecord>(plan().timers)[i]);
  if (exact) syscall(SYS_prctl, kTimerRestoreIds, 0, 0, 0, 0);
  for (std::uint64_t i = 0; i < plan().timer_count; ++i) {
    const TimerRecord& timer = array<TimerRecord>(plan().timers)[i];
    const itimerspec setting = setting_of(timer.setting);
    if (timer.setting.due != 0)
      must(syscall(SYS_timer_settime, timer.id, 0, &setting, nullptr), "starting timer",
           static_cast<std::uint64_t>(timer.id));
  }
  for (std::uint64_t i = 0; i < plan().timer_file_count; ++i) {
    const PlanTimer& timer = array<PlanTimer>(plan().timer_files)[i];
    const itimerspec setting = setting_of(timer.setting);
    must(syscall(SYS_timerfd_settime, timer.descriptor, timer.setting.flags, &setting, nullptr),
         "the timer of descriptor", static_cast<std::uint64_t>(timer.descriptor));
    if (timer.setting.ticks != 0)
      must(syscall(SYS_ioctl, timer.descriptor, kSetTicks, &timer.setting.ticks),
           "the ticks of descriptor", static_cast<std::uint64_t>(timer.descriptor));
  }
}

/// As if the program had sent it to itself, or as its timer sends it.
void send_signals(std::uint64_t pending, std::int32_t tid) {
  const std::int32_t pid = plan().process.pid;
  for (int signal = 1; signal <= 64; ++signal) {
    if ((pending >> (signal - 1) & 1) == 0) continue;
    KernelSiginfo info{};
    info.signal = signal;
    info.code = SI_USER;
    info.sender.pid = pid;
    info.sender.uid = static_cast<std::uint32_t>(syscall(SYS_getuid));
    for (std::uint64_t i = 0; i < plan().timer_count; ++i) {
      const TimerRecord& timer = array<TimerRecord>(plan().timers)[i];
      if (timer.signal != signal || timer.notify == SIGEV_NONE || timer.tid != tid) continue;
      info.code = SI_TIMER;
      info.timer.id = timer.id;
      info.timer.overrun = 0;
      info.timer.value = timer.value;
    }
    must(tid == 0 ? syscall(SYS_rt_sigqueueinfo, pid, signal, &info)
                  : syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &info),
         "pending signal", static_cast<std::uint64_t>(signal));
  }
}

void write_score(std::int32_t score) {
  char text[16];
  char* at = text + sizeof text;
  std::uint32_t rest = static_cast<std::uint32_t>(score < 0 ? -score : score);
  do {
    *--at = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (score < 0) *--at = '-';
  const long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY);
  if (failed(file)) return;
  syscall(SYS_write, file, at, text + sizeof text - at);
  syscall(SYS_close, file);
}

}  // namespace

void leave_program_file() {
  const long bytes = read_whole("/proc/self/maps", maps, sizeof maps);
  const char* at = maps;
  MapLine line;
  while (bytes > 0 && next_line(at, maps + bytes, line)) {
    if (line.inode == 0 || line.begin < kRestorerBase || line.end > kParking) continue;
    const std::uint64_t size = line.end - line.begin;
    const long copy = syscall(SYS_mmap, kParking, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (failed(copy)) return;
    // Nothing of the data may change until the copy is in its place.
    __builtin_memcpy(reinterpret_cast<void*>(copy), reinterpret_cast<const void*>(line.begin),
                     size);
    syscall(SYS_mprotect, copy, size, line.protection);
    must(syscall(SYS_mremap, copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, line.begin),
         "the restorer's own memory", line.begin);
  }
}

long open_program_file() {
  return syscall(SYS_openat, AT_FDCWD, array<char>(plan().texts) + plan().program,
                 O_RDONLY | O_CLOEXEC);
}

void bring_back_events() {
  take_locks();
  start_timers();
  send_signals(plan().attributes.pending, 0);
  for (std::uint64_t i = 0; i < plan().task_count; ++i) {
    const TaskRecord& task = array<TaskRecord>(plan().tasks)[i];
    send_signals(task.pending, task.tid);
  }
  std::uint64_t now[2] = {};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, now);
  auto* const away = reinterpret_cast<std::uint64_t*>(plan().attributes.away_address);
  *away += now[0] * 1'000'000'000 + now[1] - plan().process.monotonic_ns;
}

// What the resume may not do, such as to raise a hard limit, stays as it is for the resume.
void bring_back_limits() {
  const AttributesRecord& all = plan().attributes;
  for (std::uint64_t i = 0; i < plan().task_count; ++i) {
    const TaskRecord& task = array<TaskRecord>(plan().tasks)[i];
    if (task.policy != 0) syscall(SYS_sched_setscheduler, task.tid, task.policy, &task.priority);
    syscall(SYS_setpriority, PRIO_PROCESS, task.tid, task.nice);
  }
  for (int limit = 0; limit < 16; ++limit) {
    std::uint64_t now[2];
    if (!failed(syscall(SYS_prlimit64, 0, limit, all.limits[limit], 0)) ||
        failed(syscall(SYS_prlimit64, 0, limit, 0, now)))
      continue;
    if (now[1] > all.limits[limit][1]) now[1] = all.limits[limit][1];
    now[0] = all.limits[limit][0] < now[1] ? all.limits[limit][0] : now[1];
    syscall(SYS_prlimit64, 0, limit, now, 0);
  }
  write_score(all.oom_score_adj);
  syscall(SYS_prctl, PR_SET_THP_DISABLE, all.no_huge_pages, 0, 0, 0);
  syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, all.subreaper);
  if (all.dumpable <= 1) syscall(SYS_prctl, PR_SET_DUMPABLE, all.dumpable);
}

}  // namespace perdure::run
