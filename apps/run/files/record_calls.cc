// SPDX-License-Identifier: BSD-3-Clause
// SyscallWatch: what each system call changes.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/files/system_calls.h"
#include "apps/run/files/watch.h"
#include "perdure/error.h"

namespace perdure::run::files {
namespace {

constexpr std::uint64_t kToTheEnd = std::uint64_t{1} << 62;

int as_int(std::uint64_t argument) { return static_cast<int>(argument); }

std::uint64_t bytes_of_vectors(const Caller& caller, std::uint64_t address, std::uint64_t count) {
  std::vector<iovec> vectors(std::min<std::uint64_t>(count, IOV_MAX));
  if (!caller.read(address, vectors.data(), vectors.size() * sizeof(iovec))) return kToTheEnd;
  std::uint64_t bytes = 0;
  for (const iovec& each : vectors) bytes += std::min<std::uint64_t>(each.iov_len, kToTheEnd);
  return std::min(bytes, kToTheEnd);
}

}  // namespace

template <class Do>
void SyscallWatch::if_waiting(const Call& call, Do&& record) {
  if (!still_waits(call.id)) return;
  const Result<void> result = record();
  if (!result.ok()) refused_ = result.error().message;
}

void SyscallWatch::record(const Call& call) {
  const Caller caller(call.thread, handles_);
  switch (call.number) {
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
    case SYS_creat: return record_open(call, caller);
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_rmdir:
    case SYS_rename:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_link:
    case SYS_linkat:
    case SYS_symlink:
    case SYS_symlinkat:
    case SYS_mkdir:
    case SYS_mkdirat:
    case SYS_mknod:
    case SYS_mknodat:
    case SYS_bind: return record_names(call, caller);
    case SYS_mmap: return record_mapping(call, caller);
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_copy_file_range:
    case SYS_ioctl:
    case SYS_fallocate:
    case SYS_ftruncate:
    case SYS_truncate: return record_contents(call, caller);
    default: return record_facts(call, caller);
  }
}

// ---- Contents --------------------------------------------------------------------------------------------------------

void SyscallWatch::record_write(const Call& call, const Caller& caller, const Range& range) {
  const Caller::File file = caller.file(range.descriptor);
  struct stat state{};
  if (file.handle.get() < 0 || ::fstat(file.handle.get(), &state) != 0) return;
  if (!S_ISREG(state.st_mode) || history_.all_taken(state)) return;
  std::uint64_t offset = range.offset;
  if (range.appends) {
    offset = static_cast<std::uint64_t>(state.st_size);
  } else {
    const std::optional<Caller::Position> position = caller.position(file);
    if (!position) return;
    if (range.at_position) offset = position->offset;
    if ((position->flags & O_APPEND) != 0) offset = static_cast<std::uint64_t>(state.st_size);
  }
  if (history_.taken(state, offset, range.bytes)) return;
  if_waiting(call, [&] { return history_.before_write(file.handle.get(), offset, range.bytes); });
}

void SyscallWatch::record_contents(const Call& call, const Caller& caller) {
  const auto& arguments = call.arguments;
  const int first = as_int(arguments[0]);
  // An output offset that a pointer leads to.
  const auto range_at = [&](int descriptor, std::uint64_t pointer, std::uint64_t bytes) {
    Range range{descriptor, bytes};
    if (pointer == 0) return range;
    range.at_position = false;
    if (!caller.read(pointer, &range.offset, sizeof range.offset)) range.bytes = 0;
    return range;
  };
  switch (call.number) {
    case SYS_write: return record_write(call, caller, {first, arguments[2]});
    case SYS_pwrite64:
      return record_write(call, caller, {first, arguments[2], arguments[3], false});
    case SYS_writev:
      return record_write(call, caller,
                          {first, bytes_of_vectors(caller, arguments[1], arguments[2])});
    case SYS_pwritev:
    case SYS_pwritev2: {
      Range range{first, bytes_of_vectors(caller, arguments[1], arguments[2]), arguments[3], false};
      range.at_position = call.number == SYS_pwritev2 && arguments[3] == ~std::uint64_t{0};
      range.appends = call.number == SYS_pwritev2 && (arguments[5] & RWF_APPEND) != 0;
      return record_write(call, caller, range);
    }
    case SYS_sendfile: return record_write(call, caller, {first, arguments[3]});
    case SYS_splice:
    case SYS_copy_file_range:
      return record_write(call, caller, range_at(as_int(arguments[2]), arguments[3], arguments[4]));
    case SYS_ioctl: return record_write(call, caller, {first, kToTheEnd, 0, false});
    case SYS_fallocate: {
      const auto mode = static_cast<unsigned>(arguments[1]);
      Range range{first, arguments[3], arguments[2], false};
      if ((mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE)) != 0)
        range.bytes = kToTheEnd;
      if ((mode & ~FALLOC_FL_KEEP_SIZE) == 0) range.bytes = 0;  // the size alone
      return record_write(call, caller, range);
    }
    default: break;
  }
  Descriptor file;
  if (call.number == SYS_ftruncate) {
    file = std::move(caller.file(first).handle);
  } else if (const auto text = caller.text(arguments[0])) {
    file = caller.find(AT_FDCWD, *text, true);
  }
  struct stat state{};
  if (file.get() < 0 || ::fstat(file.get(), &state) != 0 || !S_ISREG(state.st_mode)) return;
  if_waiting(call, [&] { return history_.before_resize(file.get(), arguments[1]); });
}

