// SPDX-License-Identifier: BSD-3-Clause
// The thread that ends epochs.
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/runtime.h"

namespace perdure::run {

std::int32_t process_id;

namespace {

std::uint32_t first_epoch_done =
    0;  // 1: the program may begin; 2: it may not, and the cause was said

constexpr std::uint64_t kTellAfterNs = 2'000'000'000;  // A child process may soon be gone.

std::uint32_t execs_seen;
bool told;
std::uint64_t failing_since;

std::uint32_t load(const std::atomic<std::uint32_t>& word) {
  return word.load(std::memory_order_seq_cst);
}

void add_one(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &word, FUTEX_WAKE, 0x7fffffff);
}

/// Until the word is not `value` any more, or it takes too long.
void wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, std::uint64_t most_ns) {
  const std::uint64_t most[2] = {most_ns / 1'000'000'000, most_ns % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, most);
}

/// Says once why epochs do not end, and once that they do again.
void tell_state(bool ended) {
  if (ended) {
    if (told) say("epochs end again");
    told = false;
    failing_since = 0;
    return;
  }
  const std::uint64_t now = now_ns(CLOCK_MONOTONIC);
  if (failing_since == 0) failing_since = now;
  if (told || (first_epoch_done != 0 && now - failing_since < kTellAfterNs)) return;
  say("no epoch can end now, so a resume would go back to the last one: ", why);
  told = true;
}

/// In the stop phase.
bool capture() {
  // A child born before the threads stopped shares what files hold.
  if (has_children()) {
    because("it has child processes");
    return false;
  }
  begin_staging();
  return capture_process() && capture_threads() && capture_files() &&
         capture_memory(!tracks_writes()) && finish_staging();
}

void count(std::uint64_t pause_ns) {
  Shared& with = shared();
  ++with.ended;
  with.pause_total_ns += pause_ns;
  with.pause_ns[with.pauses++ % kMostPauses] = static_cast<std::uint32_t>(pause_ns);
}

/// After that, the program has not replaced itself.
bool wait_for_exec() {
  execs_seen = shared().execs;
  const std::uint64_t second[2] = {1, 0};
  syscall(SYS_nanosleep, second, nullptr);
  shared().live = 1;
  because("the program tries to replace itself by another");
  return false;
}

/// Steps 1 to 5.
bool end_epoch() {
  Shared& with = shared();
  if (load(with.committed) != load(with.staged)) {
    ++with.late;
    while (load(with.committed) != load(with.staged) && load(with.poisoned) == 0)
      wait(with.committed, load(with.committed), 100'000'000);
  }
  if (load(with.poisoned) != 0) {
    because("the image in the state directory cannot be written");
    return false;
  }
  if (has_children()) {
    because("it has child processes");
    return false;
  }
  const std::uint64_t before = with.dirty_pages;
  const std::uint64_t touched = touched_pages();
  const std::uint64_t begin = now_ns(CLOCK_MONOTONIC);
  const std::uint64_t begin_cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
  bool captured = false;
  with.stopping = 1;
  if (with.execs != execs_seen) {
    with.stopping = 0;
    return wait_for_exec();
  }
  if (stop_threads()) {
    captured = capture();
    if (captured) with.epoch.fetch_add(1, std::memory_order_seq_cst);
    release_threads();
  }
  with.stop_cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_cpu;
  const std::uint64_t pause = now_ns(CLOCK_MONOTONIC) - begin;
  plan_next(pause, with.dirty_pages - before, touched);
  if (captured) {
    count(pause);
    add_one(with.staged);
  }
  with.stopping = 0;  // An exec, which ends this thread, waits for it.
  prepare_for_next();
  return captured;
}

/// The first epoch is committed before the program begins.
bool end_first_epoch() {
  Shared& with = shared();
  if (!end_epoch()) return false;
  while (load(with.committed) != load(with.staged)) {
    if (load(with.poisoned) != 0) {
      because("the image in the state directory cannot be written");
      return false;
    }
    wait(with.committed, load(with.committed), 100'000'000);
  }
  return true;
}

/// Until the last thread is gone, which may be at work in a system call long after it was killed, `alive` is locked: the
/// memory of all of them holds the file. Children are not the program.
void show_life() {
  char* const path = workspace().path;
  put_text(put_text(path, path + sizeof workspace().path, shared().directory),
           path + sizeof workspace().path, "/alive");
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  syscall(SYS_flock, file, LOCK_SH);
  syscall(SYS_mmap, kAliveBase, kPageBytes, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
  syscall(SYS_madvise, kAliveBase, kPageBytes, MADV_DONTFORK);
  syscall(SYS_close, file);
}

void control(void* resumed) {
  Shared& with = shared();
  syscall(SYS_unshare, CLONE_FILES);
  keep_own_descriptors();
  show_life();
  open_trackers();
  with.tracked = tracks_writes() ? 1 : 0;
  with.live = 1;
  with.fault_ns = fault_ns();
  if (!tracks_writes() && with.full_only == 0)
    say("this kernel cannot track writes (Linux 6.7 can): every epoch compares all memory");
  // After a resume the memory is that of an epoch.
  bool ended = true;
  if (resumed) {
    watch_all();
  } else {
    ended = end_first_epoch();
    tell_state(ended);
  }
  begin_next(true);
  __atomic_store_n(&first_epoch_done, ended ? 1U : 2U, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &first_epoch_done, FUTEX_WAKE_PRIVATE, 1);
  for (;;) {
    const std::uint32_t asked = load(with.wanted);
    static std::uint32_t served = 0;
    const std::uint64_t rest = time_until_next();
    if (asked == served && rest > 0) {
      wait(with.wanted, asked, rest);
      continue;
    }
    served = asked;
    with.live = 1;
    const bool good = end_epoch();
    tell_state(good);
    if (!good) {
      add_one(with.refused);
      syscall(SYS_futex, &with.staged, FUTEX_WAKE, 1);  // The supervisor waits there.
    }
    begin_next(good);
  }
}

long map_shared(int file, std::uint64_t at, std::uint64_t bytes) {
  return syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                 file, 0);
}

}  // namespace

