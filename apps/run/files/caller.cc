// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/caller.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "apps/run/files/paths.h"
#include "apps/run/files/system_calls.h"
#include "perdure/error.h"

namespace perdure::run::files {
namespace {

constexpr std::size_t kMostHandles = 256;
constexpr int kMostLinks = 40;  // as the kernel follows

[[noreturn]] void not_permitted(pid_t thread, const char* what) {
  throw Exception(
      Code::kIo, fmt::format("thread {}: its {} cannot be looked at: not permitted", thread, what));
}

/// What fails for another reason than the thread's is no answer.
Descriptor opened(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), O_PATH | O_CLOEXEC | flags));
  if (file.get() < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
    throw Exception(io_error(path));
  return file;
}

}  // namespace

int ThreadHandles::of(pid_t thread, bool anew) {
  if (!use_) return -1;
  if (anew || known_.size() >= kMostHandles) known_.clear();
  const auto [known, is_new] = known_.try_emplace(thread);
  if (is_new)
    known->second = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, thread, kPidfdThread)));
  if (known->second.get() < 0) {
    use_ = errno != EINVAL;
    known_.erase(known);
    return -1;
  }
  return known->second.get();
}

bool Caller::read(std::uint64_t address, void* data, std::size_t bytes) const {
  const iovec here{data, bytes};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  const ssize_t count = ::process_vm_readv(thread_, &here, 1, &there, 1, 0);
  if (count < 0 && errno == EPERM) not_permitted(thread_, "memory");
  return count == static_cast<ssize_t>(bytes);
}

std::optional<std::string> Caller::text(std::uint64_t address) const {
  std::string text;
  while (text.size() < 4096) {
    char page[4096];
    const std::size_t bytes = 4096 - address % 4096;  // The next page may not be there.
    if (!read(address, page, bytes)) return std::nullopt;
    const std::size_t length = ::strnlen(page, bytes);
    text.append(page, length);
    if (length < bytes) return text;
    address += bytes;
  }
  return std::nullopt;
}

Caller::File Caller::file(int number) const {
  File file;
  file.number = number;
  for (const bool anew : {false, true}) {
    const int handle = handles_.of(thread_, anew);
    if (handle < 0) break;
    file.handle = Descriptor(static_cast<int>(::syscall(SYS_pidfd_getfd, handle, number, 0)));
    file.duplicate = file.handle.get() >= 0;
    if (file.duplicate || errno == EBADF) return file;
    if (errno == EPERM) not_permitted(thread_, "descriptors");
  }
  file.handle = opened(fmt::format("/proc/{}/fd/{}", thread_, number), 0);
  if (file.handle.get() < 0 && errno == EACCES) not_permitted(thread_, "descriptors");
  return file;
}

std::optional<Caller::Position> Caller::position(const File& file) const {
  if (file.duplicate) {
    const off_t offset = ::lseek(file.handle.get(), 0, SEEK_CUR);
    const int flags = ::fcntl(file.handle.get(), F_GETFL);
    if (offset < 0 || flags < 0) return std::nullopt;
    return Position{static_cast<std::uint64_t>(offset), flags};
  }
  std::ifstream facts(fmt::format("/proc/{}/fdinfo/{}", thread_, file.number));
  std::string name, value;
  Position position{0, 0};
  if (!(facts >> name >> value) || name != "pos:") return std::nullopt;
  position.offset = std::strtoull(value.c_str(), nullptr, 10);
  if (!(facts >> name >> value) || name != "flags:") return std::nullopt;
  position.flags = static_cast<int>(std::strtoul(value.c_str(), nullptr, 8));
  return position;
}

// Through /proc, whose links lead where the thread's root and directory are, in whatever namespace.
std::string Caller::full(int directory, const std::string& text) const {
  static constexpr std::pair<std::string_view, std::string_view> kOwn[] = {
      {"/proc/self/", ""},    {"/proc/thread-self/", ""}, {"/dev/fd/", "fd/"},
      {"/dev/stdin", "fd/0"}, {"/dev/stdout", "fd/1"},    {"/dev/stderr", "fd/2"},
  };
  for (const auto& [own, meaning] : kOwn) {
    if (own.ends_with('/') ? text.starts_with(own) : text == own)
      return fmt::format("/proc/{}/{}{}", thread_, meaning, text.substr(own.size()));
  }
  if (text.starts_with('/')) return fmt::format("/proc/{}/root{}", thread_, text);
  if (directory == AT_FDCWD) return fmt::format("/proc/{}/cwd/{}", thread_, text);
  return fmt::format("/proc/{}/fd/{}/{}", thread_, directory, text);
}

Descriptor Caller::find(int directory, const std::string& text, bool follow) const {
  if (text.empty()) {
    if (directory != AT_FDCWD) return std::move(file(directory).handle);
    return opened(full(AT_FDCWD, "."), 0);
  }
  return opened(full(directory, text), follow ? 0 : O_NOFOLLOW);
}

std::optional<std::string> Caller::name(int directory, const std::string& text, bool follow) const {
  std::string path = full(directory, text);
  for (int links = 0; links < kMostLinks; ++links) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    const std::size_t slash = path.rfind('/');
    const std::string last = path.substr(slash + 1);
    if (last.empty() || last == "." || last == "..") return std::nullopt;
    const Descriptor parent = opened(path.substr(0, slash + 1), O_DIRECTORY);
    if (parent.get() < 0) return std::nullopt;
    const std::string above = path_of(parent.get());
    char target[4097];
    const ssize_t bytes =
        follow ? ::readlinkat(parent.get(), last.c_str(), target, sizeof target - 1) : -1;
    if (bytes < 0) return (above == "/" ? "" : above) + "/" + last;
    const std::string to(target, static_cast<std::size_t>(bytes));
    path = to.starts_with('/') ? full(AT_FDCWD, to) : above + "/" + to;
  }
  return std::nullopt;
}

}  // namespace perdure::run::files