void SyscallWatch::record_mapping(const Call& call, const Caller& caller) {
  const Caller::File file = caller.file(as_int(call.arguments[4]));
  struct stat state{};
  if (file.handle.get() < 0 || ::fstat(file.handle.get(), &state) != 0 || !S_ISREG(state.st_mode))
    return;
  const std::optional<Caller::Position> position = caller.position(file);
  if (position && (position->flags & O_ACCMODE) != O_RDWR) return;  // refused by the kernel
  if_waiting(call, [&] {
    // To the end: mremap(2) may make it longer.
    return history_.before_write(file.handle.get(), call.arguments[5], kToTheEnd);
  });
}

// ---- Names -----------------------------------------------------------------------------------------------------------

void SyscallWatch::record_open(const Call& call, const Caller& caller) {
  const auto& arguments = call.arguments;
  const bool relative = call.number == SYS_openat || call.number == SYS_openat2;
  const int directory = relative ? as_int(arguments[0]) : AT_FDCWD;
  const auto text = caller.text(arguments[relative ? 1 : 0]);
  std::uint64_t flags = arguments[relative ? 2 : 1];
  if (call.number == SYS_creat) flags = O_CREAT | O_TRUNC;
  if (call.number == SYS_openat2 && !caller.read(arguments[2], &flags, sizeof flags)) return;
  if (!text || (flags & (O_CREAT | O_TRUNC)) == 0 || (flags & O_PATH) != 0) return;
  const bool exclusive = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
  const bool follow = (flags & O_NOFOLLOW) == 0 && !exclusive;
  const Descriptor file = caller.find(directory, *text, follow);
  struct stat state{};
  if (file.get() >= 0 && ::fstat(file.get(), &state) == 0) {
    if (exclusive || (flags & O_TRUNC) == 0 || !S_ISREG(state.st_mode)) return;
    if_waiting(call, [&] { return history_.before_resize(file.get(), 0); });
  } else if ((flags & O_CREAT) != 0) {
    if (const auto name = caller.name(directory, *text, follow))
      if_waiting(call, [&] { return history_.before_create(*name); });
  }
}