long start_controller(int shared_file, int shadow_file, bool resumed) {
  const long room =
      syscall(SYS_mmap, kRuntimeBase, sizeof(Workspace), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (failed(room)) return room;
  const long with = map_shared(shared_file, kSharedBase, sizeof(Shared));
  if (failed(with)) return with;
  const long shadow = map_shared(shadow_file, kShadowBase, shared().capacity_slots * kPageBytes);
  if (failed(shadow)) return shadow;
  if (const long opened = open_shadow(resumed); failed(opened)) return opened;
  execs_seen = shared().execs;
  shared().stopping = 0;
  told = false;
  failing_since = 0;
  first_epoch_done = 0;
  begin_pace();
  // No signal of the program is for this thread.
  const std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &before, 8);
  clone_args arguments{};
  arguments.flags =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  arguments.stack = reinterpret_cast<std::uint64_t>(workspace().stack);
  arguments.stack_size = sizeof workspace().stack;
  const long tid = perdure_raw_clone(&arguments, sizeof arguments, &control,
                                     resumed ? &first_epoch_done : nullptr);
  syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &before, nullptr, 8);
  return tid;
}

std::uint32_t wait_for_controller() {
  for (;;) {
    const std::uint32_t done = __atomic_load_n(&first_epoch_done, __ATOMIC_SEQ_CST);
    if (done != 0) {  // The controller has a table of descriptors of its own now.
      for (std::int32_t& each : shared().given) {
        if (each >= 0) syscall(SYS_close, each);
        each = -1;
      }
      return done;
    }
    syscall(SYS_futex, &first_epoch_done, FUTEX_WAIT_PRIVATE, 0);
  }
}

long resume_controller(const ResumeNotice* notice) {
  const long tid = start_controller(notice->shared, notice->shadow, true);
  if (!failed(tid)) wait_for_controller();
  return tid;
}

}  // namespace perdure::run
