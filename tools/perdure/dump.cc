// SPDX-License-Identifier: BSD-3-Clause
// dump: the bytes of a pool, named. For those who debug a format or a crash; docs/FORMAT.md
// explains every field.
#include <algorithm>

#include <fmt/format.h>

#include "perdure/api/pool_core.h"
#include "tools/command.h"
#include "tools/perdure/commands.h"

namespace perdure::tools {
namespace {

struct DumpOptions {
  std::string file;
  std::uint64_t limit = 20;
  bool json = false;
};

std::string hex(Word word) { return fmt::format("{:#018x}", word); }

Report dump_superblock(const Superblock& super) {
  return {{"version", super.version},
          {"compatible_features", hex(super.compatible)},
          {"read_only_compatible_features", hex(super.read_only_compatible)},
          {"incompatible_features", hex(super.incompatible)},
          {"generation", super.generation},
          {"uuid", fmt::format("{:02x}", fmt::join(super.uuid, ""))},
          {"crc", fmt::format("{:#010x}", super.crc)}};
}

Report dump_geometry(const Geometry& geometry) {
  return {{"capacity_bytes", geometry.capacity_bytes},
          {"segment_bytes", geometry.segment_bytes},
          {"ring_bytes", geometry.ring_bytes},
          {"log_slots", geometry.log_slots},
          {"root_entries", geometry.root_entries}};
}

Report dump_sections(const Region& region) {
  const Superblock& super = region.superblock();
  Report rows = Report::array();
  const auto add = [&](const char* name, const Section& section) {
    rows.push_back(
        {{"section", name}, {"from_byte", section.begin}, {"size_bytes", section.bytes}});
  };
  add("superblock", {0, sizeof(Superblock)});
  add("state", {kStateOffset, sizeof(StatePage)});
  if (super.version >= kTwoSuperblocksSinceVersion)
    add("superblock, copy", {kSecondSuperblockOffset, sizeof(Superblock)});
  add("roots", roots_of(super));
  add("log heads", heads_of(super));
  add("segment table", segment_table_of(super));
  add("rings", rings_of(super));
  if (super.version >= kPageSumsSinceVersion) add("page sums", page_sums_of(super));
  add("heap", {super.heap_offset, region.grown_bytes() - super.heap_offset});
  return rows;
}

Report dump_word(const char* name, Word word, std::uint16_t salt) {
  const auto payload = unseal(word, salt);
  return {{"word", name},
          {"raw", hex(word)},
          {"value", payload ? Report(*payload) : Report("fails its check")}};
}

Report dump_roots(const Region& region) {
  Report rows = Report::array();
  for (std::uint32_t i = 0; i < region.geometry().root_entries; ++i) {
    const RootEntry& root = region.at<RootEntry>(region.superblock().root_offset)[i];
    if (root.name[0] == '\0') continue;
    const std::string name(root.name.data(), ::strnlen(root.name.data(), root.name.size()));
    rows.push_back({{"entry", i},
                    {"root", name},
                    {"type", hex(root.type)},
                    {"at_byte", root.object},
                    {"size_bytes", root.bytes}});
  }
  return rows;
}

Report dump_log_heads(LogArea& logs) {
  Report rows = Report::array();
  for (std::size_t i = 0; i < logs.slot_count(); ++i) {
    const RingLog& log = *logs.slot(i).log;
    if (log.head() == 0 && load_word(log.ring().words) == 0) continue;  // no thread ever used it
    rows.push_back({{"log", i},
                    {"layout", logs.slot(i).log.lines() != nullptr ? "lines" : "torn bits"},
                    {"head_word", log.head()},
                    {"lap", log.head() / log.ring().count}});
  }
  return rows;
}

Report dump_record(const LogArea::Record& record) {
  std::uint64_t words = 0;
  Offset lowest = ~Offset{0};
  Offset highest = 0;
  record::for_each(
      record.entries,
      [&](const MaskedWrite& write) {
        ++words;
        lowest = std::min(lowest, write.offset);
        highest = std::max(highest, write.offset);
        return true;
      },
      [](Offset, Word, Word) { return false; });
  return {{"stamp", record.timestamp},
          {"words", words},
          {"lowest_byte", words == 0 ? 0 : lowest},
          {"highest_byte", highest}};
}

void dump(const DumpOptions& options) {
  Report report;
  {
    // The bytes as they lie in the file, before recovery.
    auto region =
        Region::open_file(options.file, DomainKind::kAuto, Region::Access::kInspect).value();
    report["file"] = options.file;
    report["domain"] = domain_name(region->domain());
    report["superblock"] = dump_superblock(region->superblock());
    report["geometry"] = dump_geometry(region->geometry());
    report["sections"] = dump_sections(*region);
    report["state"] = {
        dump_word("grown_bytes", region->state()->grown_bytes.word, kSaltGrown),
        dump_word("retired_stamp", region->state()->retired_stamp.word, kSaltRetired)};
    report["roots"] = dump_roots(*region);
    LogArea logs(*region);
    logs.open().value();
    report["logs_in_use"] = dump_log_heads(logs);
    std::uint64_t last_timestamp = 0;
    const auto records = logs.collect(last_timestamp).value();
    report["last_stamp"] = last_timestamp;
    report["records_waiting"] = records.size();
    report["records"] = Report::array();
    for (std::size_t i = 0; i < std::min<std::size_t>(records.size(), options.limit); ++i) {
      report["records"].push_back(dump_record(records[i]));
    }
  }
  std::vector<std::string> findings;
  Pool pool = inspect_pool(options.file, &findings).value();
  const Heap::Usage usage = core_of(pool).heap().usage();
  report["heap_after_recovery"] = {{"objects", usage.objects},
                                   {"taken_by_objects_bytes", usage.object_bytes},
                                   {"segments", usage.segments},
                                   {"free_blocks", usage.free_blocks},
                                   {"damaged_words", findings.size()}};
  print(report, options.json);
}

}  // namespace

void add_dump_command(Command app) {
  auto options = std::make_shared<DumpOptions>();
  Command command =
      app.add_subcommand("dump", "Show superblock, tables, state words, logs and heap of a pool");
  command.add_option("FILE", options->file, "The pool").required();
  command.add_option("--limit", options->limit, "Log records to show").show_default();
  add_json_flag(command, options->json);
  command.callback([options] { dump(*options); });
  command.footer("Shows the file as it lies there, before recovery; changes nothing.");
}

}  // namespace perdure::tools
