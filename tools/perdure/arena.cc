// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perdure/arena.h"

#include <sys/stat.h>

#include <cstring>

#include <fmt/core.h>

#include "perdure/checkpoint/arena_inspection.h"
#include "tools/perdure/finding.h"

namespace perdure::tools {

using checkpoint::ArenaHeap;
using checkpoint::ArenaInspection;

namespace {

/// What both commands say: which epochs there are.
void describe_epochs(const ArenaInspection& arena, Report& report) {
  report["epoch"] = arena.epoch();
  report["epoch_at_home"] = arena.home_epoch();
  report["epochs_to_bring_home"] = arena.epoch() - arena.home_epoch();
  report["log_to_bring_home_bytes"] = arena.log_bytes();
  report["behind_the_last_epoch"] =
      arena.unfinished() ? "a part of one that was not committed; opening drops it" : "nothing";
}

Report describe_roots(const ArenaHeap& heap, const checkpoint::ArenaSuperblock& super) {
  Report roots = Report::array();
  for (const ArenaHeap::Root& root : heap.roots()) {
    if (root.address == 0) continue;
    roots.push_back({{"root", std::string(root.name, ::strnlen(root.name, sizeof(root.name)))},
                     {"type", fmt::format("{:016x}", root.type)},
                     {"address", fmt::format("{:#x}", root.address)},
                     {"at_byte", super.home_offset + (root.address - super.address)}});
  }
  return roots;
}

}  // namespace

Report check_arena(const std::string& file) {
  const ArenaInspection arena = ArenaInspection::of(file).value();
  Report report = {{"file", file}, {"kind", "arena"}, {"sound", arena.findings().empty()}};
  if (arena.superblock() != nullptr) report["superblock"] = "ok";
  if (arena.has_image()) describe_epochs(arena, report);
  if (arena.superblock() == nullptr) {
    report["not_checked"] = "log, heap and roots: the superblock does not tell where they are";
  } else if (!arena.has_image()) {
    report["not_checked"] = "heap and roots: without its log the arena has no consistent image";
  } else if (arena.heap() != nullptr) {
    report["objects"] = arena.heap()->count_objects();
    report["roots"] = describe_roots(*arena.heap(), *arena.superblock()).size();
  }
  std::vector<Finding> findings;
  for (const auto& [part, message] : arena.findings()) {
    findings.push_back(from_message(part, file, message));
    findings.back().remedy +=
        "; or copy the newest epoch that can be proved with `perdure salvage`";
  }
  report["findings"] = describe(findings);
  return report;
}

Report describe_arena(const std::string& file) {
  const ArenaInspection arena = ArenaInspection::of(file).value();
  const auto* const super = arena.superblock();
  if (super == nullptr) throw Exception(Code::kCorrupt, arena.findings().front().message);
  struct stat status{};
  ::stat(file.c_str(), &status);
  Report report = {
      {"file", file},
      {"kind", "arena"},
      {"format_version", super->version},
      {"addresses",
       fmt::format("{:#x} to {:#x}", super->address, super->address + super->capacity_bytes)},
      {"capacity_bytes", super->capacity_bytes},
      {"log_segment_bytes", super->segment_bytes},
      {"on_disk_bytes", static_cast<std::uint64_t>(status.st_blocks) * 512},
      {"damage_found", !arena.findings().empty()},
  };
  if (arena.has_image()) describe_epochs(arena, report);
  if (const ArenaHeap* heap = arena.heap()) {
    report["objects"] = heap->count_objects();
    report["taken_by_objects_bytes"] = heap->used_bytes();
    report["roots"] = describe_roots(*heap, *super);
  }
  return report;
}

}  // namespace perdure::tools
