// SPDX-License-Identifier: BSD-3-Clause
// mutants: files that were damaged at random, and what becomes of the programs that use them. Each mutant is used by a process
// of its own, which must end by itself: with what it has shown, or with a refusal.
#include "tools/lab/mutants.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "perdure/base/words.h"
#include "perdure/error.h"
#include "perdure/lost_pages.h"
#include "tools/command.h"
#include "tools/lab/commands.h"
#include "tools/progress.h"

namespace perdure::tools {
namespace {

using Bytes = std::vector<char>;

struct MutantsOptions {
  std::uint64_t count = 1000;
  std::uint64_t seed = 1;
  std::uint64_t only = 0;
  std::string subject;
  std::string directory = "/dev/shm";
  bool json = false;
};

constexpr unsigned kSecondsOfOne = 10;
constexpr rlim_t kBytesOfOne = rlim_t{2} << 30;
constexpr std::size_t kMostNamed = 5;

// How a process that used a mutant ends; with kUnsound when the checks had found it out.
enum End : int { kShown = 10, kRefused = 11, kWrong = 12, kOutOfMemory = 13 };
constexpr int kUnsound = 8;

/// Damages `bytes`, of which the first `used` are in use, and says how. `other`: the file at another moment of its life.
std::string damage(Bytes& bytes, const Bytes& other, std::mt19937_64& random) {
  constexpr std::size_t kSector = 512;
  const std::size_t words = bytes.size() / kWordBytes;
  // What means something is not spread evenly: half of the damage meets words that are not zero.
  const auto place = [&] {
    std::size_t word = random() % words;
    if (random() % 4 != 0) {
      for (int i = 0; i < 2000; ++i, word = random() % words) {
        Word there = 0;
        std::memcpy(&there, bytes.data() + word * kWordBytes, kWordBytes);
        if (there != 0) break;
      }
    }
    return word * kWordBytes;
  };
  const auto get = [&](std::size_t at) {
    Word word = 0;
    std::memcpy(&word, bytes.data() + at, kWordBytes);
    return word;
  };
  const auto put = [&](std::size_t at, Word word) {
    std::memcpy(bytes.data() + at, &word, kWordBytes);
  };
  std::string story;
  for (std::uint64_t left = random() % 4 == 0 ? 1 + random() % 4 : 1; left > 0; --left) {
    const std::size_t at = place();
    const std::size_t sector = at / kSector * kSector;
    const std::size_t in_sector = std::min(kSector, bytes.size() - sector);
    const auto tell = [&](const std::string& what) {
      story += fmt::format("{}{} at byte {}", story.empty() ? "" : ", ", what, at);
    };
    switch (random() % 12) {
      case 0:
      case 1:
      case 2:
        put(at, get(at) ^ (Word{1} << random() % 64));
        tell("a flipped bit");
        break;
      case 3:
        put(at, random());
        tell("a random word");
        break;
      case 4:
        put(at, 0);
        tell("a zeroed word");
        break;
      case 5:
        put(at, random() % bytes.size());
        tell("a word that could be a length");
        break;
      case 6:
        put(at, random() % bytes.size() / 16 * 16);
        tell("a word that could be a link");
        break;
      case 7:
      case 8:
        put(at, get(place()));
        tell("a word of another place");
        break;
      case 9:
        std::memset(bytes.data() + sector, random() % 2 == 0 ? 0 : 0xff, in_sector);
        tell("a sector of zeros or ones");
        break;
      case 10: {
        const std::size_t from = random() % (bytes.size() / kSector) * kSector;
        std::memmove(bytes.data() + sector, bytes.data() + from,
                     std::min({in_sector, kSector, bytes.size() - from}));
        tell("a sector of another place");
        break;
      }
      default:
        if (random() % 8 == 0) {
          bytes.resize(at);
          tell("cut short");
          return story;
        }
        if (sector + in_sector <= other.size())
          std::memcpy(bytes.data() + sector, other.data() + sector, in_sector);
        tell("a sector of another time");
    }
  }
  return story;
}

/// Without the zeros, so that it stays sparse.
void write_file(const std::string& path, const Bytes& bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes.size())) == 0;
  for (std::size_t at = 0; written && at < bytes.size(); at += kPageBytes) {
    const std::size_t count = std::min(kPageBytes, bytes.size() - at);
    const char* const from = bytes.data() + at;
    if (std::all_of(from, from + count, [](char byte) { return byte == 0; })) continue;
    written = ::pwrite(fd, from, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count);
  }
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!written) throw Exception(Code::kIo, path + ": " + std::strerror(error));
}

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

