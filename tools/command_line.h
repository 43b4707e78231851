// SPDX-License-Identifier: BSD-3-Clause
// How a command says what it takes on the command line, and what main() of both programs does. The only door to CLI11, which
// costs each source that includes it five seconds and more.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace perdure::tools {

/// The exit codes of every command; scripts rely on them.
inline constexpr int kDone = 0;
inline constexpr int kNegative =
    1;  // check: damage found; get, del: no such key; torture, demo, explore: a violation
inline constexpr int kUsage = 2;
inline constexpr int kCannot = 3;  // the pool could not be opened or used

/// Leaves the command with `code`, silently. What it had to say has been said.
[[noreturn]] void leave_with(int code);
/// Leaves the command with kUsage: `why` its argument `name` cannot be.
[[noreturn]] void refuse(const std::string& name, const std::string& why);

/// An option, a flag or a positional argument: a handle of what its command owns. Each function answers the option itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  /// --help tells the value that its variable has now, or `text`.
  Option show_default() const;
  Option show_default(const std::string& text) const;
  /// What --help calls its value.
  Option type_name(const std::string& name) const;
  /// `complaint` answers what is wrong with a text, or nothing.
  Option check(std::function<std::string(const std::string& text)> complaint) const;
  /// Number is int, unsigned, std::int64_t, std::uint64_t or double.
  template <class Number>
  Option range(Number least, Number most) const;
  Option positive() const;
  Option one_of(const std::vector<std::string>& names) const;
  Option existing_file() const;
  Option existing_directory() const;
  /// Several values may be one word: a,b,c.
  Option separated_by_commas() const;
  Option needs(Option other) const;
  Option excludes(Option other) const;

 private:
  CLI::Option* option_;
};

/// A command or a command's command: a handle of what its parent owns. Variables that it is given must outlive the command
/// line; a command's callback, which owns them, does.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command add_subcommand(const std::string& name, const std::string& about) const;
  /// Exactly one of its commands has to be named.
  void require_subcommand() const;
  bool subcommand_given() const;

  /// `name` is "--words" for an option, "WORD" for a positional argument. command_line.cc lists what T can be: numbers, strings,
  /// lists of them.
  template <class T>
  Option add_option(const std::string& name, T& value, const std::string& about = "") const;
  /// Instead of a variable, `take` gets the value. T is std::string or double.
  template <class T>
  Option add_option_function(const std::string& name, std::function<void(const T&)> take,
                             const std::string& about) const;
  Option add_flag(const std::string& name, bool& value, const std::string& about) const;
  /// All words behind the first that is no option are positional arguments.
  void positionals_at_end() const;
  /// Words that nobody asked for are ignored.
  void allow_extras() const;

  /// What the command does.
  void callback(std::function<void()> run) const;
  /// Commands added later begin with it, too.
  void footer(const std::string& text) const;
  /// Leaves it out of the help of its parent; answers the command itself.
  Command hide() const;

 private:
  CLI::App* app_;
};

/// Adds `--json` to a command.
inline void add_json_flag(Command command, bool& json) {
  command.add_flag("--json", json, "Answer in JSON");
}

/// An option that is a number from 0 on; CLI11 itself takes -1 for a very large one.
template <class T>
Option add_count(Command command, const std::string& name, T& value, const std::string& what) {
  return command.add_option(name, value, what).check([](const std::string& text) {
    return text.empty() || text[0] == '-' ? text + " is not a number from 0 on" : std::string();
  });
}

/// An option that takes one of a few names, and nothing else.
template <class T>
void add_choice(Command command, const std::string& name, T& value,
                const std::vector<std::pair<std::string, T>>& choices, const std::string& what) {
  std::string names;
  for (const auto& [text, meaning] : choices) names += (names.empty() ? "" : ", ") + text;
  command
      .add_option_function<std::string>(
          name,
          [&value, choices](const std::string& text) {
            for (const auto& [known, meaning] : choices) {
              if (known == text) value = meaning;
            }
          },
          what)
      .check([choices, names](const std::string& text) {
        for (const auto& [known, meaning] : choices) {
          if (known == text) return std::string();
        }
        return "'" + text + "' is none of " + names;
      })
      .type_name("NAME");
}

/// Makes the program: `add_commands` adds its commands to it.
struct CommandLine {
  const char* name;
  const char* about;  // what --help begins with
  void (*add_commands)(Command program);
};

/// Returns what main() has to return: one of the exit codes.
int run_command_line(const CommandLine& command_line, int argc, char** argv) noexcept;

}  // namespace perdure::tools
