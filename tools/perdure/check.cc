// SPDX-License-Identifier: BSD-3-Clause
// check: is this pool, address space or arena whole? Works on a private copy in memory; the file is never changed.
#include <map>

#include "perdure/api/pool_core.h"
#include "perdure/checkpoint/arena_inspection.h"
#include "perdure/object/core.h"
#include "tools/command.h"
#include "tools/perdure/arena.h"
#include "tools/perdure/commands.h"
#include "tools/perdure/finding.h"
#include "tools/perdure/mentions.h"
#include "tools/perdure/space.h"
#include "tools/progress.h"
#include "tools/reachability.h"

namespace perdure::tools {
namespace {

struct CheckOptions {
  std::string file;
  std::uint64_t limit = 20;
  bool by_class = false;
  bool json = false;
};

class Check {
 public:
  explicit Check(const CheckOptions& options)
      : options_(&options),
        is_space_(is_space(options.file)),
        file_(is_space_ ? heap_of(options.file) : options.file) {}

  int run() {
    report_ = {{"file", options_->file}, {"sound", true}};
    if (check_frame()) {
      if (check_logs()) is_space_ ? check_space() : check_pool();
      check_pages();
    }
    report_["sound"] = sound();
    report_["findings"] = describe(findings_);
    print(report_, options_->json);
    return sound() ? kDone : kNegative;
  }

 private:
  bool sound() const { return findings_.empty() && leaked_ == 0; }
  /// Superblock, state words, file size. False when the rest cannot be looked at.
  bool check_frame() {
    auto region = Region::open_file(
        file_, DomainKind::kAuto, Region::Access::kInspect,
        {.base = nullptr, .features = is_space_ ? kFeatureAddressSpace : 0, .range_bytes = 0});
    if (region) {
      region_ = std::move(region).value();
      report_["superblock"] = "ok";
      if (const std::string& damage = region_->superblock_damage(); !damage.empty()) {
        report_["superblock"] = "one copy is damaged";
        findings_.push_back(
            from_message("superblock", file_,
                         file_ + ": " + damage +
                             "; the other copy is sound: open the pool once (`perdure recover`), "
                             "which replaces it"));
      }
      return true;
    }
    const Error& error = region.error();
    // What is no pool, or is in use, cannot be judged; what is a pool and does not open is damaged.
    if (error.code != Code::kCorrupt && error.code != Code::kTruncated) throw Exception(error);
    findings_.push_back(from_message("superblock", file_, error.message));
    report_["not_checked"] = "logs, heap and roots: the superblock does not tell where they are";
    return false;
  }

  void check_pages() {
    Progress progress("comparing pages", 0);
    const PageSumsReport pages =
        region_->check_sums([&](std::uint64_t done, std::uint64_t) { progress.show(done); })
            .value();
    report_["pages_compared"] = pages.pages;
    report_["areas_without_sums"] = pages.areas - pages.areas_at_rest;
    for (Finding& finding : findings_of(pages)) findings_.push_back(std::move(finding));
  }

  bool check_logs() {
    LogArea logs(*region_);
    std::uint64_t last_timestamp = 0;
    const auto opened = logs.open();
    auto records = opened ? logs.collect(last_timestamp) : opened.error();
    if (records) {
      report_["logs"] = logs.slot_count();
      report_["records_to_recover"] = records->size();
      return true;
    }
    findings_.push_back(from_message("logs", options_->file, records.error().message));
    report_["not_checked"] = "heap and roots: without its logs the pool has no consistent state";
    return false;
  }

  /// Heap metadata and reachability, in the state that recovery would leave.
  void check_pool() {
    std::vector<std::string> damage;
    Pool pool = inspect_pool(options_->file, &damage).value();
    check_objects(pool, damage, [&] { return find_unmentioned(pool); });
  }

  /// The same, and the files of regions and static variables.
  void check_space() {
    std::vector<std::string> damage;
    auto opened = AddressSpace::inspect(options_->file, &damage);
    if (!opened) {
      findings_.push_back(from_message("regions", file_, opened.error().message));
      report_["not_checked"] = "heap and roots: they need every region";
      return;
    }
    AddressSpace& space = *opened.value();
    report_["regions"] = space.regions().size();
    // An address may lead from anything to anything here: what a type says of itself is not enough.
    every_type_is_opaque_ = true;
    check_objects(space.pool(), damage, [&] {
      Unmentioned lost = find_unmentioned(space);
      for (const RegionEntry& region : lost.regions)
        findings_.push_back({"regions", -1,
                             std::to_string(region.file) + ".region: nothing refers to it",
                             "punmap it, if the program does not know its address by itself"});
      return lost;
    });
  }

