// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/programs.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <vector>

#include "perdure/error.h"
#include "papers/thynvm/memory/inputs.h"
#include "tools/parts.h"

namespace perdure::memory {
namespace {

constexpr MeasuredProgram kPrograms[] = {
    {"gcc", "403.gcc", "cc1plus -O2 of most headers of the standard library", "g++-12",
     "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", 0},
    {"bwaves", "410.bwaves", "own kernel: conjugate gradients on 5x5 blocks, 36^3 cells", "",
     "perdure_guest_blocks", 0},
    {"milc", "433.milc", "own kernel: SU(3) matrices on a lattice of 18^4 sites", "",
     "perdure_guest_su3", 0},
    {"leslie3d", "437.leslie3d", "own kernel: transport of five fields on 100^3 cells", "",
     "perdure_guest_stencil", 0},
    {"soplex", "450.soplex", "glpsol (simplex) of 8,000 rows and 16,000 columns", "glpk-utils",
     "/usr/bin/glpsol", 200'000'000},
    {"GemsFDTD", "459.GemsFDTD", "own kernel: Maxwell's equations on 110^3 cells", "",
     "perdure_guest_fdtd", 0},
    {"lbm", "470.lbm", "own kernel: lattice Boltzmann (D3Q19) on 80^3 cells", "",
     "perdure_guest_lbm", 0},
    {"omnetpp", "471.omnetpp", "own simulation of events: 20,000 nodes, 100,000 frames", "",
     "perdure_guest_events", 0},
    {"bzip2", "401.bzip2", "bzip2 of 20 MB of text", "bzip2", "/usr/bin/bzip2", 100'000'000},
    {"perlbench", "400.perlbench", "perl counting pairs of words of 4 MB of text", "perl-base",
     "/usr/bin/perl", 50'000'000},
    {"xalancbmk", "483.xalancbmk", "xalan: 20,000 entries sorted and tabulated by a stylesheet",
     "xalan", "/usr/bin/xalan", 50'000'000},
    {"povray", "453.povray", "povray: 2,000 reflecting spheres", "povray", "/usr/bin/povray",
     100'000'000},
    {"sqlite", "",
     "sqlite3, in memory: 200,000 rows with an index, replaced and joined in random order",
     "sqlite3", "/usr/bin/sqlite3", 2'050'000'000},
    {"python", "", "python3: a dictionary of 400,000 objects, sorted and walked",
     "python3.11-minimal", "/usr/bin/python3.11", 100'000'000},
};

constexpr std::size_t kMegabyte = 1 << 20;

}  // namespace

std::span<const MeasuredProgram> measured_programs() { return kPrograms; }

const MeasuredProgram& measured_program(std::string_view name) {
  std::string names;
  for (const MeasuredProgram& each : kPrograms) {
    if (each.name == name) return each;
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  throw Exception(Code::kInvalid, std::string(name) + ": no such program; there are " + names);
}

std::string version_of(const MeasuredProgram& program) {
  if (program.package.empty()) return "perdure";
  const std::string package(program.package);
  const std::string command =
      "dpkg-query --show --showformat='${Package} ${Version}' " + package + " 2>/dev/null";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::string version(200, '\0');
  if (pipe != nullptr) version.resize(std::fread(version.data(), 1, version.size(), pipe));
  if (pipe == nullptr || ::pclose(pipe) != 0 || version.back() == ' ')
    throw Exception(Code::kNotFound, package + ": install this package");
  return version;
}

Launch prepare(const MeasuredProgram& program, const std::string& directory) {
  const auto write = [&](const std::string& name, const std::string& content) {
    std::ofstream file(directory + "/" + name, std::ios::binary | std::ios::trunc);
    if (!(file << content).flush())
      throw Exception(Code::kIo, directory + "/" + name + ": cannot be written");
  };
  Launch launch;
  launch.directory = directory;
  if (program.package.empty()) {
    launch.program = tools::find_part(std::string(program.path));
    launch.skip_to_mark = true;
    return launch;
  }
  launch.program = program.path;
  launch.skip = program.skip;
  if (::access(launch.program.c_str(), X_OK) != 0)
    throw Exception(Code::kNotFound, launch.program + ": not there; install the package " +
                                         std::string(program.package));
  if (program.name == "gcc") {
    write("input.cc", cplusplus_input());
    launch.arguments = {"-quiet",          "-O2", "-std=c++20", "-imultiarch", "x86_64-linux-gnu",
                        "-frandom-seed=1", "-o",  "/dev/null",  "input.cc"};
  } else if (program.name == "soplex") {
    write("input.lp", linear_program_input(8'000, 16'000));
    launch.arguments = {"--lp", "input.lp", "--nopresol"};
  } else if (program.name == "bzip2") {
    write("input.txt", text_input(20 * kMegabyte));
    launch.arguments = {"--keep", "--stdout", "input.txt"};
  } else if (program.name == "perlbench") {
    write("input.txt", text_input(4 * kMegabyte));
    write("input.pl", perl_input());
    launch.arguments = {"input.pl", "input.txt"};
    launch.environment = {"PERL_HASH_SEED=0", "PERL_PERTURB_KEYS=0"};
  } else if (program.name == "xalancbmk") {
    write("input.xml", xml_input(20'000));
    write("input.xsl", stylesheet_input());
    launch.arguments = {"-in", "input.xml", "-xsl", "input.xsl"};
  } else if (program.name == "povray") {
    write("input.pov", scene_input(2'000));
    launch.arguments = {"+Iinput.pov", "-O-", "+W640", "+H480", "+WT1", "-D", "-GA"};
  } else if (program.name == "sqlite") {
    write("input.sql", sql_input(200'000));
    launch.input = directory + "/input.sql";
    launch.arguments = {"-batch", ":memory:"};
  } else if (program.name == "python") {
    write("input.py", python_input(400'000));
    launch.arguments = {"-S", "-s", "-B", "input.py"};
    launch.environment = {"PYTHONHASHSEED=0"};
  }
  return launch;
}

}  // namespace perdure::memory
