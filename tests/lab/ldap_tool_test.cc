// SPDX-License-Identifier: BSD-3-Clause
// A real slapd over our server, real clients, and real kills of both.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;

class LdapToolTest : public ToolTest {
 protected:
  void SetUp() override {
    ToolTest::SetUp();
    if (HasFatalFailure()) return;
    // The package unpacked, not the installed one: what a newcomer's machine gets.
    tree_ = (std::filesystem::path(tool_).parent_path() / "slapd").string();
    const ToolRun ran =
        run_lab({"ldap", "demo", path("probe"), "--slapd", tree_, "--entries", "1", "--kills", "0"});
    if (ran.code == 3 && ran.err.find("could not be fetched") != std::string::npos)
      GTEST_SKIP() << "no slapd to be had: " << ran.err;
    ASSERT_EQ(ran.code, 0) << ran.err;
    write(path("password"), "secret\n");
  }
  void TearDown() override {
    kill_both();
    ToolTest::TearDown();
  }

  pid_t start(const std::string& tool, std::vector<std::string> arguments, const std::string& log) {
    arguments.insert(arguments.begin(), tool);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, path(log).c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, tool.c_str(), &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  void start_both() {
    server_ = start(tool_, {"ldap", "serve", "--pool", path("ldap.pool"), "--socket", path("sock"),
                     "--admin", "cn=admin,dc=example,dc=com", "--password-file", path("password")},
                    "serve.log");
    wait_for("sock");
    slapd_ =
        start(lab_, {"ldap", "slapd", "--socket", path("sock"), "--dir", path("front"), "--slapd", tree_},
              "slapd.log");
    wait_for("front/slapd.ldapi");
  }
  /// Until somebody listens there: the file alone may be of one who was killed.
  void wait_for(const std::string& socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path(socket).copy(address.sun_path, sizeof(address.sun_path) - 1);
    bool listening = false;
    for (int i = 0; i < 3000 && !listening; ++i) {
      const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      listening =
          ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
      ::close(probe);
      if (!listening) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(listening) << read(path("serve.log")) << read(path("slapd.log"));
  }
  void kill_both() {
    for (pid_t* pid : {&server_, &slapd_}) {
      if (*pid <= 0) continue;
      ::kill(*pid, SIGKILL);
      ::waitpid(*pid, nullptr, 0);
      *pid = -1;
    }
  }

  /// One of the programs of the package ldap-utils, as the admin.
  ToolRun client(const std::string& program, const std::vector<std::string>& arguments,
                 const std::string& input = "") {
    write(path(".in"), input);
    std::string uri = "ldapi://";
    for (const char c : path("front/slapd.ldapi"))
      uri += c == '/' ? std::string("%2F") : std::string(1, c);
    std::string command = program + " -x -D cn=admin,dc=example,dc=com -w secret -H " + quoted(uri);
    for (const std::string& argument : arguments) command += " " + quoted(argument);
    command +=
        " <" + quoted(path(".in")) + " >" + quoted(path(".out")) + " 2>" + quoted(path(".err"));
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(path(".out")), read(path(".err"))};
  }
  ToolRun search(const std::string& filter) {
    return client("ldapsearch", {"-LLL", "-o", "ldif-wrap=no", "-b", "dc=example,dc=com", filter});
  }

  std::string tree_;
  pid_t server_ = -1;
  pid_t slapd_ = -1;
};

constexpr const char* kFrame =
    "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n"
    "dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n";

std::string person(const std::string& uid, const std::string& cn) {
  return "dn: uid=" + uid +
         ",ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: " + uid + "\ncn: " + cn +
         "\nsn: " + cn + "\n\n";
}

TEST_F(LdapToolTest, OrdinaryClientsAreServed) {
  start_both();
  ASSERT_EQ(client("ldapadd", {},
                   kFrame + person("ada", "Lovelace") +
                       "dn: uid=j\\C3\\BCrgen,ou=people,dc=example,dc=com\n"
                       "objectClass: inetOrgPerson\nuid:: asO8cmdlbg==\ncn: J\n"
                       "sn: J\njpegPhoto:: " +
                       std::string(40000, 'A') + "\n\n")
                .code,
            0)
      << read(path(".err")) << read(path("slapd.log"));
  EXPECT_EQ(client("ldapadd", {}, person("ADA", "again")).code, 68);
  EXPECT_EQ(client("ldapadd", {},
                   "dn: uid=x,ou=none,dc=example,dc=com\nobjectClass: "
                   "account\nuid: x\n\n")
                .code,
            32);
  EXPECT_THAT(search("(&(objectClass=INETORGPERSON)(uid=ADA))").out, HasSubstr("cn: Lovelace\n"));
  EXPECT_THAT(search("(uid=j\\c3\\bcrgen)").out, HasSubstr(std::string(40000, 'A')));
  EXPECT_EQ(search("(|(uid=a*)(uid=*n))").out.find("dn:"), 0u);
  EXPECT_EQ(search("(uid=nobody)").out, "");
  EXPECT_EQ(client("ldapmodify", {},
                   "dn: uid=ada,ou=people,dc=example,dc=com\nchangetype: "
                   "modify\nadd: mail\nmail: ada@example.com\n-\nreplace: "
                   "cn\ncn: Ada\n-\n")
                .code,
            0);
  EXPECT_EQ(
      client("ldapcompare", {"uid=ada,ou=people,dc=example,dc=com", "mail:ADA@example.com"}).code,
      6);
  EXPECT_EQ(client("ldapmodrdn", {"-r", "uid=ada,ou=people,dc=example,dc=com", "uid=augusta"}).code,
            0);
  EXPECT_THAT(search("(mail=ada@example.com)").out,
              HasSubstr("dn: uid=augusta,ou=people,dc=example,dc=com\n"));
  EXPECT_EQ(client("ldapdelete", {"ou=people,dc=example,dc=com"}).code, 66);
  EXPECT_EQ(client("ldapdelete", {"uid=augusta,ou=people,dc=example,dc=com"}).code, 0);
  EXPECT_EQ(search("(mail=*)").out, "");
}

TEST_F(LdapToolTest, WhatLdapaddWasToldSurvivesKillsOfBoth) {
  start_both();
  ASSERT_EQ(client("ldapadd", {}, kFrame).code, 0) << read(path(".err"));
  std::string people;
  for (int i = 0; i < 20000; ++i) people += person("p" + std::to_string(i), std::to_string(i));
  // With -v it tells each acknowledgement ("modify complete"); -c: it does not end before it is cut.
  std::thread killer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    // slapd first: it takes a connection that the server's death ends for a success (docs/LDAP.md).
    ::kill(slapd_, SIGKILL);
    ::kill(server_, SIGKILL);
  });
  const ToolRun cut = client("ldapadd", {"-v"}, people);
  killer.join();
  kill_both();
  EXPECT_NE(cut.code, 0) << "it had come to its end: nothing was cut";
  int acknowledged = 0;
  for (std::size_t at = 0; (at = cut.out.find("modify complete\n", at)) != std::string::npos; ++at)
    ++acknowledged;
  ASSERT_GT(acknowledged, 0) << cut.out << cut.err;
  start_both();
  const ToolRun all = search("(objectClass=inetOrgPerson)");
  EXPECT_EQ(all.code, 0) << all.err;
  int present = 0;
  for (std::size_t at = 0; (at = all.out.find("dn: uid=p", at)) != std::string::npos; ++at)
    ++present;
  EXPECT_GE(present, acknowledged);
  EXPECT_LE(present, acknowledged + 1);
  for (int i = 0; i < acknowledged; ++i)
    ASSERT_THAT(all.out, HasSubstr("\nuid: p" + std::to_string(i) + "\n"));
  std::printf("%d adds acknowledged, %d entries present\n", acknowledged, present);
  kill_both();
  EXPECT_EQ(run({"check", path("ldap.pool")}).code, 0);
}

