// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/plain_journal.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "apps/sqlite/sqlite_api.h"

namespace perdure::sqlite {

void commit_write(DatabaseFile& file) {
  try {
    file.commit(Durability::kRelaxed);
  } catch (...) {
    file.discard();
    throw;
  }
}

namespace {

class PlainJournal final : public OpenFile {
 public:
  explicit PlainJournal(std::unique_ptr<DatabaseHold> hold)
      : hold_(std::move(hold)), file_(*hold_->database().journal) {}
  std::size_t read(void* to, std::size_t bytes, std::uint64_t at) override {
    return file_.read(to, bytes, at);
  }
  int write(const void* from, std::size_t bytes, std::uint64_t at) override {
    file_.write(from, bytes, at);
    commit_write(file_);
    return SQLITE_OK;
  }
  int truncate(std::uint64_t bytes) override {
    file_.truncate(bytes);
    commit_write(file_);
    return SQLITE_OK;
  }
  int sync() override {
    file_.commit(Durability::kStrict);
    return SQLITE_OK;
  }
  std::uint64_t size() override { return file_.bytes(); }
  int lock(int) override { return SQLITE_OK; }
  int unlock(int) override { return SQLITE_OK; }
  bool reserved() override { return false; }
  int control(int, void*) override { return SQLITE_NOTFOUND; }

 private:
  std::unique_ptr<DatabaseHold> hold_;
  DatabaseFile& file_;
};

/// The database of a journal; null when its file is not there.
std::unique_ptr<DatabaseHold> database_of(const std::string& name) {
  Request request;
  request.path = name.substr(0, name.size() - std::string_view("-journal").size());
  request.plain = true;
  if (::access(request.path.c_str(), F_OK) != 0) return nullptr;
  return open_database(request);
}

bool exists(Database& database) {
  return database.pool.read_only(
      [&](auto& tx) { return tx.load(database.plain->journal_exists) != 0; });
}

void set_exists(Database& database, bool exists, Durability durability) {
  database.pool.atomically(
      durability, [&](auto& tx) { tx.store(database.plain->journal_exists, exists ? 1 : 0); });
}

}  // namespace

std::unique_ptr<OpenFile> open_plain_journal(const std::string& name, bool create) {
  auto hold = database_of(name);
  if (hold == nullptr) return nullptr;
  Database& database = hold->database();
  if (!exists(database)) {
    if (!create) return nullptr;
    set_exists(database, true, Durability::kRelaxed);
  }
  return std::make_unique<PlainJournal>(std::move(hold));
}

bool plain_journal_exists(const std::string& name) {
  const auto hold = database_of(name);
  return hold != nullptr && exists(hold->database());
}

bool remove_plain_journal(const std::string& name) {
  const auto hold = database_of(name);
  if (hold == nullptr || !exists(hold->database())) return false;
  // Its contents go first, and in one transaction: they are what must never come back.
  DatabaseFile& journal = *hold->database().journal;
  journal.truncate(0);
  commit_write(journal);
  set_exists(hold->database(), false, Durability::kStrict);
  return true;
}

}  // namespace perdure::sqlite
