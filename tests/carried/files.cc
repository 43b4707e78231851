// SPDX-License-Identifier: BSD-3-Clause
// What run_proof_tool_test carries through crashes: a program that does to files whatever system calls allow, in
// an order that follows from the seed, and notes in `log` what each one answered.
// usage: files DIRECTORY STEPS SEED [plain]: no file has several names, or is open for longer than it is written to
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::uint64_t state;
std::size_t below(std::size_t count) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return (state >> 33) % count;
}

// All of the same depth, so that a symbolic link means the same in each.
std::string folder() { return "d" + std::to_string(below(5)); }
std::string name() { return folder() + "/f" + std::to_string(below(12)); }

std::string text() {
  std::string bytes(1 + (below(10) == 0 ? below(40'000) : below(600)), '.');
  const std::size_t first = below(26);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>('a' + (first + i * i) % 26);
  return bytes;
}

bool plain;
std::string names;
std::vector<int> open_files;  // of which some have no name any more

void open_one(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CREAT, 0644);
  if (file < 0) return;
  open_files.push_back(file);
  if (plain) {
    const std::string bytes = text();
    if (::write(file, bytes.data(), bytes.size()) < 0) std::abort();
    ::close(file);
    open_files.clear();
    return;
  }
  if (open_files.size() < 8) return;
  ::close(open_files.front());
  open_files.erase(open_files.begin());
}

/// What an open file holds becomes a file that has a name, so that the end shows it.
long copy_out(int file, const std::string& to) {
  const int copy = ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0640);
  if (copy < 0) return -1;
  char bytes[8192];
  long all = 0;
  for (ssize_t got; (got = ::pread(file, bytes, sizeof bytes, all)) > 0; all += got) {
    if (::write(copy, bytes, static_cast<std::size_t>(got)) != got) return -2;
  }
  ::close(copy);
  return all;
}

long act(std::size_t what) {
  const std::string one = name(), other = name(), bytes = text();
  names = one + " " + other;
  const int file = open_files.empty() ? -1 : open_files[below(open_files.size())];
  switch (what) {
    case 0: open_one(one, O_RDWR); return 0;
    case 1: open_one(one, O_RDWR | O_TRUNC); return 0;
    case 2: open_one(one, O_RDWR | O_APPEND); return 0;
    case 3: open_one(one, O_RDWR | O_EXCL); return 0;
    case 4:
    case 5: return ::write(file, bytes.data(), bytes.size());
    case 6:
    case 7: return ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(below(60'000)));
    case 8: return ::ftruncate(file, static_cast<off_t>(below(30'000)));
    case 9: return ::truncate(one.c_str(), static_cast<off_t>(below(30'000)));
    case 10:
    case 11: return ::unlink(one.c_str());
    case 12:
    case 13: return ::rename(one.c_str(), other.c_str());
    case 14: return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
    case 15: return plain ? 0 : ::link(one.c_str(), other.c_str());
    case 16: return ::symlink(("../" + other).c_str(), one.c_str());
    case 17: return ::mkdir(folder().c_str(), 0750);
    case 18: return ::rmdir(folder().c_str());
    case 19: return ::rename(folder().c_str(), folder().c_str());
    case 20: return ::chmod(one.c_str(), static_cast<mode_t>(0600 + below(64)));
    case 21: return copy_out(file, other);
    case 22: return ::lseek(file, static_cast<off_t>(below(40'000)), SEEK_SET);
    case 23: {
      iovec two[] = {{const_cast<char*>(bytes.data()), bytes.size()},
                     {const_cast<char*>(one.data()), one.size()}};
      return ::writev(file, two, 2);
    }
    case 24:
      return ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         static_cast<off_t>(below(8) * 4096), 8192);
    case 25: {  // as editors do
      const int fresh = ::open("fresh", O_WRONLY | O_CREAT | O_TRUNC, 0644);
      const long done = ::write(fresh, bytes.data(), bytes.size());
      ::close(fresh);
      return done + ::rename("fresh", one.c_str());
    }
    case 26: {
      const int source = open_files.empty() ? -1 : open_files[below(open_files.size())];
      off_t from = 0, to = static_cast<off_t>(below(9'000));
      return source == file ? 0 : ::copy_file_range(source, &from, file, &to, 5'000, 0);
    }
    default: {  // one that gets its name late
      const int nameless = ::open(".", O_RDWR | O_TMPFILE, 0600);
      if (nameless < 0) return -1;
      const long done = ::write(nameless, bytes.data(), bytes.size());
      const std::string path = "/proc/self/fd/" + std::to_string(nameless);
      if (below(2) == 0) ::linkat(AT_FDCWD, path.c_str(), AT_FDCWD, one.c_str(), AT_SYMLINK_FOLLOW);
      ::close(nameless);
      return done;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || ::chdir(argv[1]) != 0) return 2;
  plain = argc > 4;
  state = std::strtoull(argv[3], nullptr, 10);
  for (const char* const each : {"d0", "d1"}) ::mkdir(each, 0755);
  const int log = ::open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
  for (int step = 0; step < std::atoi(argv[2]); ++step) {
    const std::size_t what = below(28);
    errno = 0;
    const long answer = act(what);
    const int error = answer < 0 ? errno : 0;
    std::string sizes;  // of what is open
    for (const int each : open_files) {
      struct stat now{};
      ::fstat(each, &now);
      sizes += " " + std::to_string(now.st_size);
    }
    char line[300];
    const int bytes = std::snprintf(line, sizeof line, "%d: %zu %s gave %ld, %d;%s\n", step, what,
                                    names.c_str(), answer, error, sizes.c_str());
    if (::write(log, line, static_cast<std::size_t>(bytes)) != bytes) return 1;
  }
  return 0;
}