void SyscallWatch::record_names(const Call& call, const Caller& caller) {
  const auto& arguments = call.arguments;
  // The name that two arguments, or one of a call without a directory, make.
  const auto name_at = [&](std::optional<int> directory, int index) -> std::optional<std::string> {
    const auto text = caller.text(arguments[index]);
    if (!text) return std::nullopt;
    return caller.name(directory ? as_int(arguments[*directory]) : AT_FDCWD, *text);
  };
  const auto create = [&](const std::optional<std::string>& name) {
    if (name) if_waiting(call, [&] { return history_.before_create(*name); });
  };
  const auto remove = [&](const std::optional<std::string>& name) {
    if (name) if_waiting(call, [&] { return history_.before_remove(*name); });
  };
  const auto rename = [&](const std::optional<std::string>& from,
                          const std::optional<std::string>& to, std::uint64_t flags) {
    if (!from || !to) return;
    if_waiting(call,
               [&] { return history_.before_rename(*from, *to, (flags & RENAME_EXCHANGE) != 0); });
  };
  const auto link = [&](const Descriptor& file, const std::optional<std::string>& name) {
    if (file.get() >= 0 && name)
      if_waiting(call, [&] { return history_.before_link(file.get(), *name); });
  };
  switch (call.number) {
    case SYS_unlink:
    case SYS_rmdir: return remove(name_at({}, 0));
    case SYS_unlinkat: return remove(name_at(0, 1));
    case SYS_rename: return rename(name_at({}, 0), name_at({}, 1), 0);
    case SYS_renameat: return rename(name_at(0, 1), name_at(2, 3), 0);
    case SYS_renameat2: return rename(name_at(0, 1), name_at(2, 3), arguments[4]);
    case SYS_mkdir:
    case SYS_mknod: return create(name_at({}, 0));
    case SYS_mkdirat:
    case SYS_mknodat: return create(name_at(0, 1));
    case SYS_symlink: return create(name_at({}, 1));
    case SYS_symlinkat: return create(name_at(1, 2));
    case SYS_link: {
      const auto text = caller.text(arguments[0]);
      if (text) link(caller.find(AT_FDCWD, *text, false), name_at({}, 1));
      return;
    }
    case SYS_linkat: {
      const auto text = caller.text(arguments[1]);
      const bool follow = (arguments[4] & AT_SYMLINK_FOLLOW) != 0;
      if (text) link(caller.find(as_int(arguments[0]), *text, follow), name_at(2, 3));
      return;
    }
    case SYS_bind: {
      sockaddr_un address{};
      const std::uint64_t bytes = std::min<std::uint64_t>(arguments[2], sizeof address);
      if (bytes <= offsetof(sockaddr_un, sun_path) || !caller.read(arguments[1], &address, bytes) ||
          address.sun_family != AF_UNIX || address.sun_path[0] == '\0')
        return;
      const std::size_t most = bytes - offsetof(sockaddr_un, sun_path);
      const std::string path(address.sun_path, ::strnlen(address.sun_path, most));
      return create(caller.name(AT_FDCWD, path));
    }
    default: return;
  }
}

// ---- What is known of a file -----------------------------------------------------------------------------------------

void SyscallWatch::record_facts(const Call& call, const Caller& caller) {
  const auto& arguments = call.arguments;
  const auto by_path = [&](int directory, int index, bool follow) {
    const auto text = caller.text(arguments[index]);
    return text ? caller.find(directory, *text, follow) : Descriptor();
  };
  const auto by_number = [&] { return std::move(caller.file(as_int(arguments[0])).handle); };
  // With a directory, a path, and flags.
  const auto at = [&](std::uint64_t flags) {
    const int directory = as_int(arguments[0]);
    if (arguments[1] == 0) return by_number();  // utimensat of a descriptor
    return by_path(directory, 1, (flags & AT_SYMLINK_NOFOLLOW) == 0);
  };
  Descriptor file;
  int name = -1;  // index of an extended attribute's
  switch (call.number) {
    case SYS_chmod:
    case SYS_chown:
    case SYS_utime:
    case SYS_utimes: file = by_path(AT_FDCWD, 0, true); break;
    case SYS_lchown: file = by_path(AT_FDCWD, 0, false); break;
    case SYS_fchmod:
    case SYS_fchown: file = by_number(); break;
    case SYS_fchmodat:
    case SYS_futimesat: file = at(0); break;
    case kSysFchmodat2:
    case SYS_utimensat: file = at(arguments[3]); break;
    case SYS_fchownat: file = at(arguments[4]); break;
    case SYS_setxattr:
    case SYS_removexattr:
    case SYS_lsetxattr:
    case SYS_lremovexattr:
      file = by_path(AT_FDCWD, 0, call.number == SYS_setxattr || call.number == SYS_removexattr);
      name = 1;
      break;
    case SYS_fsetxattr:
    case SYS_fremovexattr:
      file = by_number();
      name = 1;
      break;
    case kSysSetxattrat:
    case kSysRemovexattrat:
      file = at(arguments[2]);
      name = 3;
      break;
    default:
      throw Exception(Code::kInvalid, "system call " + std::to_string(call.number) +
                                          " waits, and nobody knows what it changes");
  }
  if (file.get() < 0) return;
  if (name < 0) return if_waiting(call, [&] { return history_.before_change(file.get()); });
  const auto attribute = caller.text(arguments[name]);
  if (attribute)
    if_waiting(call, [&] { return history_.before_attribute(file.get(), *attribute); });
}

}  // namespace perdure::run::files