TEST_F(LdapToolTest, TheDemoLosesNothing) {
  const ToolRun ran = run_lab({"ldap", "demo", path("demo"), "--slapd", tree_, "--entries", "4000",
                           "--kills", "4", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto report = nlohmann::json::parse(ran.out);
  EXPECT_EQ(report["violations"], 0);
  EXPECT_EQ(report["kills_of_both_processes"], 4);
  EXPECT_GE(report["entries_present"], report["entries_acknowledged"]);
  EXPECT_GT(report["entries_acknowledged"], 3900);
  std::printf("%s\n", report.dump().c_str());
}

TEST_F(LdapToolTest, TheServerLeavesOthersAlone) {
  start_both();
  const ToolRun second =
      run({"ldap", "serve", "--pool", path("other.pool"), "--socket", path("sock")});
  EXPECT_EQ(second.code, 3);
  EXPECT_THAT(second.err, HasSubstr("listens there"));
  write(path("precious"), "data");
  const ToolRun file =
      run({"ldap", "serve", "--pool", path("other.pool"), "--socket", path("precious")});
  EXPECT_EQ(file.code, 3);
  EXPECT_EQ(read(path("precious")), "data");
  ::kill(server_, SIGTERM);
  int status = 0;
  ::waitpid(server_, &status, 0);
  server_ = -1;
  EXPECT_EQ(status, 0) << read(path("serve.log"));
  EXPECT_FALSE(std::filesystem::exists(path("sock")));
}

TEST_F(LdapToolTest, LdifIsLoadedAndSearchedWithoutSlapd) {
  write(path("in.ldif"), "version: 1\n# a comment\n  folded\n" + std::string(kFrame) +
                             person("ada", "Lovelace") + person("grace", "Hopper"));
  EXPECT_EQ(run({"ldap", "load", path("in.ldif"), "--pool", path("l.pool")}).code, 0);
  EXPECT_THAT(run({"ldap", "search", "(sn=hop*)", "--pool", path("l.pool")}).out,
              HasSubstr("dn: uid=grace,ou=people,dc=example,dc=com\n"));
  const ToolRun again = run({"ldap", "load", path("in.ldif"), "--pool", path("l.pool")});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("line 4: "));
  EXPECT_EQ(run({"ldap", "search", "(sn=", "--pool", path("l.pool")}).code, 2);
  EXPECT_EQ(run({"check", path("l.pool")}).code, 0);
}

}  // namespace
}  // namespace perdure
