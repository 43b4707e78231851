// SPDX-License-Identifier: BSD-3-Clause
// What `perdure-lab mutants` damages: small files of every kind that the project writes, and programs that use them.
#pragma once

#include <span>
#include <string>

namespace perdure::tools {

struct Subject {
  const char* name;
  const char* about;  // null: only if it is asked for
  /// Makes the file. It is called in a process that ends right after it, so what it leaves open was killed.
  void (*make)(const std::string& path);
  /// Opens the file and uses all of it, as a program would, and changes it. False: something else than what was made was
  /// shown as if it were that. Throws: std::exception, a refusal.
  bool (*use)(const std::string& path);
  /// Whether the checks of `perdure check` find it whole. Throws: std::exception, that they could not look at it.
  bool (*check)(const std::string& path);
};

std::span<const Subject> mutant_subjects();

}  // namespace perdure::tools
