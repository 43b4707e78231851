// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab ldap`: our directory behind a real slapd, killed, and beside slapd's own database.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/pcm_disk.h"
#include "measure/ram_disk.h"
#include "tools/command_line.h"

namespace perdure::ldap {

/// Adds the command with those below.
void add_ldap_lab_commands(tools::Command app);
/// `ldap demo`: a real slapd and a server of ours, killed while being filled.
void add_demo_command(tools::Command ldap);
/// `ldap bench`: the same beside slapd's own database.
void add_bench_command(tools::Command ldap);

/// Synced adds a second, turn by turn, of our server and of slapd's back-mdb behind the same slapd.
struct AddRates {
  std::vector<double> ours;
  std::vector<double> back_mdb;
};
/// Adds `entries` to each, on a file system in `dir`. Errors: throws Exception kNotFound (no slapd to be had), kInvalid
/// (`dir` is in memory), kIo.
AddRates measure_adds(const std::string& dir, std::uint64_t entries, unsigned clients);

/// The same with all of it in emulated memory: our pool as memory, slapd's database in files on it
/// as a device. None of them waits for the emulated memory while it runs; the time of the turn is
/// lengthened afterwards by what it would have taken, one after the other.
struct AddRatesInMemory {
  std::vector<double> ours;
  std::vector<double> back_mdb;             // each add synced
  std::vector<double> back_mdb_not_synced;  // now and then, without a transaction's promise
  // Of each add: what the time was lengthened by.
  double ours_us = 0;
  double back_mdb_us = 0;
  double back_mdb_not_synced_us = 0;
};
/// `dir` is in memory. Errors: throws Exception kNotFound (no slapd to be had), kIo.
AddRatesInMemory measure_adds_in_memory(const std::string& dir,
                                        const bench::reproduce::RamDisk& device,
                                        const bench::reproduce::EmulatedMemory& memory,
                                        std::uint64_t entries, unsigned clients);

}  // namespace perdure::ldap
