// SPDX-License-Identifier: BSD-3-Clause
// What an image holds besides memory.
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "apps/run/generation.h"
#include "apps/run/machine.h"
#include "apps/run/memory_map.h"
#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/runtime.h"

namespace perdure::run {
namespace {

MachineRecord machine;

bool read_layout(ProcessRecord& process) {
  char* const text = workspace().text;
  const long bytes = read_whole("/proc/self/stat", text, sizeof workspace().text - 1);
  if (bytes <= 0) return false;
  const char* const end = text + bytes;
  const char* at = text;
  for (const char* c = text; c < end; ++c) {
    if (*c == ')') at = c + 2;
  }
  std::uint64_t values[64] = {};
  for (int number = 3; number < 64 && at < end; ++number) {  // as proc(5) counts
    const bool negative = *at == '-';
    if (negative) ++at;
    values[number] = parse_number(at, end, 10);
    while (at < end && *at != ' ') ++at;
    ++at;
  }
  process.start_code = values[26];
  process.end_code = values[27];
  process.start_stack = values[28];
  process.start_data = values[45];
  process.end_data = values[46];
  process.start_brk = values[47];
  process.arg_start = values[48];
  process.arg_end = values[49];
  process.env_start = values[50];
  process.env_end = values[51];
  process.brk = static_cast<std::uint64_t>(syscall(SYS_brk, 0));
  return process.start_brk != 0;
}

struct Descriptor {
  std::int32_t number;
  std::uint64_t device, inode;
};
Descriptor descriptors[kMostDescriptors];
int descriptor_count = 0;

std::int32_t shared_with(const Descriptor& mine) {
  for (int i = 0; i < descriptor_count; ++i) {
    const Descriptor& other = descriptors[i];
    if (other.device == mine.device && other.inode == mine.inode &&
        syscall(SYS_kcmp, process_id, process_id, KCMP_FILE, other.number, mine.number) == 0)
      return other.number;
  }
  return -1;
}

bool is_harmless_device(const struct stat& attributes) {
  if (!S_ISCHR(attributes.st_mode)) return false;
  const auto major = attributes.st_rdev >> 8 & 0xfff;
  return major == 1;  // null, zero, full, random, urandom
}

long open_descriptor(std::int32_t number) {
  char path[64];
  char* at = put_text(path, path + sizeof path, "/proc/self/fd/");
  put_number(at, path + sizeof path, static_cast<std::uint64_t>(number));
  return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/// Calls use(offset, bytes) for the file's contents in workspace().bounce.
template <class Use>
bool read_file(const FileRecord& file, Use use) {
  const long opened = open_descriptor(file.descriptor);
  bool good = !failed(opened);
  for (std::uint64_t at = 0; good && at < file.bytes;) {
    const std::uint64_t want = file.bytes - at < kBounceBytes ? file.bytes - at : kBounceBytes;
    const long got = syscall(SYS_pread64, opened, workspace().bounce, want, at);
    good = got > 0 && use(at, static_cast<std::uint64_t>(got));
    at += static_cast<std::uint64_t>(got);
  }
  if (!failed(opened)) syscall(SYS_close, opened);
  if (!good) because("a file that it writes cannot be read: ", workspace().path, file.path_bytes);
  return good;
}

bool keep_file(const FileRecord& file) {
  return read_file(file, [&](std::uint64_t offset, std::uint64_t bytes) {
    const ContentsRecord contents{file.descriptor, 0, offset, bytes};
    return append(RecordKind::kContents, &contents, sizeof contents, workspace().bounce, bytes);
  });
}

std::uint64_t generation_of(const char* path) {
  for (const int more : {0, kHandleOnlyTells}) {
    FileHandle handle;
    int mount = 0;
    const long result =
        syscall(SYS_name_to_handle_at, AT_FDCWD, path, &handle, &mount, AT_SYMLINK_FOLLOW | more);
    if (!failed(result)) return handle.generation();
  }
  return 0;
}

/// A program that failed to replace itself by another still has what the supervisor gave it for that one; unless it has
/// closed that, and perhaps has files of its own by these numbers.
void forget_what_it_closed() {
  for (int i = 0; i < kGiven; ++i) {
    std::int32_t& number = shared().given[i];
    if (number < 0) continue;
    char path[64];
    char* const at = put_text(path, path + sizeof path, "/proc/self/fd/");
    put_number(at, path + sizeof path, static_cast<std::uint64_t>(number));
    bool there;
    if (i <= kGivenShadow) {
      static constexpr char kOurs[] = "/memfd:perdure-";
      char target[sizeof kOurs] = {};
      syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof target - 1);
      there = equal_bytes(target, kOurs, sizeof kOurs);
    } else {
      // The controller has the same at 0, 1 and 2 of its own.
      struct stat its, own;
      there = !failed(syscall(SYS_newfstatat, AT_FDCWD, path, &its, 0)) &&
              !failed(syscall(SYS_fstat, i - kGivenErrors, &own)) && its.st_dev == own.st_dev &&
              its.st_ino == own.st_ino;
    }
    if (!there) number = -1;
  }
}

/// Whether the supervisor has linked the file into its directory (files/kept_files.h).
bool is_kept(std::uint64_t device, std::uint64_t inode) {
  char path[sizeof shared().directory + 64];
  char* const end = path + sizeof path;
  char* at = put_text(put_text(path, end, shared().directory), end, "/kept/");
  at = put_text(put_number(at, end, device, 16), end, "-");
  put_number(at, end, inode, 16);
  return !failed(syscall(SYS_faccessat, AT_FDCWD, path, 0 /* F_OK */));
}

bool capture_file(std::int32_t number) {
  for (const std::int32_t each : shared().given) {
    if (each == number) return true;  // For the program that this one failed to replace itself by.
  }
  char path[64], *const target = workspace().path;
  char* at = put_text(path, path + sizeof path, "/proc/self/fd/");
  put_number(at, path + sizeof path, static_cast<std::uint64_t>(number));
  const long length = syscall(SYS_readlinkat, AT_FDCWD, path, target, 4096);
  struct stat attributes;
  if (length < 0 || failed(syscall(SYS_newfstatat, AT_FDCWD, path, &attributes, 0))) return true;
  target[length] = 0;
  const std::uint64_t generation = S_ISREG(attributes.st_mode) ? generation_of(path) : 0;
  at = put_text(path, path + sizeof path, "/proc/self/fdinfo/");
  put_number(at, path + sizeof path, static_cast<std::uint64_t>(number));
  char* const text = workspace().maps;
  const long bytes = read_whole(path, text, sizeof workspace().maps);
  if (bytes <= 0) {
    because("what /proc says of a descriptor cannot be read: ", target);
    return false;
  }

  FileRecord file{};
  file.descriptor = number;
  file.offset = field_of(text, bytes, "pos:", 10);
  file.flags = static_cast<std::uint32_t>(field_of(text, bytes, "\nflags:", 8));
  file.device = attributes.st_dev;
  file.inode = attributes.st_ino;
  file.mode = attributes.st_mode;
  file.bytes = static_cast<std::uint64_t>(attributes.st_size);
  file.modified_ns = static_cast<std::uint64_t>(attributes.st_mtim.tv_sec) * 1'000'000'000 +
                     static_cast<std::uint64_t>(attributes.st_mtim.tv_nsec);
  file.path_bytes = static_cast<std::uint32_t>(length);
  const bool special = is_object(number, attributes, target);
  if (!special) {
    file.kind = FileKind::kRegular;
    file.generation = generation;
    static constexpr char kDeleted[] = " (deleted)";
    constexpr long kBytes = sizeof kDeleted - 1;
    // The supervisor has given a file that lost its name another one (files/kept_files.h), if it could.
    if (length > kBytes && equal_bytes(target + length - kBytes, kDeleted, kBytes))
      file.deleted = attributes.st_nlink == 0 ? kContentsKept : kLinkKept;
    if (file.deleted == kLinkKept && !is_kept(file.device, file.inode)) {
      because(
          "it has a file open that has lost the name by which it was opened, and has another one, "
          "on another file system than the state directory: ",
          target, file.path_bytes);
      return false;
    }
    if (file.deleted == kContentsKept && file.bytes > kMostKept) {
      because(
          "it has a deleted file of more than 4 MiB open, on another file system than the state "
          "directory: ",
          target, file.path_bytes);
      return false;
    }
  } else if (S_ISDIR(attributes.st_mode)) {
    file.kind = FileKind::kDirectory;
  } else if (is_harmless_device(attributes)) {
    file.kind = FileKind::kDevice;
  } else if (number <= 2) {
    file.kind = FileKind::kStandard;
  } else {
    file.kind = FileKind::kLost;
  }
  const Descriptor mine{number, file.device, file.inode};
  file.same_as = shared_with(mine);
  if (descriptor_count == kMostDescriptors) {
    because("it has more than 4,096 descriptors");
    return false;
  }
  descriptors[descriptor_count++] = mine;
  if (file.deleted != 0 && file.same_as < 0) {
    Shared& with = shared();
    if (with.nameless_count == kMostNameless) {
      because("it has more than 256 deleted files open");
      return false;
    }
    with.nameless[with.nameless_count++] = {file.device, file.inode};
  }
  if (file.kind == FileKind::kStandard || file.kind == FileKind::kLost)
    note_object(file, attributes);
  if (file.same_as < 0 && !append_locks(number, text, bytes)) return false;
  return append(RecordKind::kFile, &file, sizeof file, target, file.path_bytes) &&
         (file.deleted != kContentsKept || file.same_as >= 0 || keep_file(file));
}

}  // namespace

std::uint64_t now_ns(int clock) {
  struct timespec now{};
  syscall(SYS_clock_gettime, clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

const char* find_text(const char* text, long bytes, const char* name) {
  const std::size_t length = length_of(name);
  for (long i = 0; i + static_cast<long>(length) <= bytes; ++i) {
    if (text[i] == name[0] && equal_bytes(text + i, name, length)) return text + i + length;
  }
  return text + bytes;
}

std::uint64_t field_of(const char* text, long bytes, const char* name, std::uint32_t base) {
  const char* const end = text + bytes;
  const char* at = find_text(text, bytes, name);
  while (at < end && (*at == ' ' || *at == '\t')) ++at;
  return parse_number(at, end, base);
}

bool has_children() {
  siginfo_t info;
  return syscall(SYS_waitid, P_ALL, 0, &info, WNOHANG | WNOWAIT | WEXITED | __WALL, 0) != -ECHILD;
}

bool capture_process() {
  ProcessRecord& process = workspace().process;
  __builtin_memset(&process, 0, sizeof process);
  if (machine.kernel_release[0] == 0 && !describe_machine(machine)) {
    because("the vDSO cannot be found");
    return false;
  }
  if (!append(RecordKind::kMachine, &machine, sizeof machine)) return false;
  process.pid = process_id;
  process.resumed_entry = reinterpret_cast<std::uint64_t>(&resume_controller);
  process.written_ns = now_ns(CLOCK_REALTIME);
  process.monotonic_ns = now_ns(CLOCK_MONOTONIC);
  const bool laid_out = read_layout(process);
  char* const text = workspace().text;
  const long status = read_whole("/proc/self/status", text, sizeof workspace().text);
  const long auxv =
      read_whole("/proc/self/auxv", reinterpret_cast<char*>(process.auxv), sizeof process.auxv);
  if (status <= 0 || auxv <= 0 || !laid_out) {
    because("/proc cannot be read");
    return false;
  }
  note_status(text, status);
  process.umask = static_cast<std::uint32_t>(field_of(text, status, "Umask:", 8));
  process.auxv_bytes = static_cast<std::uint32_t>(auxv);
  for (int timer = 0; timer < 3; ++timer) syscall(SYS_getitimer, timer, process.timers[timer]);
  // Of the others, only SIGCHLD's flags mean something.
  const std::uint64_t told = field_of(text, status, "SigIgn:", 16) |
                             field_of(text, status, "SigCgt:", 16) |
                             std::uint64_t{1} << (SIGCHLD - 1);
  for (int signal = 1; signal <= 64; ++signal) {
    if ((told >> (signal - 1) & 1) != 0)
      syscall(SYS_rt_sigaction, signal, nullptr, &process.actions[signal], 8);
  }
  capture_output();
  for (int output = 0; output < kOutputs; ++output)
    process.output_end[output] = shared().output_end[output];
  const long cwd = syscall(SYS_getcwd, process.cwd, sizeof process.cwd);
  if (failed(cwd) || process.cwd[0] != '/') {
    because("its working directory is gone");
    return false;
  }
  process.cwd_bytes = static_cast<std::uint32_t>(cwd - 1);
  return append(RecordKind::kProcess, &process, sizeof process);
}

bool capture_threads() {
  if (parked_threads() > kMostThreads) {
    because("it has more than 1,024 threads");
    return false;
  }
  for (std::size_t i = 0; i < parked_threads(); ++i) {
    if (!append(RecordKind::kThread, &parked_thread(i), sizeof(ThreadRecord))) return false;
  }
  return true;
}

bool capture_files() {
  descriptor_count = 0;
  shared().nameless_count = 0;
  begin_objects();
  forget_what_it_closed();
  const long folder =
      syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (failed(folder)) return false;
  bool good = true;
  char entries[4096];
  for (;;) {
    const long bytes = syscall(SYS_getdents64, folder, entries, sizeof entries);
    if (bytes <= 0) break;
    for (long at = 0; at < bytes && good;) {
      std::uint16_t step;
      __builtin_memcpy(&step, entries + at + 16, 2);
      const char* name = entries + at + 19;
      at += step;
      if (*name < '0' || *name > '9') continue;
      good = capture_file(static_cast<std::int32_t>(parse_number(name, name + 12, 10)));
    }
  }
  syscall(SYS_close, folder);
  return good && capture_objects() && capture_attributes();
}

}  // namespace perdure::run
