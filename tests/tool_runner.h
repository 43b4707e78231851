// SPDX-License-Identifier: BSD-3-Clause
// Runs `perdure` (which the environment variable PERDURE_TOOL names) or `perdure-lab` (PERDURE_LAB) as a user would, in a fresh
// directory.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
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
    const char* tool = std::getenv(tool_variable());
    ASSERT_NE(tool, nullptr) << tool_variable() << " must name the command";
    tool_ = tool;
    directory_ = std::filesystem::temp_directory_path() /
                 ("perdure-tool-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  virtual const char* tool_variable() const { return "PERDURE_TOOL"; }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  static std::string quoted(const std::string& argument) {
    std::string text = "'";
    for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  }

  ToolRun run(const std::vector<std::string>& arguments, const std::string& input = "") const {
    return run_with(tool_, arguments, input);
  }
  ToolRun run_with(const std::string& tool, const std::vector<std::string>& arguments,
                   const std::string& input = "") const {
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
  std::filesystem::path directory_;
};

class LabTest : public ToolTest {
 protected:
  const char* tool_variable() const override { return "PERDURE_LAB"; }
};

}  // namespace perdure