/// Runs `body` in a process of its own; answers its status.
template <class Body>
int in_process(Body body) {
  const pid_t pid = ::fork();
  if (pid < 0) throw Exception(Code::kIo, std::string("no process: ") + std::strerror(errno));
  if (pid == 0) ::_exit(body());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

int use(const Subject& subject, const std::string& path, bool aloud) {
  const rlimit memory{kBytesOfOne, kBytesOfOne};
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_DATA, &memory);
  ::setrlimit(RLIMIT_CORE, &none);
  ::alarm(kSecondsOfOne);
  survive_lost_pages();
  const auto say = [&](const char* who, const std::exception& refused) {
    if (aloud) fmt::print(stderr, "{}: {}\n", who, refused.what());
  };
  int end = kShown;
  bool sound = false;
  try {
    sound = subject.check(path);
  } catch (const std::exception& refused) {
    say("check", refused);
  }
  try {
    if (!subject.use(path)) end = kWrong;
  } catch (const std::bad_alloc& refused) {
    say("use", refused);
    end = kOutOfMemory;
  } catch (const std::exception& refused) {
    say("use", refused);
    end = kRefused;
  }
  return sound ? end : end + kUnsound;
}

struct Tally {
  std::uint64_t mutants = 0;
  std::uint64_t all_shown = 0;
  std::uint64_t refused = 0;
  std::uint64_t wrong = 0;
  std::uint64_t wrong_and_unsound = 0;  // the checks told
  std::vector<std::uint64_t> untold;  // numbers of some of those that they did not tell, for --only
  std::uint64_t found_by_check = 0;
  std::uint64_t bad_ends = 0;  // signals, hangs, too much memory
};

class Mutants {
 public:
  explicit Mutants(const MutantsOptions& options)
      : options_(&options),
        directory_(options.directory + "/perdure-mutants-" + std::to_string(::getpid())) {
    std::filesystem::create_directory(directory_);
  }
  ~Mutants() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  Mutants(const Mutants&) = delete;
  Mutants& operator=(const Mutants&) = delete;

  int run() {
    Report rows = Report::array();
    for (const Subject& subject : mutant_subjects()) {
      const bool wanted =
          options_->subject.empty() ? subject.about != nullptr : options_->subject == subject.name;
      if (!wanted) continue;
      rows.push_back(row(subject, damage_all(subject)));
    }
    if (rows.empty()) throw Exception(Code::kInvalid, options_->subject + ": no such kind of file");
    print(Report{{"seed", options_->seed},
                 {"mutants", total_},
                 {"violations", violations_.size()},
                 {"kinds", rows}},
          options_->json);
    for (const std::string& violation : violations_)
      fmt::print(stderr, "violation: {}\n", violation);
    return violations_.empty() ? kDone : kNegative;
  }

 private:
  Tally damage_all(const Subject& subject) {
    const std::string path = directory_ + "/mutant";
    const Bytes whole = make(subject, path);
    write_file(path, whole);
    const int sound = in_process([&] { return use(subject, path, true); });
    if (!WIFEXITED(sound) || WEXITSTATUS(sound) != kShown)
      throw Exception(Code::kCorrupt, fmt::format("{}: the undamaged file does not work ({})",
                                                  subject.name, sound));
    const Bytes used = read_file(path);
    Tally tally;
    Progress progress(subject.name, options_->count);
    const std::uint64_t first = options_->only != 0 ? options_->only : 1;
    const std::uint64_t last = options_->only != 0 ? options_->only : options_->count;
    for (std::uint64_t number = first; number <= last; ++number) {
      progress.show(number);
      std::seed_seq seeds{options_->seed, number};
      std::mt19937_64 random(seeds);
      Bytes bytes = whole;
      const std::string story = damage(bytes, used, random);
      std::filesystem::remove(path);
      write_file(path, bytes);
      const bool aloud = options_->only != 0;
      if (aloud) fmt::print(stderr, "damage: {}\n", story);
      const int status = in_process([&] { return use(subject, path, aloud); });
      judge(subject, number, story, status, tally);
    }
    total_ += tally.mutants;
    return tally;
  }

