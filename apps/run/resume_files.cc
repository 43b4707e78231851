// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/resume_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/run/files/history.h"
#include "apps/run/keeper.h"
#include "apps/run/machine.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run {
namespace {

void judge_machine(const Image& image, const std::string& directory) {
  MachineRecord here{};
  if (!describe_machine(here)) throw Exception(Code::kIo, "this process has no vDSO");
  const MachineRecord& there = image.machine;
  const auto refuse = [&](const std::string& what) {
    throw Exception(Code::kInvalid, directory + ": " + what);
  };
  if (std::strncmp(here.kernel_release, there.kernel_release, sizeof here.kernel_release) != 0 ||
      here.vdso_crc != there.vdso_crc || here.vdso_bytes != there.vdso_bytes) {
    refuse(
        fmt::format("was written under Linux {}, this is {}, or its vDSO differs; resume under "
                    "the same kernel",
                    there.kernel_release, here.kernel_release));
  }
  for (int i = 0; i < 4; ++i) {
    if ((there.cpu_features[i] & ~here.cpu_features[i]) != 0)
      refuse("was written on a CPU with features that this one lacks; resume on the same kind");
  }
  if (there.xcr0 != here.xcr0)
    refuse("was written on a CPU with other registers; resume on the same kind");
}

void judge_mapped_files(const Image& image) {
  for (const Area& area : image.areas) {
    if (area.vma.kind != VmaKind::kFile) continue;
    struct stat now{};
    const bool there = ::stat(area.path.c_str(), &now) == 0;
    const auto modified = static_cast<std::uint64_t>(now.st_mtim.tv_sec) * 1'000'000'000 +
                          static_cast<std::uint64_t>(now.st_mtim.tv_nsec);
    if (!there || now.st_ino != area.vma.inode ||
        static_cast<std::uint64_t>(now.st_size) != area.vma.file_bytes ||
        modified != area.vma.modified_ns) {
      throw Exception(Code::kInvalid, area.path +
                                          ": is mapped by the program and has changed since; "
                                          "put the old file back, with its times");
    }
  }
}

files::FileId id_of(const FileRecord& file) { return {file.device, file.inode, file.generation}; }

/// A file that the kernel makes up (/proc/self/status, /proc/meminfo). The program's own are there again when it is,
/// and all of them have another device in each PID namespace: nothing can be said of them beforehand.
bool is_view(const OpenFile& each) {
  struct statfs system{};
  return each.path.starts_with("/proc/") && ::statfs("/proc", &system) == 0 &&
         system.f_type == PROC_SUPER_MAGIC;
}

void judge_open_files(const Image& image, const std::string& directory) {
  for (const OpenFile& each : image.files) {
    if (each.file.kind != FileKind::kRegular && each.file.kind != FileKind::kDirectory) continue;
    if (each.file.deleted != 0 || is_view(each)) continue;
    struct stat now{};
    if (::stat(each.path.c_str(), &now) != 0)
      throw Exception(Code::kNotFound, each.path +
                                           ": the program had it open, and it is gone or was "
                                           "renamed; put it back");
    if (!files::FileHistory::is(directory, id_of(each.file), each.path))
      throw Exception(Code::kInvalid, each.path +
                                          ": the program had another file open by this name; "
                                          "put that one back");
    if (each.file.kind == FileKind::kRegular &&
        static_cast<std::uint64_t>(now.st_size) < each.file.bytes)
      throw Exception(Code::kInvalid,
                      fmt::format("{}: has {} bytes, and had {} when the epoch ended; put what "
                                  "is missing back",
                                  each.path, now.st_size, each.file.bytes));
  }
}

/// Opens a file that has no name but a kept link, by one that is gone at once: the program's is no link of ours.
int open_nameless(const std::string& kept, int flags) {
  const std::string name = kept + ".open";
  ::unlink(name.c_str());
  if (::link(kept.c_str(), name.c_str()) != 0) return -1;
  const int opened = ::open(name.c_str(), flags);
  ::unlink(name.c_str());
  return opened;
}

/// Makes a file whose contents the image has, without a name, where the program had it. One that never had a name
/// (O_TMPFILE) may still get one. Where the file system has no such files, it is memory.
int make_nameless(const OpenFile& each, int flags) {
  const std::size_t slash = each.path.rfind('/');
  const bool never_named =
      each.path.substr(slash + 1) == fmt::format("#{} (deleted)", each.file.inode);
  Descriptor made(::open(each.path.substr(0, slash + 1).c_str(),
                         O_TMPFILE | O_RDWR | O_CLOEXEC | (never_named ? 0 : O_EXCL), 0600));
  if (made.get() < 0) made = Descriptor(::memfd_create("deleted", MFD_CLOEXEC));
  if (made.get() < 0 || ::fchmod(made.get(), each.file.mode & 07777) != 0 ||
      !write_at(made.get(), each.contents.data(), each.contents.size(), 0))
    return -1;
  return ::open(fmt::format("/proc/self/fd/{}", made.get()).c_str(), flags);
}

}  // namespace

void bring_files_back(const std::string& directory) {
  const Image image = Keeper::inspect(directory);
  judge_machine(image, directory);
  std::vector<files::FileFact> written;
  for (const OpenFile& each : image.files) {
    // To a standard stream others write, too: this tool, for one.
    const bool was_written = each.file.descriptor > 2 && each.file.kind == FileKind::kRegular &&
                             each.file.deleted == 0 && !is_view(each) &&
                             (each.file.flags & O_ACCMODE) != O_RDONLY;
    if (was_written)
      written.push_back({each.path, id_of(each.file), each.file.bytes,
                         static_cast<std::int64_t>(each.file.modified_ns)});
  }
  files::FileHistory::check_untouched(directory, image.epoch, written).value();
  files::FileHistory::roll_back(directory, image.epoch);
  judge_mapped_files(image);
  judge_open_files(image, directory);
}

void go_back(const std::string& directory) {
  try {
    judge_machine(Keeper::inspect(directory), directory);
  } catch (const Exception& error) {
    if (error.code() != Code::kCorrupt) throw;  // The way out of that.
  }
  Keeper::forget_last(
      directory, [&](std::uint64_t before) { files::FileHistory::make_oldest(directory, before); });
}

int open_again(const OpenFile& each, const std::string& directory) {
  const FileRecord& file = each.file;
  int flags = static_cast<int>(file.flags) & ~(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_NOCTTY);
  // One that was made without a name says so for ever.
  if (file.kind == FileKind::kRegular) flags &= ~O_TMPFILE;
  int opened = -1;
  if (file.deleted == kContentsKept) {
    opened = make_nameless(each, flags);
  } else if (file.deleted == kLinkKept) {
    opened =
        open_nameless(files::FileHistory::kept_path(directory, {file.device, file.inode}), flags);
  } else {
    opened = ::open(each.path.c_str(), flags);
  }
  const bool placed =
      opened >= 0 && (file.kind != FileKind::kRegular || (flags & O_PATH) != 0 ||
                      ::lseek(opened, static_cast<off_t>(file.offset), SEEK_SET) >= 0);
  return placed ? opened : -1;
}

}  // namespace perdure::run
