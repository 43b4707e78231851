// SPDX-License-Identifier: BSD-3-Clause
// The programs that `perdure run` is measured with: ordinary ones, and three that do nothing but write. Inputs are made here.
#pragma once

#include <string>
#include <vector>

namespace perdure::bench::thynvm {

struct CarriedProgram {
  std::string name{};
  std::string what{};     // for readers
  std::string version{};  // of its package; "perdure" for those of ours
  std::vector<std::string> command{};
  std::vector<std::string> environment{};  // NAME=value
  // Of a server: what is timed instead of it, when it listens on the socket. Else empty.
  std::vector<std::string> client{};
  std::string socket{};
};

struct CarriedPrograms {
  std::vector<CarriedProgram> all;
  std::string missing;  // which are not installed, in words; else empty
};

/// Writes their inputs into the directory, which must exist. `work`: how much they do; at 1 most take two to four seconds.
/// Errors: Exception: kIo; kNotFound when this build has no guests.
CarriedPrograms carried_programs(const std::string& directory, double work);

/// `perdure_guest_steady`: a load that is said in time; papers/thynvm/evaluation/guest/steady.cc. Errors: as above.
CarriedProgram steady_program(std::uint64_t mib, unsigned threads, std::uint64_t kib_each_10ms,
                              double seconds, const std::string& life = "");

}  // namespace perdure::bench::thynvm
