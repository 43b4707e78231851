// SPDX-License-Identifier: BSD-3-Clause
// What the tests stand on: pools in memory (tests/image.h), and a directory for files that goes
// away by itself.
#pragma once

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/image.h"

namespace perdure::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

/// A directory of its own, removed with all it holds.
class TempDir {
 public:
  explicit TempDir(const std::string& parent = ::testing::TempDir())
      : path_(parent + "perdure-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr)
      throw Exception(Code::kIo, path_ + ": no temporary directory");
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string contents_of(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(all).str();
}

/// As a test may be named.
inline std::string name_of(EngineKind engine) {
  std::string name(engine_name(engine));
  std::erase(name, '-');
  return name;
}

/// What a case of a test over kBackground and kWhenFull is called.
inline std::string truncation_case(const ::testing::TestParamInfo<Truncation>& of) {
  return of.param == Truncation::kBackground ? "Background" : "WhenFull";
}

/// The code of the perdure::Exception that `body` throws, as text; "nothing" when it throws none.
template <class Body>
std::string code_thrown_by(Body&& body) {
  try {
    body();
  } catch (const Exception& exception) {
    return std::string(code_name(exception.code()));
  }
  return "nothing";
}

/// Runs `body` in a forked child; its exit status, or 1000 and the signal that ended it. A child that hangs is ended by
/// SIGALRM.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace perdure::testing
