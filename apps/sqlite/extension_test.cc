// SPDX-License-Identifier: BSD-3-Clause
// The loadable extension in programs that know nothing of it: the sqlite3 shell, and Python.
#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>

#include "apps/sqlite/sql_fixture.h"

namespace perdure::sqlite::testing {
namespace {

using ::testing::HasSubstr;

/// What a command prints, and its status in the last line.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = ::popen((command + " 2>&1; echo \"status $?\"").c_str(), "r");
  char part[512];
  while (std::fgets(part, sizeof(part), pipe) != nullptr) text += part;
  ::pclose(pipe);
  return text;
}

struct Extension : OnBoth {
  std::string write_script(const std::string& name, const std::string& text) {
    std::ofstream(dir / name) << text;
    return dir / name;
  }
  const std::string extension = PERDURE_SQLITE_EXTENSION;
};
INSTANTIATE_TEST_SUITE_P(, Extension, ::testing::Values(kOnMemory, kOnDisk), place_name);

TEST_P(Extension, WorksInTheShell) {
  if (kSanitized) GTEST_SKIP() << "the shell is not sanitized";
  if (std::system("command -v sqlite3 > /dev/null") != 0) GTEST_SKIP() << "there is no sqlite3";
  const std::string load = ".load " + extension + "\n.open " + uri(path) + "\n";
  const std::string first =
      write_script("first", load +
                                "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);\n"
                                "INSERT INTO t(v) VALUES('one'), ('two');\n"
                                "BEGIN; DELETE FROM t; ROLLBACK;\n"
                                "PRAGMA perdure_info;\n"
                                "VACUUM INTO 'file:" +
                                (dir / "plain.db") + "?vfs=unix';\n");
  EXPECT_THAT(output_of("sqlite3 -batch < " + first),
              ::testing::AllOf(HasSubstr("engine mnemosyne"), HasSubstr("status 0")));
  const std::string second =
      write_script("second", load + "SELECT group_concat(v) FROM t;\nPRAGMA integrity_check;\n");
  EXPECT_EQ(output_of("sqlite3 -batch < " + second), "one,two\nok\nstatus 0\n");
  EXPECT_EQ(output_of("sqlite3 -batch " + (dir / "plain.db") + " 'SELECT count(*) FROM t'"),
            "2\nstatus 0\n");
  const std::string third =
      write_script("third", ".log stdout\n.load " + extension + "\n.open " + uri(dir / "plain.db") +
                                "\nSELECT * FROM t;\n");
  EXPECT_THAT(output_of("sqlite3 -batch < " + third), HasSubstr("an ordinary SQLite database"));
}

TEST_P(Extension, WorksInPython) {
  if (kSanitized) GTEST_SKIP() << "Python is not sanitized";
  const std::string script = write_script("script.py", R"py(
import sqlite3, sys
extension, uri = sys.argv[1:]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(extension)
loader.close()
db = sqlite3.connect(uri, uri=True)
db.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v)")
with db:
    db.executemany("INSERT INTO t(v) VALUES(?)", [(i,) for i in range(1000)])
try:
    with db:
        db.execute("DELETE FROM t")
        raise KeyError
except KeyError:
    pass
print(db.execute("SELECT count(*), max(id) FROM t").fetchone(), db.execute("PRAGMA integrity_check").fetchone())
db.close()
)py");
  // Some builds of Python come without extensions.
  const std::string python =
      "$(for p in python3 /usr/bin/python3; do $p -c 'import sqlite3; "
      "sqlite3.Connection.enable_load_extension' 2>/dev/null && echo $p && break; done)";
  if (std::system(("test -n \"" + python + "\"").c_str()) != 0)
    GTEST_SKIP() << "no Python whose sqlite3 loads extensions";
  const std::string run = python + " " + script + " " + extension + " '" + uri(path) + "'";
  EXPECT_EQ(output_of(run), "(1000, 1000) ('ok',)\nstatus 0\n");
  EXPECT_EQ(output_of(run), "(2000, 2000) ('ok',)\nstatus 0\n");
}

}  // namespace
}  // namespace perdure::sqlite::testing