  static Bytes make(const Subject& subject, const std::string& path) {
    std::filesystem::remove(path);
    const int status = in_process([&] {
      try {
        subject.make(path);
        return 0;
      } catch (const std::exception& failed) {
        fmt::print(stderr, "{}: {}\n", subject.name, failed.what());
        return 1;
      }
    });
    if (status != 0) throw Exception(Code::kIo, fmt::format("{} could not be made", subject.name));
    return read_file(path);
  }

  void judge(const Subject& subject, std::uint64_t number, const std::string& story, int status,
             Tally& tally) {
    ++tally.mutants;
    const auto violate = [&](const std::string& what) {
      ++tally.bad_ends;
      violations_.push_back(fmt::format("{}, mutant {}: {} ({}); --kind {} --seed {} --only {}",
                                        subject.name, number, what, story, subject.name,
                                        options_->seed, number));
    };
    if (WIFSIGNALED(status)) {
      violate(WTERMSIG(status) == SIGALRM
                  ? std::string("it hangs")
                  : std::string("ended by ") + ::strsignal(WTERMSIG(status)));
      return;
    }
    int end = WEXITSTATUS(status);
    const bool unsound = end >= kShown + kUnsound;
    if (unsound) end -= kUnsound;
    tally.found_by_check += unsound ? 1 : 0;
    switch (end) {
      case kShown: ++tally.all_shown; break;
      case kRefused: ++tally.refused; break;
      case kWrong:
        ++tally.wrong;
        tally.wrong_and_unsound += unsound ? 1 : 0;
        if (!unsound && tally.untold.size() < kMostNamed) tally.untold.push_back(number);
        break;
      case kOutOfMemory: violate("it wants too much memory"); break;
      default: violate(fmt::format("it ends with {}", end));
    }
  }

  static Report row(const Subject& subject, const Tally& tally) {
    return {{"kind", subject.name},
            {"about", subject.about != nullptr ? subject.about : ""},
            {"mutants", tally.mutants},
            {"all_shown", tally.all_shown},
            {"refused", tally.refused},
            {"other_shown", tally.wrong},
            {"of_these_check_tells", tally.wrong_and_unsound},
            {"untold", fmt::format("{}", fmt::join(tally.untold, " "))},
            {"check_tells", tally.found_by_check},
            {"crashes_hangs_memory", tally.bad_ends}};
  }

  const MutantsOptions* options_;
  std::string directory_;
  std::uint64_t total_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace

void add_mutants_command(Command app) {
  auto options = std::make_shared<MutantsOptions>();
  Command command = app.add_subcommand(
      "mutants", "Damage files of every kind at random, and use them: nothing may crash or hang");
  add_count(command, "--count", options->count, "Mutants of each kind of file").show_default();
  command.add_option("--seed", options->seed, "Of the damage").show_default();
  command.add_option("--kind", options->subject, "Only this kind of file; else all");
  command.add_option("--only", options->only, "Only the mutant of this number, with what it says");
  command.add_option("--directory", options->directory, "Where the files are").show_default();
  add_json_flag(command, options->json);
  command.callback([options] {
    if (const int code = Mutants(*options).run(); code != kDone) leave_with(code);
  });
  command.footer(
      "A mutant is a file in which bits, words or sectors were changed, or which was cut short. It "
      "may be shown as it\n"
      "was, or be refused; \"other shown\" are those whose damage met bytes that nothing but the "
      "data's owner can judge.\n"
      "Examples:\n"
      "  perdure-lab mutants                                 1,000 of each kind\n"
      "  perdure-lab mutants --kind cache --seed 7 --only 12   one of them, with its messages");
}

}  // namespace perdure::tools
