// SPDX-License-Identifier: BSD-3-Clause
#include "tools/command_line.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "perdure/error.h"
#include "perdure/lost_pages.h"
#include "perdure/region/mapped_file.h"

namespace perdure::tools {

void leave_with(int code) { throw CLI::RuntimeError(code); }
void refuse(const std::string& name, const std::string& why) {
  throw CLI::ValidationError(name, why);
}

Option Option::required() const { return Option(option_->required()); }
Option Option::show_default() const { return Option(option_->capture_default_str()); }
Option Option::show_default(const std::string& text) const {
  return Option(option_->default_str(text));
}
Option Option::type_name(const std::string& name) const { return Option(option_->type_name(name)); }
Option Option::check(std::function<std::string(const std::string&)> complaint) const {
  return Option(option_->check(std::move(complaint)));
}
template <class Number>
Option Option::range(Number least, Number most) const {
  return Option(option_->check(CLI::Range(least, most)));
}
Option Option::positive() const { return Option(option_->check(CLI::PositiveNumber)); }
Option Option::one_of(const std::vector<std::string>& names) const {
  return Option(option_->check(CLI::IsMember(names)));
}
Option Option::existing_file() const { return Option(option_->check(CLI::ExistingFile)); }
Option Option::existing_directory() const { return Option(option_->check(CLI::ExistingDirectory)); }
Option Option::separated_by_commas() const { return Option(option_->delimiter(',')); }
Option Option::needs(Option other) const { return Option(option_->needs(other.option_)); }
Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_)); }

template Option Option::range(int, int) const;
template Option Option::range(unsigned, unsigned) const;
template Option Option::range(std::int64_t, std::int64_t) const;
template Option Option::range(std::uint64_t, std::uint64_t) const;
template Option Option::range(double, double) const;

Command Command::add_subcommand(const std::string& name, const std::string& about) const {
  return Command(*app_->add_subcommand(name, about));
}
void Command::require_subcommand() const { app_->require_subcommand(1); }
bool Command::subcommand_given() const { return !app_->get_subcommands().empty(); }

template <class T>
Option Command::add_option(const std::string& name, T& value, const std::string& about) const {
  return Option(app_->add_option(name, value, about));
}
template <class T>
Option Command::add_option_function(const std::string& name, std::function<void(const T&)> take,
                                    const std::string& about) const {
  return Option(app_->add_option_function<T>(name, take, about));
}
Option Command::add_flag(const std::string& name, bool& value, const std::string& about) const {
  return Option(app_->add_flag(name, value, about));
}

#define PERDURE_OPTION_OF(...) \
  template Option Command::add_option(const std::string&, __VA_ARGS__&, const std::string&) const
PERDURE_OPTION_OF(std::string);
PERDURE_OPTION_OF(std::uint16_t);
PERDURE_OPTION_OF(unsigned);
PERDURE_OPTION_OF(std::int64_t);
PERDURE_OPTION_OF(std::uint64_t);
PERDURE_OPTION_OF(double);
PERDURE_OPTION_OF(std::vector<unsigned>);
PERDURE_OPTION_OF(std::vector<std::string>);
#undef PERDURE_OPTION_OF
template Option Command::add_option_function(const std::string&,
                                             std::function<void(const std::string&)>,
                                             const std::string&) const;
template Option Command::add_option_function(const std::string&, std::function<void(const double&)>,
                                             const std::string&) const;

void Command::positionals_at_end() const { app_->positionals_at_end(); }
void Command::allow_extras() const { app_->allow_extras(); }
void Command::callback(std::function<void()> run) const { app_->callback(std::move(run)); }
void Command::footer(const std::string& text) const { app_->footer(text); }
Command Command::hide() const {
  app_->group("");
  return *this;
}

namespace {

constexpr const char* kFooter =
    R"(Every command takes --help and, for programs, --json.
Exit codes: 0 done; 1 damage found, no such key, or a violation; 2 wrong usage, or input that cannot be
understood; 3 the pool cannot be opened or used.)";

/// What stays in the buffer counts as not written: a backup must not miss its end unseen.
int leave(const char* name, int code) {
  if (const auto lost = MappedFile::first_loss()) {
    fmt::print(stderr, "{}: {}\n", name, lost->message);
    code = kCannot;
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "{}: standard output: cannot be written; nothing in the pool was lost\n",
             name);
  return kCannot;
}

int run(const CommandLine& command_line, int argc, char** argv) {
  const char* const name = command_line.name;
  CLI::App app(command_line.about, name);
  app.set_version_flag("--version", std::string(name) + " " PERDURE_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  command_line.add_commands(Command(app));
  try {
    app.parse(argc, argv);
    return leave(name, kDone);
  } catch (const CLI::Success& help) {
    return leave(name, app.exit(help));
  } catch (const CLI::RuntimeError& left) {
    return leave(name, left.get_exit_code());
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "{}: {}\nRun with --help for the ways to use it.\n", name, wrong.what());
    return kUsage;
  } catch (const Exception& error) {
    if (error.code() == Code::kPoisoned && MappedFile::first_loss()) return leave(name, kCannot);
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return leave(name, error.code() == Code::kInvalid ? kUsage : kCannot);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return kCannot;
  }
}

}  // namespace

int run_command_line(const CommandLine& command_line, int argc, char** argv) noexcept {
  // A reader that goes away (`perdure kv scan … | head`) ends this process quietly, as it does
  // every filter.
  std::signal(SIGPIPE, SIG_DFL);
  survive_lost_pages();
  try {
    return run(command_line, argc, argv);
  } catch (...) {
    std::fputs("perdure: out of memory, or standard error cannot be written\n", stderr);
    return kCannot;
  }
}

}  // namespace perdure::tools
