// SPDX-License-Identifier: BSD-3-Clause
// Stops the program's threads where a signal finds them.
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "apps/run/memory_map.h"
#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/runtime.h"

namespace perdure::run {
namespace {

constexpr std::uint32_t kOpen = 0, kClosed = 1;
constexpr std::uint32_t kRseqBytes = 32, kRseqSignature = 0x53053053;
constexpr std::uint64_t kPatienceNs = 500'000'000;
constexpr std::uint64_t kSaRestorer = 0x04000000;

std::uint32_t gate = kOpen;
std::uint32_t slots = 0;   // handed out
std::uint32_t parked = 0;  // filled
ThreadRecord threads[kMostThreads];

std::uint32_t load(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }
void store(std::uint32_t& word, std::uint32_t value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}

void describe_self(ThreadRecord& self, void* frame) {
  self.frame = reinterpret_cast<std::uint64_t>(frame);
  syscall(SYS_arch_prctl, ARCH_GET_FS, &self.fs_base);
  syscall(SYS_arch_prctl, ARCH_GET_GS, &self.gs_base);
  self.clear_tid = 0;
  syscall(SYS_prctl, PR_GET_TID_ADDRESS, &self.clear_tid);
  self.robust_list = self.robust_bytes = 0;
  syscall(SYS_get_robust_list, 0, &self.robust_list, &self.robust_bytes);
  // Registering once more what is registered is refused with EBUSY: the only way to ask.
  self.rseq = 0;
  self.rseq_bytes = 0;
  const std::uint64_t area =
      self.fs_base + static_cast<std::uint64_t>(static_cast<std::int64_t>(__rseq_offset));
  if (__rseq_size != 0 && self.fs_base != 0 &&
      syscall(SYS_rseq, area, kRseqBytes, 0, kRseqSignature) == -EBUSY) {
    self.rseq = area;
    self.rseq_bytes = kRseqBytes;
    self.rseq_signature = kRseqSignature;
  }
  __builtin_memset(self.name, 0, sizeof self.name);
  syscall(SYS_prctl, PR_GET_NAME, self.name);
  // Last: who reads the id reads the rest.
  __atomic_store_n(&self.tid, static_cast<std::int32_t>(syscall(SYS_gettid)), __ATOMIC_SEQ_CST);
}

// glibc's handler of the signal, which it installs when the first thread is created.
using Handler = void (*)(int, siginfo_t*, void*);
Handler glibcs = nullptr;
constexpr int kOurs = 0x7065726b;

/// Whether a handler of the program's runs as soon as this thread's mask is `mask` again.
bool handler_waits(std::uint64_t mask) {
  std::uint64_t pending = 0;
  syscall(SYS_rt_sigpending, &pending, sizeof pending);
  pending &= ~mask & ~(std::uint64_t{1} << (kParkSignal - 1));
  for (int signal = 1; pending >> (signal - 1) != 0 && signal <= 64; ++signal) {
    SignalAction action{};
    if ((pending >> (signal - 1) & 1) != 0 &&
        !failed(syscall(SYS_rt_sigaction, signal, nullptr, &action, 8)) && action.handler > 1)
      return true;
  }
  return false;
}

/// What a system call returns that has just ended, with this signal as its end; else 0.
long result_of_call(const ucontext_t& frame) {
  const auto* const next = reinterpret_cast<const unsigned char*>(frame.uc_mcontext.gregs[REG_RIP]);
  return next[-2] == 0x0f && next[-1] == 0x05 ? frame.uc_mcontext.gregs[REG_RAX] : 0;
}

void park(int signal, siginfo_t* info, void* frame) {
  if (info->si_code != SI_QUEUE || info->si_value.sival_int != kOurs) {
    if (glibcs != nullptr) glibcs(signal, info, frame);
    return;
  }
  const auto& context = *static_cast<const ucontext_t*>(frame);
  std::uint64_t mask;
  __builtin_memcpy(&mask, &context.uc_sigmask, sizeof mask);
  const long result = result_of_call(context);
  // Where the program's own handler is to run as well, the call ends as it would without epochs.
  if (result != 0 && !handler_waits(mask)) cut_short = result;
  if (load(gate) != kClosed) return;
  const std::uint32_t slot = __atomic_fetch_add(&slots, 1, __ATOMIC_SEQ_CST);
  if (slot < kMostThreads) describe_self(threads[slot], frame);
  __atomic_fetch_add(&parked, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &parked, FUTEX_WAKE_PRIVATE, 1);
  while (load(gate) == kClosed) syscall(SYS_futex, &gate, FUTEX_WAIT_PRIVATE, kClosed);
  if (result != 0 && handler_waits(mask)) cut_short = 0;
}

bool is_parked(std::int32_t tid) {
  const std::uint32_t count = load(slots);
  for (std::uint32_t i = 0; i < count && i < kMostThreads; ++i) {
    if (__atomic_load_n(&threads[i].tid, __ATOMIC_SEQ_CST) == tid) return true;
  }
  return false;
}

/// Ended, but not gone: the main thread after pthread_exit.
bool is_zombie(std::int32_t tid) {
  char path[64];
  char* at = put_text(path, path + sizeof path, "/proc/self/task/");
  at = put_number(at, path + sizeof path, static_cast<std::uint64_t>(tid));
  put_text(at, path + sizeof path, "/stat");
  char stat[512];
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (failed(file)) return true;
  const long bytes = syscall(SYS_read, file, stat, sizeof stat - 1);
  syscall(SYS_close, file);
  if (bytes <= 0) return true;
  long last = 0;
  for (long i = 0; i < bytes; ++i) {
    if (stat[i] == ')') last = i;
  }
  return last + 2 < bytes && (stat[last + 2] == 'Z' || stat[last + 2] == 'X');
}

/// One that did not stop: it blocks the signal, or is where no signal reaches it.
void because_of_thread(std::int32_t tid) {
  char path[64], text[200];
  char* const end = text + sizeof text;
  char* at = put_text(path, path + sizeof path, "/proc/self/task/");
  at = put_number(at, path + sizeof path, static_cast<std::uint64_t>(tid));
  put_text(at, path + sizeof path, "/status");
  char* const status = workspace().text;
  const long bytes = read_whole(path, status, sizeof workspace().text);
  if (bytes <= 0) return;
  const std::uint64_t blocked = field_of(status, bytes, "SigBlk:", 16);
  at = put_number(put_text(text, end, "thread "), end, static_cast<std::uint64_t>(tid));
  at = put_text(at, end, " (");
  for (const char* name = find_text(status, bytes, "Name:\t"); *name >= ' ' && at + 80 < end;)
    *at++ = *name++;
  put_text(at, end,
           (blocked >> (kParkSignal - 1) & 1) != 0 ? ") blocks all signals, 33 too"
                                                   : ") waits in the kernel, for a device perhaps");
  because(text);
}

struct Task {
  std::int32_t tid;
  bool signalled;
};
Task tasks[kMostThreads];
std::size_t task_count = 0;

/// Sends the signal to threads that have not got it yet. Returns how many have not parked, or -1.
int look_at_tasks(std::int32_t self) {
  const long folder = syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY);
  if (failed(folder)) return -1;
  int running = 0;
  for (;;) {
    char entries[4096];
    const long bytes = syscall(SYS_getdents64, folder, entries, sizeof entries);
    if (bytes <= 0) break;
    for (long at = 0; at < bytes;) {
      std::uint16_t step;
      __builtin_memcpy(&step, entries + at + 16, 2);
      std::int32_t tid = 0;
      for (const char* c = entries + at + 19; *c >= '0' && *c <= '9'; ++c)
        tid = tid * 10 + *c - '0';
      at += step;
      if (tid == 0 || tid == self || is_parked(tid)) continue;
      std::size_t i = 0;
      while (i < task_count && tasks[i].tid != tid) ++i;
      if (i == task_count) {
        if (task_count == kMostThreads) {
          running = -1;
          break;
        }
        tasks[task_count++] = {tid, false};
      }
      if (!tasks[i].signalled) {
        siginfo_t info{};
        info.si_signo = kParkSignal;
        info.si_code = SI_QUEUE;
        info.si_pid = process_id;
        info.si_value.sival_int = kOurs;
        syscall(SYS_rt_tgsigqueueinfo, process_id, tid, kParkSignal, &info);
        tasks[i].signalled = true;
        ++running;
      } else if (!is_zombie(tid)) {
        ++running;
      } else if (tid == process_id) {
        because("its main thread has ended while others go on");
        running = -1;
        break;
      }
    }
    if (running < 0) break;
  }
  syscall(SYS_close, folder);
  return running;
}

}  // namespace