  template <class FindUnmentioned>
  void check_objects(Pool& pool, std::vector<std::string>& damage,
                     FindUnmentioned find_unmentioned) {
    for (std::string& message : damage) {
      Finding finding = from_message("heap", file_, std::move(message));
      if (finding.what.starts_with("root")) finding.part = "roots";
      findings_.push_back(std::move(finding));
    }
    Reachability found = trace(pool);
    report_["objects"] = found.objects;
    report_["objects_reached"] = found.reached;
    report_["opaque_roots"] = found.opaque;
    for (const std::string& what : found.damage)
      findings_.push_back(from_message("roots", file_, what));
    // Objects that damaged metadata hides or invents are no leaks.
    if (!damage.empty() || !found.damage.empty()) return;
    const bool by_words = every_type_is_opaque_ || !found.opaque.empty();
    if (by_words) found.leaked = find_unmentioned().objects;
    report_["leaks_told_by"] = by_words ? "words that could be addresses or links" : "types";
    leaked_ = found.leaked.size();
    report_["leaked_objects"] = leaked_;
    const char* remedy = "`perdure compact` makes a copy without it";
    if (!by_words && has_objects(pool)) remedy = "`perdure reclaim` frees it";
    if (options_->by_class) report_["leaked_by_class"] = by_class(pool, found.leaked);
    std::uint64_t listed = 0;
    for (const Reachability::Object& object : found.leaked) {
      if (++listed > options_->limit) break;
      findings_.push_back({"heap", static_cast<std::int64_t>(object.offset),
                           "an object of " + std::to_string(object.bytes) +
                               " bytes is allocated, but nothing refers to it",
                           remedy});
    }
  }

  static bool has_objects(Pool& pool) {
    return pool.find_root<object_layout::Control>(object_layout::kControlRoot) != nullptr;
  }
  /// Of a heap of objects: how many of each class.
  static Report by_class(Pool& pool, const std::vector<Reachability::Object>& leaked) {
    std::map<std::string, std::uint64_t> counts;
    if (has_objects(pool)) {
      pool.read_only([&](Tx& tx) {
        using namespace object_layout;
        const auto types =
            detail::recorded_types(pool, tx, *pool.find_root<Control>(kControlRoot), nullptr);
        for (const Reachability::Object& object : leaked) {
          if (object.bytes == sizeof(Proxy)) continue;
          const Word state = tx.load(core_of(pool).region().at<Header>(object.offset)->state);
          const std::uint16_t number = type_of(state);
          ++counts[number == 0 || number > types.size() ? "?" : types[number - 1].name];
        }
      });
    }
    Report report = Report::array();
    for (const auto& [name, count] : counts)
      report.push_back({{"class", name}, {"objects", count}});
    return report;
  }

  const CheckOptions* options_;
  bool is_space_;
  std::string file_;  // of the heap
  bool every_type_is_opaque_ = false;
  std::unique_ptr<Region> region_;
  std::vector<Finding> findings_;
  std::size_t leaked_ = 0;
  Report report_;
};

}  // namespace

void add_check_command(Command app) {
  auto options = std::make_shared<CheckOptions>();
  Command command = app.add_subcommand(
      "check", "Verify superblock, tables, logs, heap and reachability, and report leaks");
  command
      .add_option("FILE", options->file,
                  "The pool, the arena, or the directory of an address space")
      .required();
  add_count(command, "--limit", options->limit, "Leaked objects to list").show_default();
  command.add_flag("--leaks", options->by_class,
                   "Also tell how many objects of each class leaked, in a heap of objects");
  add_json_flag(command, options->json);
  command.callback([options] {
    int code = kDone;
    if (checkpoint::is_arena(options->file)) {
      const Report report = check_arena(options->file);
      print(report, options->json);
      code = report["sound"].get<bool>() ? kDone : kNegative;
    } else {
      code = Check(*options).run();
    }
    if (code != kDone) leave_with(code);
  });
  command.footer(
      "Each finding says what is wrong, at which byte, and what can be done. The file is never "
      "changed.\n"
      "An arena has no types: of what is in it, the tables of the heap and the roots are checked.\n"
      "Exit codes: 0 whole; 1 damage or a leak found; 3 neither pool nor arena, in use, or not "
      "readable.");
}

}  // namespace perdure::tools
