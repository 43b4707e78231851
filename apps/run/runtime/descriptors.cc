// SPDX-License-Identifier: BSD-3-Clause
// Descriptors of what the kernel keeps in memory alone: pipes, eventfd, timerfd, epoll, signalfd,
// memfd, sockets, message queues. Most of it is told by /proc/self/fdinfo; what is unread in pipes
// and sockets is looked at and stays there.
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "apps/run/memory_map.h"
#include "apps/run/runtime/objects.h"

namespace perdure::run {
namespace {

constexpr long kQueueFileSystem = 0x19800202;

struct Special {
  FileRecord file;
  std::uint32_t mode;
};
Special specials[kMostDescriptors];
int special_count = 0;

// One message for each kind, or a server with a thousand clients would have a thousand.
constexpr std::size_t kMostTold = 16;
const char* told[kMostTold];

void tell_lost(std::int32_t number, const char* kind, const char* path) {
  for (const char*& each : told) {
    if (each == kind) return;
    if (each != nullptr) continue;
    each = kind;
    char text[600];
    const char* const end = text + sizeof text;
    char* at = put_text(text, end, "descriptor ");
    at = put_number(at, end, static_cast<std::uint64_t>(number));
    at = put_text(put_text(put_text(at, end, ", "), end, kind), end, " (");
    put_text(put_text(at, end, path), end,
             "), is not carried: after a resume its other end is closed");
    say(text);
    return;
  }
}

const char* path_of_descriptor(std::int32_t number, const char* folder) {
  static char path[64];
  put_number(put_text(path, path + sizeof path, folder), path + sizeof path,
             static_cast<std::uint64_t>(number));
  return path;
}

bool append_object(const FileRecord& file, ObjectKind kind, std::uint64_t value,
                   std::uint32_t flags = 0, const void* detail = nullptr,
                   std::size_t detail_bytes = 0) {
  const ObjectRecord object{file.descriptor, kind, flags, static_cast<std::uint32_t>(detail_bytes),
                            value};
  return append(RecordKind::kObject, &object, sizeof object, detail, detail_bytes);
}

bool is_first(const Special& special) {
  for (const Special* each = specials; each != &special; ++each) {
    if (each->file.inode == special.file.inode && each->file.device == special.file.device)
      return false;
  }
  return true;
}

/// What is unread, by tee(2) into a pipe of the controller's. A read of a packet ends with it.
bool append_unread(const FileRecord& file, long pipe, long capacity) {
  int scratch[2];
  const long flags = O_NONBLOCK | O_CLOEXEC | (file.flags & O_DIRECT);
  if (failed(syscall(SYS_pipe2, scratch, flags))) return false;
  syscall(SYS_fcntl, scratch[1], F_SETPIPE_SZ, capacity);
  std::uint64_t offset = 0;
  long got = syscall(SYS_tee, pipe, scratch[1], capacity, 2 /* SPLICE_F_NONBLOCK */);
  while (got > 0) {
    got = syscall(SYS_read, scratch[0], workspace().bounce, kBounceBytes);
    if (got > 0 && !append_bytes(file.descriptor, offset, static_cast<std::uint64_t>(got))) break;
    if (got > 0) offset += static_cast<std::uint64_t>(got);
  }
  syscall(SYS_close, scratch[0]);
  syscall(SYS_close, scratch[1]);
  return got == 0 || got == -EAGAIN;
}

Carry capture_pipe(const Special& special) {
  bool reads = false, writes = false, above_standard = false;
  std::int32_t reader = -1;
  for (int i = 0; i < special_count; ++i) {
    const FileRecord& other = specials[i].file;
    if (other.inode != special.file.inode || other.device != special.file.device) continue;
    const std::uint32_t access = other.flags & O_ACCMODE;
    if (access != O_WRONLY) reader = other.descriptor;
    reads |= access != O_WRONLY;
    writes |= access != O_RDONLY;
    above_standard |= other.descriptor > 2;
  }
  if (!reads || !writes || !above_standard) return Carry::kNo;
  const Borrowed pipe(reader);
  if (!pipe.is_good()) return Carry::kNo;
  const long capacity = syscall(SYS_fcntl, pipe.get(), F_GETPIPE_SZ);
  if (failed(capacity)) return Carry::kNo;
  const bool good =
      append_object(special.file, ObjectKind::kPipe, static_cast<std::uint64_t>(capacity)) &&
      (!is_first(special) || append_unread(special.file, pipe.get(), capacity));
  if (!good) because("what is in a pipe of its own cannot be looked at");
  return good ? Carry::kYes : Carry::kFailed;
}

Carry capture_memory_file(const Special& special, const char* path) {
  const Borrowed memory(special.file.descriptor);
  if (!memory.is_good()) return Carry::kNo;
  const std::uint64_t bytes = special.file.bytes;
  if (bytes > kMostMemoryBytes) {
    because("it has a memfd of more than 4 MiB: ", path);
    return Carry::kFailed;
  }
  const long seals = syscall(SYS_fcntl, memory.get(), F_GET_SEALS);
  const char* const name = path + length_of("/memfd:");
  std::size_t name_bytes = length_of(name);
  constexpr std::size_t kDeleted = sizeof " (deleted)" - 1;
  if (name_bytes >= kDeleted) name_bytes -= kDeleted;
  if (!append_object(special.file, ObjectKind::kMemory, bytes,
                     failed(seals) ? 0 : static_cast<std::uint32_t>(seals), name, name_bytes))
    return Carry::kFailed;
  if (!is_first(special)) return Carry::kYes;
  for (std::uint64_t at = 0; at < bytes;) {
    // The position belongs to the program: it is put back. Nobody else moves it now.
    const long data = syscall(SYS_lseek, memory.get(), at, SEEK_DATA);
    if (data < 0) break;  // a hole up to the end
    const long got = syscall(SYS_pread64, memory.get(), workspace().bounce, kBounceBytes, data);
    if (got <= 0 || !append_bytes(special.file.descriptor, static_cast<std::uint64_t>(data),
                                  static_cast<std::uint64_t>(got))) {
      because("a memfd cannot be read: ", path);
      syscall(SYS_lseek, memory.get(), special.file.offset, SEEK_SET);
      return Carry::kFailed;
    }
    at = static_cast<std::uint64_t>(data + got);
  }
  syscall(SYS_lseek, memory.get(), special.file.offset, SEEK_SET);
  return Carry::kYes;
}

/// In workspace().maps. Not positive: with the cause in `why`.
long read_information(std::int32_t descriptor) {
  const long bytes = read_whole(path_of_descriptor(descriptor, "/proc/self/fdinfo/"),
                                workspace().maps, sizeof workspace().maps);
  if (bytes <= 0) because("what /proc says of a descriptor cannot be read");
  return bytes;
}

Carry capture_timer(const FileRecord& file) {
  const Borrowed timer(file.descriptor);
  itimerspec left{};
  // Asking makes a periodic one that has run out count on, so it comes before the ticks.
  if (!timer.is_good() || failed(syscall(SYS_timerfd_gettime, timer.get(), &left)))
    return Carry::kNo;
  const long bytes = read_information(file.descriptor);
  if (bytes <= 0) return Carry::kFailed;
  const char* const text = workspace().maps;
  TimerSetting setting{};
  setting.clock = static_cast<std::int32_t>(field_of(text, bytes, "clockid:", 10));
  setting.flags = static_cast<std::uint32_t>(field_of(text, bytes, "settime flags:", 8));
  setting.ticks = field_of(text, bytes, "\nticks:", 10);
  setting.due = ns_of(left.it_value);
  setting.interval = ns_of(left.it_interval);
  if (setting.due != 0 && (setting.flags & TFD_TIMER_ABSTIME) != 0)
    setting.due += now_ns(setting.clock);
  const bool good = append_object(file, ObjectKind::kTimer, 0, 0, &setting, sizeof setting);
  return good ? Carry::kYes : Carry::kFailed;
}

Carry capture_poll(const FileRecord& file, const char* text, long bytes) {
  constexpr std::size_t kMost = kBounceBytes / sizeof(PollMember);
  PollMember* const members = reinterpret_cast<PollMember*>(workspace().bounce);
  std::size_t count = 0;
  const char* const end = text + bytes;
  const char* at = text;
  while ((at = find_text(at, end - at, "\ntfd:")) < end) {
    if (count == kMost) {
      because("it has an epoll with more than 16,384 members");
      return Carry::kFailed;
    }
    PollMember member{};
    while (*at == ' ' || *at == '\t') ++at;
    member.descriptor = static_cast<std::int32_t>(parse_number(at, end, 10));
    member.events = static_cast<std::uint32_t>(field_of(at, end - at, "events:", 16));
    member.data = field_of(at, end - at, "data:", 16);
    // A descriptor that was closed while a copy of it is open stays a member, by a number that means
    // nothing or another file now.
    const kcmp_epoll_slot slot{static_cast<__u32>(file.descriptor),
                               static_cast<__u32>(member.descriptor), 0};
    if (syscall(SYS_kcmp, process_id, process_id, KCMP_EPOLL_TFD, member.descriptor, &slot) == 0) {
      members[count++] = member;
    } else {
      tell_lost(member.descriptor, "a closed descriptor that is still a member of an epoll",
                "its copy is open");
    }
  }
  return append_object(file, ObjectKind::kPoll, count, 0, members, count * sizeof *members)
             ? Carry::kYes
             : Carry::kFailed;
}

bool is_queue(std::int32_t number) {
  const Borrowed file(number);
  struct statfs attributes;
  return file.is_good() && !failed(syscall(SYS_fstatfs, file.get(), &attributes)) &&
         attributes.f_type == kQueueFileSystem;
}

/// `kind` becomes what it is called where it is not carried.
Carry capture_special(const Special& special, const char* path, const char*& kind) {
  const FileRecord& file = special.file;
  const char* const text = workspace().maps;
  const long bytes = read_information(file.descriptor);
  if (bytes <= 0) return Carry::kFailed;
  const auto appended = [](bool good) { return good ? Carry::kYes : Carry::kFailed; };
  if (S_ISFIFO(special.mode)) {
    kind = "a pipe with an end that is not the program's";
    return begins_with(path, "pipe:") ? capture_pipe(special) : Carry::kNo;
  }
  if (S_ISSOCK(special.mode)) {
    kind = "a connected socket";
    return file.descriptor > 2 ? capture_socket(file, text, bytes) : Carry::kNo;
  }
  if (begins_with(path, "anon_inode:[eventfd]")) {
    const bool semaphore = field_of(text, bytes, "eventfd-semaphore:", 10) != 0;
    return appended(append_object(file, ObjectKind::kEvent,
                                  field_of(text, bytes, "eventfd-count:", 16),
                                  semaphore ? EFD_SEMAPHORE : 0));
  }
  if (begins_with(path, "anon_inode:[timerfd]")) return capture_timer(file);
  if (begins_with(path, "anon_inode:[eventpoll]")) return capture_poll(file, text, bytes);
  if (begins_with(path, "anon_inode:[signalfd]"))
    return appended(
        append_object(file, ObjectKind::kSignals, field_of(text, bytes, "sigmask:", 16)));
  if (begins_with(path, "/memfd:")) return capture_memory_file(special, path);
  if (S_ISREG(special.mode))
    return appended(append_object(file, ObjectKind::kMessages, 0, 0, path, length_of(path)));
  kind = S_ISCHR(special.mode)                        ? "a device"
         : begins_with(path, "anon_inode:inotify")    ? "inotify"
         : begins_with(path, "anon_inode:[io_uring]") ? "io_uring"
         : begins_with(path, "anon_inode:[userfault") ? "userfaultfd"
                                                      : "of a kind that perdure does not know";
  return Carry::kNo;
}

}  // namespace

Borrowed::Borrowed(std::int32_t number) : file_(-EBADF) {
  const long process = syscall(SYS_pidfd_open, process_id, 0);
  if (failed(process)) return;
  file_ = syscall(SYS_pidfd_getfd, process, number, 0);
  syscall(SYS_close, process);
}

bool begins_with(const char* text, const char* beginning) {
  while (*beginning != 0 && *text == *beginning) ++text, ++beginning;
  return *beginning == 0;
}

bool append_bytes(std::int32_t descriptor, std::uint64_t offset, std::uint64_t bytes) {
  const ObjectBytesRecord record{descriptor, 0, offset};
  return append(RecordKind::kObjectBytes, &record, sizeof record, workspace().bounce, bytes);
}

bool has_socket(std::uint64_t inode) {
  for (int i = 0; i < special_count; ++i) {
    if (S_ISSOCK(specials[i].mode) && specials[i].file.inode == inode) return true;
  }
  return false;
}

void begin_objects() { special_count = 0; }

bool is_object(std::int32_t number, const struct stat& attributes, const char* path) {
  if (!S_ISREG(attributes.st_mode) || begins_with(path, "/memfd:")) return true;
  // A queue has its name where a file has its path.
  for (const char* c = path + 1; *c != 0; ++c) {
    if (*c == '/') return false;
  }
  return is_queue(number);
}

void note_object(const FileRecord& file, const struct stat& attributes) {
  // A terminal or the like at 0, 1 or 2 is that of the resume, whatever it is.
  if (file.kind == FileKind::kStandard && S_ISCHR(attributes.st_mode)) return;
  if (special_count < kMostDescriptors)
    specials[special_count++] = {file, static_cast<std::uint32_t>(attributes.st_mode)};
}

bool capture_objects() {
  for (int i = 0; i < special_count; ++i) {
    const Special& special = specials[i];
    if (special.file.same_as >= 0) continue;
    char* const path = workspace().path;
    const long length =
        syscall(SYS_readlinkat, AT_FDCWD,
                path_of_descriptor(special.file.descriptor, "/proc/self/fd/"), path, 4095);
    if (failed(length)) continue;
    path[length] = 0;
    const char* kind = "a descriptor";
    switch (capture_special(special, path, kind)) {
      case Carry::kYes: break;
      case Carry::kFailed: return false;
      case Carry::kNo:
        if (special.file.descriptor > 2) tell_lost(special.file.descriptor, kind, path);
        break;
    }
  }
  return true;
}

}  // namespace perdure::run