void install_park_handler() {
  SignalAction action{reinterpret_cast<std::uint64_t>(&park), SA_SIGINFO | SA_RESTART | kSaRestorer,
                      reinterpret_cast<std::uint64_t>(&perdure_signal_restorer), ~std::uint64_t{0}};
  SignalAction before{};
  syscall(SYS_rt_sigaction, kParkSignal, &action, &before, 8);
  if (before.handler > 1 && before.handler != action.handler)
    glibcs = reinterpret_cast<Handler>(before.handler);
}

bool stop_threads() {
  const auto self = static_cast<std::int32_t>(syscall(SYS_gettid));
  for (std::uint32_t i = 0; i < load(slots) && i < kMostThreads; ++i) threads[i].tid = 0;
  store(slots, 0);
  store(parked, 0);
  task_count = 0;
  install_park_handler();
  store(gate, kClosed);
  because("a thread does not stop");
  const std::uint64_t give_up = now_ns(1) + kPatienceNs;
  bool sure = false;  // a thread may have been born after the list was read
  while (now_ns(1) < give_up) {
    const std::uint32_t before = load(parked);
    const int running = look_at_tasks(self);
    if (running < 0) {
      release_threads();
      return false;
    }
    if (running == 0) {
      if (sure) return true;
      sure = true;
      continue;
    }
    sure = false;
    const std::int64_t millisecond[2] = {0, 1'000'000};
    syscall(SYS_futex, &parked, FUTEX_WAIT_PRIVATE, before, millisecond);
  }
  for (std::size_t i = 0; i < task_count; ++i) {
    if (!is_parked(tasks[i].tid) && !is_zombie(tasks[i].tid)) because_of_thread(tasks[i].tid);
  }
  release_threads();
  return false;
}

void release_threads() {
  store(gate, kOpen);
  syscall(SYS_futex, &gate, FUTEX_WAKE_PRIVATE, 0x7fffffff);
}

std::size_t parked_threads() { return load(slots); }
const ThreadRecord& parked_thread(std::size_t index) { return threads[index]; }

}  // namespace perdure::run
