// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/modes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace perdure::bench::tpcc {
namespace {

constexpr const char* kOurs = "perdure";
constexpr std::array<std::string_view, 6> kJournals = {"delete", "truncate", "persist",
                                                       "memory", "wal",      "off"};
constexpr std::array<std::string_view, 4> kSynchronous = {"off", "normal", "full", "extra"};

template <std::size_t N>
void require_one_of(const std::array<std::string_view, N>& known, const std::string& word,
                    const std::string& mode) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  std::string names;
  for (const std::string_view name : known)
    names += (names.empty() ? "" : ", ") + std::string(name);
  throw Exception(Code::kInvalid, "tpcc: " + mode + ": '" + word + "' is none of " + names);
}

std::vector<void (*)()>& linked_vfses() {
  static std::vector<void (*)()> all;
  return all;
}

}  // namespace

Mode mode_of(const std::string& name) {
  const std::size_t first = name.find('/');
  const std::size_t second = first == std::string::npos ? first : name.find('/', first + 1);
  Mode mode{name.substr(0, first), "delete", "full"};
  if (first != std::string::npos) {
    if (second == std::string::npos)
      throw Exception(Code::kInvalid,
                      "tpcc: " + name + ": a mode is VFS/JOURNAL/SYNCHRONOUS, as in " + kBaseline);
    mode.journal = name.substr(first + 1, second - first - 1);
    mode.synchronous = name.substr(second + 1);
  }
  if (const std::size_t question = mode.vfs.find('?'); question != std::string::npos) {
    mode.parameters = mode.vfs.substr(question + 1);
    mode.vfs.resize(question);
  }
  require_one_of(kJournals, mode.journal, name);
  require_one_of(kSynchronous, mode.synchronous, name);
  if (::sqlite3_vfs_find(mode.vfs.c_str()) == nullptr)
    throw Exception(Code::kInvalid, "tpcc: " + name + ": SQLite has no VFS '" + mode.vfs +
                                        "'; --extension names a file that brings one");
  return mode;
}

std::vector<Mode> default_modes() {
  std::vector<Mode> modes = {{"unix", "delete", "full"},
                             {"unix", "wal", "full"},
                             {"unix", "wal", "normal"},
                             {"unix", "memory", "off"}};
  if (::sqlite3_vfs_find(kOurs) != nullptr) modes.push_back({kOurs, "delete", "full"});
  return modes;
}

std::string promise_of(const Mode& mode) {
  if (mode.vfs == kOurs)
    return mode.synchronous == "off" ? "all but the newest transactions" : "every transaction";
  if (mode.journal == "off" || mode.journal == "memory")
    return "a broken database, after any crash";
  if (mode.synchronous == "off") return "perhaps a broken database";
  if (mode.vfs.rfind("unix", 0) != 0) return "what the VFS makes of a full sync";
  if (mode.journal == "wal")
    return mode.synchronous == "normal" ? "all but the newest transactions" : "every transaction";
  if (mode.synchronous == "normal")
    return "every transaction, but on an old file system perhaps a broken database";
  if (mode.journal == "delete" && mode.synchronous == "full")
    return "every transaction, but perhaps the newest: the directory is not synced";
  return "every transaction";
}

bool wakes_waiters(const Mode& mode) { return mode.vfs == kOurs; }

void apply(const Mode& mode, Connection& connection) {
  const std::string answer = connection.text("PRAGMA journal_mode = " + mode.journal);
  if (answer != mode.journal)
    throw Exception(
        Code::kInvalid,
        "tpcc: " + mode.name() + ": the VFS cannot do this journal mode; it stays at " + answer);
  connection.run("PRAGMA synchronous = " + mode.synchronous);
}

LinkedVfs::LinkedVfs(void (*register_vfs)()) { linked_vfses().push_back(register_vfs); }

void register_vfses(const std::string& extension) {
  for (void (*const register_vfs)() : linked_vfses()) register_vfs();
  if (extension.empty()) return;
  // An extension may go with the connection that loaded it, and its VFS with it: this one stays.
  static Connection loader(":memory:", "unix", Connection::Access::kCreate);
  loader.check(
      ::sqlite3_db_config(loader.handle(), SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, nullptr),
      "load_extension");
  char* reason = nullptr;
  if (::sqlite3_load_extension(loader.handle(), extension.c_str(), nullptr, &reason) == SQLITE_OK)
    return;
  const std::string why = reason != nullptr ? reason : ::sqlite3_errmsg(loader.handle());
  ::sqlite3_free(reason);
  throw Exception(Code::kInvalid, "tpcc: " + extension + ": " + why);
}

}  // namespace perdure::bench::tpcc
