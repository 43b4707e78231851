// SPDX-License-Identifier: BSD-3-Clause
#include "tools/command.h"

namespace perdure::tools {

Option add_size(Command command, const std::string& name, std::uint64_t& value,
                const std::string& what) {
  return command
      .add_option_function<std::string>(
          name, [&value](const std::string& text) { value = parse_bytes(text); }, what)
      .type_name("SIZE")
      .check([](const std::string& text) {
        try {
          (void)parse_bytes(text);
          return std::string();
        } catch (const Exception& error) {
          return std::string(error.what());
        }
      });
}

void add_truncation_option(Command command, Truncation& truncation) {
  add_choice<Truncation>(
      command, "--truncation", truncation,
      {{"auto", Truncation::kAuto},
       {"each-commit", Truncation::kEachCommit},
       {"next-commit", Truncation::kNextCommit},
       {"when-full", Truncation::kWhenFull},
       {"background", Truncation::kBackground}},
      "When logs are emptied: auto, each-commit, next-commit, when-full or background");
}

void add_open_options(Command command, ExpertOptions& options) {
  add_choice<DomainKind>(command, "--domain", options.domain,
                         {{"auto", DomainKind::kAuto},
                          {"adr", DomainKind::kAdr},
                          {"eadr", DomainKind::kEadr},
                          {"sync", DomainKind::kSync},
                          {"dram", DomainKind::kDram}},
                         "Where durability begins: auto, adr, eadr, sync or dram");
  add_truncation_option(command, options.truncation);
  add_count(
      command, "--recovery-target", options.recovery_target.count,
      "Milliseconds that replaying the log after a crash may take; on files the log grows as far")
      .show_default();
}

void add_create_options(Command command, ExpertOptions& options) {
  add_size(command, "--capacity", options.capacity_bytes,
           "Address space; the file starts small and grows up to it")
      .show_default(human_bytes(options.capacity_bytes));
  add_size(command, "--segment", options.segment_bytes, "Unit of growth, a power of two")
      .show_default(human_bytes(options.segment_bytes));
  add_size(command, "--ring", options.ring_bytes,
           "Each thread's log; 0: 256 KiB on memory, up to 4 MiB on files")
      .show_default(human_bytes(options.ring_bytes));
  add_count(command, "--slots", options.log_slots, "Threads that can use the pool at the same time")
      .show_default();
  add_count(command, "--roots", options.root_entries, "Named roots that the pool can hold")
      .show_default();
}

Report describe(const Pool& pool, const std::string& path) {
  return {{"file", path},
          {"domain", domain_name(pool.domain())},
          {"acknowledged_survives", pool.guarantee()}};
}

Report describe(const RecoveryReport& recovery) {
  return {{"records_replayed", recovery.records_replayed},
          {"words_replayed", recovery.words_replayed},
          {"logs_erased", recovery.logs_erased},
          {"last_stamp", recovery.last_stamp},
          {"superblock_damaged", recovery.superblock_damaged},
          {"recovery_ns", recovery.nanoseconds}};
}

}  // namespace perdure::tools
