// SPDX-License-Identifier: BSD-3-Clause
// Becomes the program: a static program without libc, linked far from everything, that replaces all
// the memory of its process by that of an image and goes on in it.
//
//   1. moves the kernel's vDSO out of the way, unmaps everything else, moves it where it was;
//   2. maps every area, writable, fills it from the image, gives it its protection;
//   3. tells the kernel where heap, stack and arguments are; brings back signal handlers and timers;
//   4. creates the threads with their ids, each of which waits; sends them the signals that were
//      pending, starts the timers;
//   5. calls the runtime, which starts the thread that ends epochs;
//   6. every thread returns from the signal that parked it.
// Whatever fails ends the process before the program has run an instruction: the image stays.
#include "apps/run/restorer/restorer.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "apps/run/memory_map.h"

extern "C" {
// The compiler may call these.
void* memcpy(void* to, const void* from, std::size_t bytes) {
  void* const result = to;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
  return result;
}
void* memset(void* to, int value, std::size_t bytes) {
  void* const result = to;
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
  return result;
}
}

namespace perdure::run {
namespace {

constexpr std::uint64_t kThreadStack = 4096;
constexpr std::uint64_t kStacks = kRestorerBase + (std::uint64_t{2} << 30);
constexpr std::uint64_t kBelowAll = 0x10000;

char maps[256 << 10];
std::uint32_t go = 0;
std::int64_t failures =
    -1;  // a descriptor: a byte in it tells the tool that the program is not back

}  // namespace

[[noreturn]] void fail(const char* what, std::uint64_t value, long error) {
  char line[256] = "perdure: the program cannot be brought back: ";
  char* at = line;
  while (*at != 0) ++at;
  const auto put = [&](const char* text) {
    while (*text != 0) *at++ = *text++;
  };
  put(what);
  put(" 0x");
  for (int digit = 60; digit >= 0; digit -= 4) *at++ = "0123456789abcdef"[value >> digit & 15];
  if (error != 0) {
    put(", error ");
    long number = -error;
    char digits[8];
    int count = 0;
    for (; number > 0 && count < 8; number /= 10)
      digits[count++] = static_cast<char>('0' + number % 10);
    while (count > 0) *at++ = digits[--count];
  }
  put("; the state directory is as it was\n");
  syscall(SYS_write, 2, line, at - line);
  syscall(SYS_write, failures, "x", 1);
  syscall(SYS_kill, syscall(SYS_getpid), 9);  // An exit would be the program's own.
  __builtin_unreachable();
}

namespace {

bool is_kernels(const MapLine& line) { return line.is("[vdso]") || line.starts_with("[vvar"); }

/// The areas of the kernel's, in their order, of which the image has the same.
void take_over_vdso() {
  const long bytes = read_whole("/proc/self/maps", maps, sizeof maps);
  must(bytes, "/proc/self/maps", 0);
  const char* at = maps;
  MapLine line;
  std::uint64_t parked = kParking;
  std::uint64_t sizes[8];
  std::size_t count = 0;
  while (next_line(at, maps + bytes, line)) {
    if (!is_kernels(line)) continue;
    const std::uint64_t size = line.end - line.begin;
    must(syscall(SYS_mremap, line.begin, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, parked), "vDSO",
         line.begin);
    if (count == 8) fail("vDSO", line.begin);
    sizes[count++] = size;
    parked += size;
  }
  must(syscall(SYS_munmap, kBelowAll, kReservedBegin - kBelowAll), "unmapping", kBelowAll);
  must(syscall(SYS_munmap, kReservedEnd, kUserEnd - kReservedEnd), "unmapping", kReservedEnd);
  parked = kParking;
  std::size_t next = 0;
  for (std::uint64_t i = 0; i < plan().area_count; ++i) {
    const PlanArea& area = array<PlanArea>(plan().areas)[i];
    if (area.kind != VmaKind::kVdso && area.kind != VmaKind::kVvar) continue;
    const std::uint64_t size = area.end - area.begin;
    if (next == count || sizes[next] != size) fail("the vDSO has another size at", area.begin);
    must(syscall(SYS_mremap, parked, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, area.begin), "vDSO",
         area.begin);
    parked += size;
    ++next;
  }
  if (next != count) fail("the vDSO has other parts", next);
}

void map_areas() {
  for (std::uint64_t i = 0; i < plan().area_count; ++i) {
    const PlanArea& area = array<PlanArea>(plan().areas)[i];
    long file = -1;
    long flags = MAP_FIXED_NOREPLACE | MAP_NORESERVE;
    long protection = PROT_READ | PROT_WRITE;
    if (area.kind == VmaKind::kAnonymous) {
      flags |= MAP_PRIVATE | MAP_ANONYMOUS;
      if ((area.flags & kVmaGrowsDown) != 0) flags |= MAP_GROWSDOWN;
    } else if (area.kind == VmaKind::kFile) {
      const bool shared = (area.flags & kVmaShared) != 0;
      flags |= shared ? MAP_SHARED : MAP_PRIVATE;
      if (shared) protection = area.protection;
      file = syscall(SYS_openat, AT_FDCWD, array<char>(plan().texts) + area.path, O_RDONLY);
      must(file, "a mapped file at", area.begin);
    } else {
      continue;
    }
    const long at = syscall(SYS_mmap, area.begin, area.end - area.begin, protection, flags, file,
                            area.file_offset);
    must(at, "mapping", area.begin);
    if (file >= 0) syscall(SYS_close, file);
  }
  for (std::uint64_t i = 0; i < plan().page_count; ++i) {
    const PlanPages& pages = array<PlanPages>(plan().pages)[i];
    for (std::uint64_t done = 0; done < pages.bytes;) {
      const long got = syscall(SYS_pread64, pages.file, pages.address + done, pages.bytes - done,
                               pages.offset + done);
      if (got <= 0) fail("reading memory for", pages.address + done, got);
      done += static_cast<std::uint64_t>(got);
    }
  }
  for (std::uint64_t i = 0; i < plan().area_count; ++i) {
    const PlanArea& area = array<PlanArea>(plan().areas)[i];
    if (area.kind != VmaKind::kAnonymous && area.kind != VmaKind::kFile) continue;
    if (area.protection == (PROT_READ | PROT_WRITE) || (area.flags & kVmaShared) != 0) continue;
    must(syscall(SYS_mprotect, area.begin, area.end - area.begin, area.protection), "protecting",
         area.begin);
  }
}

void describe_to_kernel() {
  const ProcessRecord& process = plan().process;
  prctl_mm_map map{};
  map.start_code = process.start_code;
  map.end_code = process.end_code;
  map.start_data = process.start_data;
  map.end_data = process.end_data;
  map.start_brk = process.start_brk;
  map.brk = process.brk;
  map.start_stack = process.start_stack;
  map.arg_start = process.arg_start;
  map.arg_end = process.arg_end;
  map.env_start = process.env_start;
  map.env_end = process.env_end;
  map.auxv = const_cast<__u64*>(reinterpret_cast<const __u64*>(process.auxv));
  map.auxv_size = process.auxv_bytes;
  // Kernels before 5.9 allow the program's file to root only; then /proc/self/exe names the restorer.
  const long file = open_program_file();
  map.exe_fd = static_cast<__u32>(file);
  if (failed(file) || failed(syscall(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map))) {
    map.exe_fd = ~0U;
    must(syscall(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map), "PR_SET_MM_MAP", 0);
  }
  if (!failed(file)) syscall(SYS_close, file);
  if (plan().attributes.no_new_privileges != 0) syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  for (int signal = 1; signal <= 64; ++signal) {
    if (signal == 9 || signal == 19) continue;  // SIGKILL, SIGSTOP
    must(syscall(SYS_rt_sigaction, signal, &process.actions[signal], nullptr, 8), "signal", signal);
  }
  for (int timer = 0; timer < 3; ++timer)
    must(syscall(SYS_setitimer, timer, process.timers[timer], nullptr), "timer", timer);
}

void drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
  syscall(SYS_capset, &header, none);
}

/// What only the thread itself can do.
[[noreturn]] void go_on(const ThreadRecord& thread) {
  if (plan().drop_capabilities != 0) drop_capabilities();
  syscall(SYS_prctl, PR_SET_NAME, thread.name);
  syscall(SYS_set_tid_address, thread.clear_tid);
  if (thread.robust_list != 0)
    must(syscall(SYS_set_robust_list, thread.robust_list, thread.robust_bytes), "robust list", 0);
  must(syscall(SYS_arch_prctl, ARCH_SET_FS, thread.fs_base), "FS", thread.fs_base);
  must(syscall(SYS_arch_prctl, ARCH_SET_GS, thread.gs_base), "GS", thread.gs_base);
  if (thread.rseq != 0) {
    must(syscall(SYS_rseq, thread.rseq, thread.rseq_bytes, 0, thread.rseq_signature), "rseq",
         thread.rseq);
  }
  perdure_return_to_frame(thread.frame);
}

void thread_main(void* argument) {
  while (__atomic_load_n(&go, __ATOMIC_SEQ_CST) == 0)
    syscall(SYS_futex, &go, FUTEX_WAIT_PRIVATE, 0);
  go_on(*static_cast<const ThreadRecord*>(argument));
}

void create_threads() {
  const std::uint64_t count = plan().thread_count;
  must(syscall(SYS_mmap, kStacks, count * kThreadStack, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
       "stacks", kStacks);
  for (std::uint64_t i = 1; i < count; ++i) {
    const ThreadRecord& thread = array<ThreadRecord>(plan().threads)[i];
    clone_args arguments{};
    arguments.flags =
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    arguments.stack = kStacks + i * kThreadStack;
    arguments.stack_size = kThreadStack;
    arguments.set_tid = reinterpret_cast<std::uint64_t>(&thread.tid);
    arguments.set_tid_size = 1;
    must(perdure_raw_clone(&arguments, sizeof arguments, &thread_main,
                           const_cast<ThreadRecord*>(&thread)),
         "thread", static_cast<std::uint64_t>(thread.tid));
  }
}

alignas(16) char own_stack[64 << 10];

}  // namespace

extern "C" [[noreturn]] void perdure_restore() {
  take_over_vdso();
  map_areas();
  for (std::uint64_t i = 0; i < plan().source_count; ++i)
    syscall(SYS_close, array<std::int32_t>(plan().sources)[i]);
  for (std::uint64_t i = 0; i < plan().close_on_exec_count; ++i)
    syscall(SYS_fcntl, array<std::int32_t>(plan().close_on_exec)[i], F_SETFD, FD_CLOEXEC);
  describe_to_kernel();
  create_threads();
  bring_back_events();
  const auto resumed =
      reinterpret_cast<long (*)(const ResumeNotice*)>(plan().process.resumed_entry);
  must(resumed(&plan().notice), "the runtime", plan().process.resumed_entry);
  bring_back_limits();
  syscall(SYS_close, failures);
  __atomic_store_n(&go, 1U, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &go, FUTEX_WAKE_PRIVATE, 0x7fffffff);
  go_on(*array<ThreadRecord>(plan().threads));
}

/// argv[1] is the descriptor of the plan, argv[2] that of failures.
extern "C" [[noreturn]] void perdure_begin(const long* stack) {
  const long count = stack[0];
  const char* const* words = reinterpret_cast<const char* const*>(stack + 1);
  if (count < 3) fail("started by hand", 0);
  const std::uint64_t everything = ~std::uint64_t{0};
  syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &everything, nullptr, 8);
  const char* at = words[1];
  const std::uint64_t file = parse_number(at, at + 12, 10);
  at = words[2];
  failures = static_cast<std::int64_t>(parse_number(at, at + 12, 10));
  Plan head;
  if (syscall(SYS_pread64, file, &head, sizeof head, 0) != sizeof head) fail("the plan", file);
  must(syscall(SYS_mmap, kPlanBase, head.bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0),
       "the plan", kPlanBase);
  syscall(SYS_close, file);
  leave_program_file();
  asm volatile(
      "mov %0, %%rsp\n\t"
      "xor %%ebp, %%ebp\n\t"
      "call perdure_restore\n\t"
      "ud2" ::"r"(own_stack + sizeof own_stack));
  __builtin_unreachable();
}

}  // namespace perdure::run

asm(R"(
  .text
  .globl _start
_start:
  xor %ebp, %ebp
  mov %rsp, %rdi
  and $-16, %rsp
  call perdure_begin
  ud2
)");
