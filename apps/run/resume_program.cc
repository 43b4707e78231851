// SPDX-License-Identifier: BSD-3-Clause
// `perdure resume`: reads an image, checks that it can live here, writes a plan and starts the
// restorer in a process with the program's id.
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "apps/run/image.h"
#include "apps/run/launch.h"
#include "apps/run/place.h"
#include "apps/run/plan.h"
#include "apps/run/resume_descriptors.h"
#include "apps/run/resume_files.h"
#include "apps/run/supervisor.h"
#include "tools/parts.h"

namespace perdure::run {
namespace {

namespace fs = std::filesystem;

/// The descriptors that the restorer needs, in the program.
struct Sources {
  int plan, image, newest;
};

/// A memory file that holds `contents`. Errors: Exception: kIo.
int memory_file(const char* name, const std::string& contents) {
  const int file = ::memfd_create(name, 0);
  if (file < 0 || !write_at(file, contents.data(), contents.size(), 0))
    throw Exception(Code::kIo, "no memory for the plan of the resume");
  return file;
}

/// Memory that home does not hold as it is, one page behind the other.
std::string newest_pages(const Image& image, ImageReader& reader) {
  std::string bytes;
  for (const PageAt& each : image.pages) {
    const auto here = reader.newest().find(each.slot);
    if (here != reader.newest().end())
      bytes.append(reinterpret_cast<const char*>(here->second.data()), kPageBytes);
  }
  return bytes;
}

/// A memory file that holds the plan.
int write_plan(const Image& image, const ImageReader& reader, const Sources& from,
               const std::vector<int>& handed) {
  std::string arrays, texts;
  Plan plan{};
  const auto place = [&](std::uint64_t& offset, std::uint64_t& count, const auto& items) {
    arrays.resize(padded(arrays.size()));
    offset = sizeof(Plan) + arrays.size();
    count = items.size();
    arrays.append(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(items[0]));
  };
  std::vector<PlanArea> areas;
  for (const Area& area : image.areas) {
    areas.push_back({area.vma.begin, area.vma.end, area.vma.file_offset, area.vma.protection,
                     area.vma.flags, area.vma.kind, static_cast<std::uint32_t>(texts.size())});
    texts += area.path + '\0';
  }
  std::vector<PlanPages> pages;
  std::uint64_t newest_bytes = 0;
  for (const PageAt& each : image.pages) {
    PlanPages page{each.address, kPageBytes, reader.home_offset(each.slot),
                   static_cast<std::uint32_t>(from.image), 0};
    if (reader.newest().contains(each.slot)) {
      page.file = static_cast<std::uint32_t>(from.newest);
      page.offset = newest_bytes;
      newest_bytes += kPageBytes;
    }
    const bool joins = !pages.empty() && pages.back().file == page.file &&
                       pages.back().address + pages.back().bytes == page.address &&
                       pages.back().offset + pages.back().bytes == page.offset;
    if (joins) {
      pages.back().bytes += kPageBytes;
    } else {
      pages.push_back(page);
    }
  }
  std::vector<std::int32_t> close_on_exec;
  for (const OpenFile& each : image.files) {
    if ((each.file.flags & O_CLOEXEC) != 0) close_on_exec.push_back(each.file.descriptor);
  }
  const std::vector<std::int32_t> sources{from.image, from.newest};
  std::vector<PlanTimer> timer_files;
  for (const Object& each : image.belongings.objects) {
    if (each.record.kind == ObjectKind::kTimer)
      timer_files.push_back({each.record.descriptor, 0, each.as<TimerSetting>().front()});
  }
  static_assert(sizeof(Plan) % 8 == 0);
  place(plan.areas, plan.area_count, areas);
  place(plan.pages, plan.page_count, pages);
  place(plan.threads, plan.thread_count, image.threads);
  place(plan.close_on_exec, plan.close_on_exec_count, close_on_exec);
  place(plan.sources, plan.source_count, sources);
  place(plan.tasks, plan.task_count, image.belongings.tasks);
  place(plan.timers, plan.timer_count, image.belongings.timers);
  place(plan.timer_files, plan.timer_file_count, timer_files);
  place(plan.locks, plan.lock_count, image.belongings.locks);
  plan.attributes = *image.belongings.attributes;
  plan.program = static_cast<std::uint32_t>(texts.size());
  texts += image.belongings.program + '\0';
  plan.texts = sizeof(Plan) + arrays.size();
  plan.bytes = plan.texts + texts.size();
  plan.drop_capabilities = ::geteuid() != 0 ? 1 : 0;
  plan.process = image.process;
  plan.notice = {handed[0], handed[1]};
  return memory_file(
      "perdure-plan",
      std::string(reinterpret_cast<const char*>(&plan), sizeof plan) + arrays + texts);
}

// Where a byte goes when the program cannot be brought back: what ends then is not the program.
int failures = -1;
int messages = 2;  // the resume's stderr, when 2 is the program's

[[noreturn]] void give_up_saying(const std::string& why) {
  [[maybe_unused]] const auto told = ::write(failures, "x", 1);
  ::dprintf(messages, "perdure: %s; the state directory is as it was\n", why.c_str());
  ::_exit(3);
}

[[noreturn]] void give_up(const std::string& what) {
  give_up_saying(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// The program's descriptors, at their numbers. Those that are `kept` are closed by restorer and runtime.
void open_files(const Image& image, const std::string& directory, const std::vector<int>& kept) {
  const auto is_kept = [&](int number) {
    return std::find(kept.begin(), kept.end(), number) != kept.end();
  };
  const auto wanted = [&](int number) {
    return std::any_of(image.files.begin(), image.files.end(),
                       [&](const OpenFile& each) { return each.file.descriptor == number; });
  };
  const std::map<int, int> objects =
      make_objects(image, *std::max_element(kept.begin(), kept.end()) + 1);
  for (const OpenFile& each : image.files) {
    const FileRecord& file = each.file;
    const auto object = objects.find(file.descriptor);
    if (file.kind == FileKind::kStandard && file.same_as < 0 && object == objects.end()) continue;
    int opened = -1;
    if (file.same_as >= 0) {
      opened = file.same_as;
    } else if (object != objects.end()) {
      opened = object->second;
    } else if (file.kind == FileKind::kLost) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) give_up("a socket");
      ::close(ends[1]);
      opened = ends[0];
    } else {
      opened = open_again(each, directory);
      if (opened < 0) give_up(each.path);
    }
    if (opened == file.descriptor) continue;
    if (::dup2(opened, file.descriptor) < 0) give_up(each.path);
    if (file.same_as < 0) ::close(opened);
  }
  for (int number = 0; number < 1024; ++number) {
    if (!wanted(number) && !is_kept(number)) ::close(number);
  }
  connect_objects(image);
}

/// For the restorer, which gives threads their ids; it gives the capabilities up.
void keep_capabilities() {
  if (::geteuid() == 0) return;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  ::syscall(SYS_capget, &header, data);
  data[0].inheritable = data[0].permitted;
  data[1].inheritable = data[1].permitted;
  ::syscall(SYS_capset, &header, data);
  for (const int capability : {CAP_SYS_ADMIN, CAP_CHECKPOINT_RESTORE})
    ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0);
}

/// What it takes to bring the program back, in the processes that do it.
struct Return {
  const Image& image;
  const std::string directory;
  const std::string restorer;
  const Supervisor& supervisor;
  Sources from{};
  pid_t tool = ::getpid();
  int report = -1;  // where the program's status goes
};

[[noreturn]] void become_program(const Return& with) {
  keep_capabilities();
  const ProcessRecord& process = with.image.process;
  if (::chdir(process.cwd) != 0) give_up(process.cwd);
  ::umask(process.umask);
  messages = ::fcntl(2, F_DUPFD_CLOEXEC, failures + 1);
  with.supervisor.enter_program();
  std::vector<int> kept = with.supervisor.handed();
  kept.insert(kept.end(), {with.from.plan, with.from.image, with.from.newest,
                           with.supervisor.until_exec(), failures, messages});
  try {
    open_files(with.image, with.directory, kept);
  } catch (const std::exception& error) {
    give_up_saying(error.what());
  }
  with.supervisor.watch_program();
  ::personality(static_cast<unsigned long>(::personality(0xffffffff)) | ADDR_NO_RANDOMIZE);
  ::execl(with.restorer.c_str(), with.restorer.c_str(), std::to_string(with.from.plan).c_str(),
          std::to_string(failures).c_str(), nullptr);
  give_up(with.restorer);
}

/// The first process of the namespace: starts the program, waits for it and for orphans.
[[noreturn]] void be_first(const Return& with, int gate) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd gone{gate, POLLIN,
              0};  // Before that nobody would have told; the gate is in another namespace.
  if (gate < 0 || ::poll(&gone, 1, 0) != 0) ::_exit(3);
  ::close(gate);
  if (!mount_proc()) give_up("/proc");
  int failed[2];
  if (::pipe2(failed, O_CLOEXEC) != 0) give_up("a pipe");
  failures = ::fcntl(failed[1], F_DUPFD, with.report + 1);
  ::close(failed[1]);
  const pid_t wanted = with.image.process.pid;
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uint64_t>(&wanted);
  arguments.set_tid_size = 1;
  const long child = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) become_program(with);
  if (child < 0) give_up(fmt::format("a process with the id {}", wanted));
  ::close(failures);
  const int status = wait_for(static_cast<pid_t>(child));
  char byte;
  if (::read(failed[0], &byte, 1) == 1) ::_exit(3);
  ::_exit(::write(with.report, &status, sizeof status) == sizeof status ? 0 : 3);
}

