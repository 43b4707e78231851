// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/mnemosyne/program.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

// The linker gives the bounds of a section whose name is an identifier.
extern "C" {
extern std::byte __start_persistent[]
    __attribute__((visibility("hidden")));  // NOLINT: the linker's name
extern std::byte __stop_persistent[] __attribute__((visibility("hidden")));  // NOLINT
extern const char perdure_address_space_opens_before_main;
const char perdure_address_space_opens_before_main = 0;
// The last page of the section, on a page of its own: so that the section begins on a page, because
// nothing in it is aligned more strictly, and ends with one, because a library comes last. What
// follows in the program's memory is on other pages and not shown from the file.
__attribute__((section("persistent"), used, aligned(4096))) char perdure_end_of_pstatic[4096] = {1};
}

namespace perdure::mnemosyne {
namespace {

AddressSpace* the_program = nullptr;  // set before main(), never closed: threads may outlive main()
thread_local AddressSpace* bound __attribute__((tls_model("initial-exec"))) = nullptr;
std::atomic<std::uint64_t> binds{1};

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

[[noreturn]] void refuse_setting(const char* name, const char* value, const char* expected) {
  stop(std::string(name) + "=" + value + " is not understood; expected " + expected);
}

template <class T, class Name>
T choice(const char* variable, T fallback, std::initializer_list<T> known, Name name) {
  const char* value = setting(variable);
  if (value == nullptr) return fallback;
  std::string names;
  for (const T each : known) {
    if (name(each) == value) return each;
    names += (names.empty() ? "" : ", ") + std::string(name(each));
  }
  refuse_setting(variable, value, names.c_str());
}

template <class T>
T number(const char* variable, T fallback) {
  const char* value = setting(variable);
  if (value == nullptr) return fallback;
  const bool hexadecimal = std::is_integral_v<T> && std::strncmp(value, "0x", 2) == 0;
  const char* const begin = value + (hexadecimal ? 2 : 0);
  const char* const end = value + std::strlen(value);
  T parsed{};
  std::from_chars_result result{};
  if constexpr (std::is_integral_v<T>) {
    result = std::from_chars(begin, end, parsed, hexadecimal ? 16 : 10);
  } else {
    result = std::from_chars(begin, end, parsed);
  }
  if (result.ec != std::errc() || result.ptr != end) refuse_setting(variable, value, "a number");
  return parsed;
}

Statics::OnChange on_change() {
  const char* value = setting("PERDURE_STATICS");
  if (value == nullptr) return Statics::OnChange::kRefuse;
  if (std::strcmp(value, "migrate") == 0) return Statics::OnChange::kMigrate;
  if (std::strcmp(value, "migrate,drop") == 0) return Statics::OnChange::kMigrateAndDrop;
  if (std::strcmp(value, "reset") == 0) return Statics::OnChange::kReset;
  refuse_setting("PERDURE_STATICS", value, "migrate, \"migrate,drop\" or reset");
}

AddressSpace::Options options_of_environment() {
  AddressSpace::Options options;
  options.pool.domain = choice("PERDURE_DOMAIN", DomainKind::kAuto,
                               {DomainKind::kAuto, DomainKind::kAdr, DomainKind::kEadr,
                                DomainKind::kSync, DomainKind::kDram},
                               domain_name);
  options.pool.truncation =
      choice("PERDURE_TRUNCATION", Truncation::kAuto,
             {Truncation::kAuto, Truncation::kEachCommit, Truncation::kNextCommit,
              Truncation::kWhenFull, Truncation::kBackground},
             truncation_name);
  for (const char* variable : {"PERDURE_LATENCY_NS", "PERDURE_BANDWIDTH_GB"}) {
    if (const char* value = setting(variable))
      stop(std::string(variable) + "=" + value + ": memory is emulated for the laboratory's pools only; unset it");
  }
  options.base = reinterpret_cast<std::byte*>(number<std::uint64_t>("PERDURE_RESERVED_BASE", 0));
  options.range_bytes = number("PERDURE_RESERVED_BYTES", options.range_bytes);
  if (const char* backing = setting("PERDURE_BACKING_PATH")) options.backing_directory = backing;
  options.frames_bytes = number("PERDURE_FRAMES_BYTES", options.frames_bytes);
  // Nothing but the end page: the program has no such variables.
  if (__stop_persistent - __start_persistent > static_cast<std::ptrdiff_t>(kPageBytes)) {
    auto statics = statics_of_this_program(__start_persistent, __stop_persistent);
    if (!statics) stop(statics.error().message);
    options.statics = std::move(statics).value();
    std::erase_if(options.statics.variables, [](const StaticVariable& variable) {
      return variable.name == "perdure_end_of_pstatic";
    });
    options.statics.on_change = on_change();
  }
  return options;
}

void close_the_program() {
  try {
    // Empties the logs, and ends the thread that otherwise does so.
    the_program->pool().set_truncation(Truncation::kAuto);
  } catch (const std::exception&) {
    // The storage failed: the logs hold everything that was acknowledged.
  }
}

/// Before main(), and before the program's own constructors: they may use pstatic variables
/// already.
__attribute__((constructor(101))) void open_the_program() {
  try {
    const char* directory = setting("PERDURE_REGION_PATH");
    if (directory == nullptr) directory = setting("MNEMOSYNE_REGION_PATH");
    auto opened = AddressSpace::open_or_create(directory != nullptr ? directory : ".",
                                               options_of_environment());
    if (!opened) stop(opened.error().message);
    the_program = opened.value().release();
  } catch (const std::exception& error) {
    stop(error.what());
  }
  static const pid_t opened_by = ::getpid();
  // So that the next start has nothing to replay. Registered first, called last.
  std::atexit([] {
    if (::getpid() != opened_by) return;  // a forked child has no part in it
    try {
      // In a thread of its own: what this one kept in thread-local variables is gone already.
      std::thread(close_the_program).join();
    } catch (const std::exception&) {
      // No thread to be had: the next start replays what the logs hold.
    }
  });
}

}  // namespace

AddressSpace& space() {
  AddressSpace* const mine = bound != nullptr ? bound : the_program;
  if (mine == nullptr) [[unlikely]]
    stop(
        "persistent memory was used before it was opened (by a constructor with a priority below "
        "102?)");
  return *mine;
}

void bind(AddressSpace* space) {
  bound = space;
  binds.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t generation() { return binds.load(std::memory_order_relaxed); }

void stop(const std::string& why) {
  const std::string line = "perdure: " + why + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(3);
}

}  // namespace perdure::mnemosyne
