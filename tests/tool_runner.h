// SPDX-License-Identifier: BSD-3-Clause
// Runs `perdure` or `perdure-lab` (of the folder that the environment variable PERDURE_BIN names) as a user would, in a fresh
// directory.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace perdure {

struct ToolRun {
  int code;  // -1 when a signal ended it
  std::string out;
  std::string err;
};

class ToolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PERDURE_BIN");
    ASSERT_NE(folder, nullptr) << "PERDURE_BIN must name the folder of the commands";
    tool_ = std::string(folder) + "/perdure";
    lab_ = std::string(folder) + "/perdure-lab";
    // Not named by the process: its number may be that of one that was killed and left its files.
    std::string fresh =
        (std::filesystem::temp_directory_path() / "perdure-tool-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(fresh.data()), nullptr) << std::strerror(errno);
    directory_ = fresh;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  static std::string quoted(const std::string& argument) {
    std::string text = "'";
    for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  }

  ToolRun run(const std::vector<std::string>& arguments, const std::string& input = "") const {
    return run_with(tool_, arguments, input);
  }
  ToolRun run_lab(const std::vector<std::string>& arguments) const {
    return run_with(lab_, arguments, "");
  }
  ToolRun run_with(const std::string& tool, const std::vector<std::string>& arguments,
                   const std::string& input) const {
    write(path(".in"), input);
    std::string command = quoted(tool);
    for (const std::string& argument : arguments) command += " " + quoted(argument);
    command +=
        " <" + quoted(path(".in")) + " >" + quoted(path(".out")) + " 2>" + quoted(path(".err"));
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(path(".out")), read(path(".err"))};
  }

  static std::string read(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return std::move(text).str();
  }
  static void write(const std::string& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }
  static void overwrite(const std::string& file, std::uint64_t offset, const std::string& bytes) {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream << bytes;
  }

  std::string tool_;
  std::string lab_;
  std::filesystem::path directory_;
};

/// Its run() runs `perdure-lab`.
class LabTest : public ToolTest {
 protected:
  ToolRun run(const std::vector<std::string>& arguments, const std::string& input = "") const {
    return run_with(lab_, arguments, input);
  }
};

}  // namespace perdure
