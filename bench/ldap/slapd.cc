// SPDX-License-Identifier: BSD-3-Clause
#include "bench/ldap/slapd.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "perdure/error.h"
#include "tools/parts.h"

namespace perdure::ldap {
namespace fs = std::filesystem;

SlapdFiles find_slapd(const std::string& tree) {
  if (tree.empty() && ::access("/usr/sbin/slapd", X_OK) == 0 &&
      fs::exists("/usr/lib/ldap/back_sock.so"))
    return {"/usr/sbin/slapd", "/usr/lib/ldap", "/etc/ldap/schema", ""};
  const fs::path root = fs::absolute(tree.empty() ? "build/slapd" : tree).lexically_normal();
  tools::unpack_package("slapd", root, "usr/sbin/slapd");
  SlapdFiles files{root / "usr/sbin/slapd", root / "usr/lib/ldap", root / "etc/ldap/schema", ""};
  for (const fs::directory_entry& each : fs::directory_iterator(root / "usr/lib")) {
    // libslapi lies in the directory of the architecture.
    if (each.is_directory() && each.path().filename().string().find("-linux-") != std::string::npos)
      files.libraries = each.path();
  }
  return files;
}

namespace {

std::string ldapi(const std::string& path) {
  std::string uri = "ldapi://";
  for (const char c : path) uri += c == '/' ? std::string("%2F") : std::string(1, c);
  return uri;
}

/// What it takes to run a slapd in the foreground.
struct Launch {
  std::string socket;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
};

/// Writes the configuration.
Launch prepare(const SlapdFiles& files, const std::string& directory, const std::string& name,
               const std::string& module, const std::string& database,
               const std::string& more = "") {
  const std::string base = directory + "/" + name;
  std::ofstream conf(base + ".conf");
  for (const char* schema : {"core", "cosine", "inetorgperson", "nis"})
    conf << "include " << files.schema << "/" << schema << ".schema\n";
  conf << "moduleload " << files.modules << "/" << module << ".so\n"
       << "loglevel none\nsizelimit unlimited\n"
       << database << "suffix \"" << kSuffix << "\"\nrootdn \"" << kAdmin
       << "\"\nlastmod off\nrootpw " << kAdminPassword << "\n"
       << more;
  conf.close();
  if (!conf) throw Exception(Code::kIo, base + ".conf: cannot be written");
  const std::string socket = base + ".ldapi";
  fs::remove(socket);
  Launch launch{socket, {files.program, "-h", ldapi(socket), "-f", base + ".conf", "-d", "0"}, {}};
  if (!files.libraries.empty()) launch.environment.push_back("LD_LIBRARY_PATH=" + files.libraries);
  return launch;
}

Process start(const Launch& launch, const std::string& log) {
  Process process(launch.arguments, log, launch.environment);
  tools::wait_until_listening(process, launch.socket, log);
  return process;
}

}  // namespace

Slapd::Slapd(const SlapdFiles& files, const std::string& directory, const std::string& name,
             const std::string& module, const std::string& database, const std::string& more)
    : uri_(ldapi(directory + "/" + name + ".ldapi")),
      process_(start(prepare(files, directory, name, module, database, more),
                     directory + "/" + name + ".log")) {}

bench::LdapLoad Slapd::load() const {
  bench::LdapLoad load;
  load.uri = uri_;
  load.suffix = kSuffix;
  load.admin = kAdmin;
  load.password = kAdminPassword;
  return load;
}

void become_slapd(const SlapdFiles& files, const std::string& directory,
                  const std::string& database) {
  const Launch launch = prepare(files, directory, "slapd", "back_sock", database);
  tools::become(launch.arguments, launch.environment);
}

std::string slapd_uri(const std::string& directory) { return ldapi(directory + "/slapd.ldapi"); }

std::string sock_database(const std::string& socket) {
  return "database sock\nsocketpath " + socket + "\n";
}

std::string mdb_database(const std::string& directory) {
  return "database mdb\nmaxsize 17179869184\ndirectory " + directory +
         "\nindex objectClass,uid,cn,sn,mail,member,memberUid eq\n";
}

Process start_server(const std::string& pool, const std::string& socket, const std::string& log,
                     const std::vector<std::string>& options) {
  std::vector<std::string> arguments{
      tools::find_part("perdure"), "ldap", "serve", "--pool", pool, "--socket", socket};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const std::string secret = log + ".password";
  std::ofstream(secret) << kAdminPassword << "\n";
  fs::permissions(secret, fs::perms::owner_read | fs::perms::owner_write);
  arguments.insert(arguments.end(), {"--admin", kAdmin, "--password-file", secret});
  Process process(arguments, log);
  tools::wait_until_listening(process, socket, log);
  return process;
}

}  // namespace perdure::ldap
