// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perdure/finding.h"

#include <charconv>
#include <string_view>

namespace perdure::tools {
namespace {

constexpr const char* kRestore = "restore the pool from a backup";
constexpr const char* kSalvage = ", or copy what can be proved with `perdure salvage`";

}  // namespace

Finding from_message(const std::string& part, const std::string& file, std::string message) {
  if (message.starts_with(file + ": ")) message.erase(0, file.size() + 2);
  Finding finding{part, -1, message, kRestore};
  if (const auto semicolon = message.rfind("; "); semicolon != message.npos) {
    finding.what = message.substr(0, semicolon);
    finding.remedy = message.substr(semicolon + 2);
    if (finding.remedy.starts_with("`perdure check`"))
      finding.remedy = kRestore;  // that is what runs
  }
  const bool restore = finding.remedy == kRestore ||
                       (part == "regions" && finding.remedy.ends_with("from a backup"));
  if (restore && part != "superblock" && part != "pages") finding.remedy += kSalvage;
  for (const std::string_view word : {"byte ", "bytes "}) {
    const auto at = finding.what.find(word);
    if (at == finding.what.npos) continue;
    const char* digits = finding.what.data() + at + word.size();
    if (std::from_chars(digits, finding.what.data() + finding.what.size(), finding.at_byte).ec ==
        std::errc())
      break;
  }
  return finding;
}

std::vector<Finding> findings_of(const PageSumsReport& report) {
  std::vector<Finding> findings;
  for (const PageSumsReport::Damage& damage : report.damage) {
    findings.push_back({"pages", static_cast<std::int64_t>(damage.offset), damage.what(),
                        damage.in_sums
                            ? "if nothing else is found, `perdure scrub --complete` makes them anew"
                            : std::string(kRestore) + kSalvage});
  }
  return findings;
}

Report describe(const std::vector<Finding>& findings) {
  Report report = Report::array();
  for (const Finding& finding : findings) {
    report.push_back({{"part", finding.part},
                      {"at_byte", finding.at_byte >= 0 ? Report(finding.at_byte) : Report()},
                      {"what", finding.what},
                      {"remedy", finding.remedy}});
  }
  return report;
}

}  // namespace perdure::tools
