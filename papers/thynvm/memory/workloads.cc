// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/workloads.h"

#include <algorithm>
#include <filesystem>

#include "papers/thynvm/memory/generators.h"
#include "papers/thynvm/memory/programs.h"
#include "papers/thynvm/memory/trace_file.h"
#include "perdure/error.h"
#include "tools/parts.h"

namespace perdure::memory {
namespace {

Workload emulated(std::string name, std::string what, const Launch& launch,
                  std::shared_ptr<void> keeps) {
  auto program = std::make_unique<EmulatedProgram>(launch);
  const EmulatedProgram* const seen = program.get();
  return {std::move(name), std::move(what), std::move(program), seen, std::move(keeps)};
}

// A folder for inputs, gone with its last user.
std::shared_ptr<std::string> make_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "perdure-sim-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw Exception(Code::kIo, path + ": cannot be created");
  return {new std::string(path), [](std::string* folder) {
            std::error_code ignored;
            std::filesystem::remove_all(*folder, ignored);
            delete folder;
          }};
}

Workload make_store(const std::string& name, const WorkloadOptions& options) {
  Launch launch;
  launch.program = tools::find_part("perdure_guest_kv");
  launch.arguments = {name,
                      "--value",
                      std::to_string(options.value_bytes),
                      "--operations",
                      std::to_string(options.operations),
                      "--seed",
                      std::to_string(options.seed),
                      "--end-epoch",
                      std::to_string(options.end_epoch)};
  launch.skip_to_mark = true;
  launch.plugin = options.plugin;
  const std::string what = (name == "hash" ? "perdure::hash_map" : "perdure::rb_map") +
                           std::string(", values of ") + std::to_string(options.value_bytes) +
                           " bytes, " + std::to_string(options.operations) + " operations";
  return emulated(name, what, launch, nullptr);
}

constexpr std::string_view kCompiled = "-compiled";
constexpr const char* kCompiledPatterns[] = {"random", "streaming", "sliding", "sweeping"};

Workload make_compiled(const std::string& pattern, const WorkloadOptions& options) {
  Launch launch;
  launch.program = tools::find_part("perdure_guest_micro");
  launch.arguments = {pattern, std::to_string(options.factor), std::to_string(options.seed)};
  launch.skip_to_mark = true;
  launch.plugin = options.plugin;
  return emulated(pattern + std::string(kCompiled),
                  pattern + ", a compiled program, " + std::to_string(options.factor) +
                      " times the smallest size",
                  launch, nullptr);
}

}  // namespace

std::vector<WorkloadName> workload_names() {
  std::vector<WorkloadName> names = {
      {"random", "reads and writes random blocks of windows of 16 MB (--factor)"},
      {"streaming", "writes a large array once, reading random blocks of it (--factor)"},
      {"sliding", "a working set of 16 MB that slides through an array (--factor)"},
      {"random-compiled", "the same three patterns as programs (--factor)"},
      {"streaming-compiled", ""},
      {"sliding-compiled", ""},
      {"sweeping-compiled", "sliding, with its window written and read from end to end (--factor)"},
      {"hash", "key-value store on perdure::hash_map (--value, --operations)"},
      {"rbtree", "key-value store on perdure::rb_map (--value, --operations)"}};
  for (const MeasuredProgram& program : measured_programs()) {
    std::string what(program.what);
    if (!program.stands_for.empty()) what += "; for " + std::string(program.stands_for);
    names.push_back({std::string(program.name), what});
  }
  return names;
}

Workload make_workload(const std::string& name, const WorkloadOptions& options) {
  for (const Pattern pattern : kPatterns) {
    if (name != pattern_name(pattern)) continue;
    auto source = std::make_unique<MicroBenchmark>(pattern, options.factor, options.seed);
    const std::string what = std::to_string(source->pairs()) + " pairs of a read and a write in " +
                             std::to_string(source->array_bytes() >> 20) + " MB";
    return {name, what, std::move(source), nullptr, nullptr};
  }
  for (const std::string pattern : kCompiledPatterns)
    if (name == pattern + std::string(kCompiled)) return make_compiled(pattern, options);
  if (name == "hash" || name == "rbtree") return make_store(name, options);
  const auto programs = measured_programs();
  if (std::none_of(programs.begin(), programs.end(),
                   [&](const auto& each) { return each.name == name; })) {
    std::string names;
    for (const WorkloadName& each : workload_names())
      names += (names.empty() ? "" : ", ") + each.name;
    throw Exception(Code::kInvalid, name + ": no workload of this name; there are " + names +
                                        "; a program of yours goes after --");
  }
  const MeasuredProgram& program = measured_program(name);
  const auto folder = make_folder();
  Launch launch = prepare(program, *folder);
  launch.instructions = options.instructions;
  launch.plugin = options.plugin;
  return emulated(name, std::string(program.what) + " (" + version_of(program) + ")", launch,
                  folder);
}

Workload make_program(const std::vector<std::string>& command, const WorkloadOptions& options) {
  Launch launch;
  launch.program = command.front();
  launch.arguments.assign(command.begin() + 1, command.end());
  launch.instructions = options.instructions;
  launch.skip = options.skip;
  launch.input = options.input;
  launch.plugin = options.plugin;
  std::string what;
  for (const std::string& word : command) what += (what.empty() ? "" : " ") + word;
  return emulated(std::filesystem::path(command.front()).filename().string(), what, launch,
                  nullptr);
}

Workload make_recorded(const std::string& path) {
  auto file = std::make_unique<TraceFile>(path);
  std::string what = file->program();
  for (const std::string& argument : file->arguments()) what += " " + argument;
  return {std::filesystem::path(path).filename().string(), "recorded: " + what, std::move(file),
          nullptr, nullptr};
}

}  // namespace perdure::memory
