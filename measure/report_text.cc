// SPDX-License-Identifier: BSD-3-Clause
// The evaluation as a table for people and as JSON for programs.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "measure/claim.h"
#include "measure/page.h"
#include "measure/section.h"
#include "measure/section_json.h"
#include "measure/table.h"

namespace perdure::bench::reproduce {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const std::optional<Spread>& value) {
  if (!value) return "";
  std::string median = short_number(value->median, 1000);
  if (value->min == value->max) return median;
  return fmt::format("{} ({}..{})", median, short_number(value->min, 1000),
                     short_number(value->max, 1000));
}

std::string table_of(const Section& section) {
  // A series a line: sections have more series than a screen has columns.
  // Nor does a name that is a list belong into a column.
  constexpr std::size_t kWidest = 60;
  const bool list = section.x_name.size() > kWidest;
  std::vector<std::string> head{list ? "" : section.x_name, ""};
  for (const double x : section.x) head.push_back(fmt::format("{:.0f}", x));
  Table table(head);
  for (const Series& series : section.series) {
    std::vector<std::string> cells{series.name, series.unit};
    for (const std::optional<Spread>& value : series.values) cells.push_back(cell(value));
    table.add(std::move(cells));
  }
  return (list ? section.x_name + "\n" : "") + table.text();
}

/// Each sentence once, its clauses below it.
std::string text_of(const std::vector<Judgement>& judgements) {
  std::string out;
  const std::string* sentence = nullptr;
  const std::string* told = nullptr;  // the last reason: a busy machine is one for many clauses
  for (const Judgement& judgement : judgements) {
    if (sentence == nullptr || *sentence != judgement.sentence)
      out += fmt::format("  {}: {}\n", judgement.goal ? "goal" : "paper", judgement.sentence);
    sentence = &judgement.sentence;
    std::string verdict(verdict_name(judgement.verdict));
    if (judgement.verdict == Verdict::kDiffers) verdict = "DIFFERS";
    const std::string found = found_text(judgement);
    out += fmt::format("    {:<10}  {}{}{}\n", verdict, judgement.clause, found.empty() ? "" : ": ",
                       found);
    const bool again = told != nullptr && *told == judgement.why;
    told = &judgement.why;
    if (!judgement.why.empty() && !again) out += fmt::format("{:16}{}\n", "", judgement.why);
  }
  return out;
}

}  // namespace

std::string text_of(const Evaluation& evaluation) {
  const Environment& e = evaluation.environment;
  std::string out = fmt::format(
      "{}\n{}, {} CPUs, {}, {}; load {:.1f} at the start\nemulated memory: {}, on "
      "{} in {}, {}; delays overshoot by {:.0f} ns\n{} setting: {} runs of {:g} s, seed {}; cells "
      "are medians (least..most); lines that begin with \"paper:\" are printed there\n",
      evaluation.paper, e.cpu, e.cpus, e.kernel, e.compiler, e.load_average, evaluation.memory,
      e.domain, e.dir, e.write_back, evaluation.spin_error_ns, evaluation.setting,
      e.rules.repetitions, e.rules.seconds, e.seed);
  if (const std::string warning = load_warning(e); !warning.empty()) out += warning + "\n";
  Tally tally;
  for (const Section& section : evaluation.sections) {
    out += "\n" + section.title + "\n";
    if (!section.missing.empty()) out += section.missing + "\n";
    if (!section.series.empty()) out += table_of(section);
    out += text_of(section.judgements);
    for (const Judgement& judgement : section.judgements) tally.count(judgement);
  }
  return out + "\n" + text_of(tally) + "\n";
}

std::string json_of(const Evaluation& evaluation) {
  Json out;
  out["version"] = PERDURE_VERSION;
  out["paper"] = evaluation.paper;
  Json& environment = out["environment"] = as_json(evaluation.environment);
  environment["setting"] = evaluation.setting;
  environment["latency_ns"] = evaluation.latency_ns;
  environment["gb_per_s"] = evaluation.gb_per_s;
  environment["spin_error_ns"] = evaluation.spin_error_ns;
  environment["seconds"] = evaluation.seconds;
  out["sections"] = Json::array();
  for (const Section& section : evaluation.sections) out["sections"].push_back(json_of(section));
  return out.dump(2) + "\n";
}

}  // namespace perdure::bench::reproduce