/// Between the supervisor, which has threads, and the namespaces, which who has threads cannot enter.
[[noreturn]] void be_gate(const Return& with) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != with.tool) ::_exit(3);
  const int self = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  try {
    enter_namespaces();
    keep_clock_going(with.image.process.monotonic_ns);
  } catch (const Exception& error) {
    fmt::print(stderr, "perdure: {}\n", error.what());
    ::_exit(3);
  }
  const pid_t first = ::fork();
  if (first < 0) give_up("a process");
  if (first == 0) be_first(with, self);
  const int status = wait_for(first);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/// The first number that no descriptor of the program has.
int above(const Image& image) {
  int least = 3;
  for (const OpenFile& each : image.files) least = std::max(least, each.file.descriptor + 1);
  return least;
}

/// A copy of the descriptor there, which exec keeps.
int moved(int descriptor, int least) {
  const int copy = ::fcntl(descriptor, F_DUPFD, least);
  if (copy < 0) throw Exception(Code::kIo, "no descriptors are left; raise the limit (ulimit -n)");
  ::close(descriptor);
  return copy;
}

}  // namespace

int resume_program(const RunOptions& options) {
  ::signal(SIGCHLD, SIG_DFL);  // Ignored, it would hide how the program ended.
  if (!fs::exists(options.directory + "/settings.json"))
    throw Exception(Code::kNotFound, options.directory +
                                         ": no `perdure run` has begun there; name the directory "
                                         "that --state was given");
  const std::string directory = fs::canonical(options.directory);
  const DirectoryLock lock(directory);
  if (const auto ending = ending_of(directory))
    throw Exception(Code::kNotFound, directory + ": the program has ended (" + *ending +
                                         "); nothing is left to resume");
  const Settings settings = read_settings(directory);
  if (options.back) go_back(directory);
  Keeper::Options epochs = settings.epochs;
  epochs.accept_older = options.back;
  bring_files_back(directory);
  std::unique_ptr<Keeper> keeper = Keeper::open(directory, epochs);
  ImageReader reader = keeper->reader();
  const Image image = reader.image();
  Supervisor supervisor(directory, settings, std::move(keeper), &image);
  Return with{image, directory, tools::find_part("perdure_restorer"), supervisor};
  const int least = above(image);
  supervisor.prepare(least);
  with.from.image = moved(::open((directory + "/image").c_str(), O_RDONLY), least);
  with.from.newest = moved(memory_file("perdure-newest", newest_pages(image, reader)), least);
  with.from.plan = moved(write_plan(image, reader, with.from, supervisor.handed()), least);

  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) throw Exception(Code::kIo, "no pipe");
  with.report = ::fcntl(report[1], F_DUPFD_CLOEXEC, with.from.plan + 1);
  ::close(report[1]);
  const pid_t gate = ::fork();
  if (gate < 0) throw Exception(Code::kIo, "no process can be started");
  if (gate == 0) be_gate(with);
  for (const int file : {with.report, with.from.plan, with.from.image, with.from.newest})
    ::close(file);
  const int exit_code = supervisor.supervise(gate, options.statistics, [&]() -> std::optional<int> {
    int status = 0;
    if (::read(report[0], &status, sizeof status) != sizeof status) return std::nullopt;
    return status;
  });
  ::close(report[0]);
  return exit_code;
}

}  // namespace perdure::run
