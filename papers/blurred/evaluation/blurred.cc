// SPDX-License-Identifier: BSD-3-Clause
#include "papers/blurred/evaluation/blurred.h"

#include "papers/blurred/evaluation/claims.h"

namespace perdure::bench::reproduce {

JobOptions job_options(const Settings& settings) {
  JobOptions options;
  options.dir = settings.dir;
  options.memory = settings.memory;
  options.live = settings.blurred.live;
  options.seed = settings.seed;
  return options;
}

Section begin_section(std::string id, std::string title, std::string x_name, std::string method) {
  Section section;
  section.id = std::move(id);
  section.title = std::move(title);
  section.x_name = std::move(x_name);
  section.method = std::move(method);
  section.missing =
      "The paper's values are in a picture only; the sentences of its text stand below.";
  return section;
}

void race_along(Section& section, const std::vector<PaperSystem>& systems, Work work,
                const Settings& settings, const std::string& prefix, const std::string& unit,
                const std::function<void(std::size_t, JobOptions&)>& set,
                const std::function<double(std::size_t)>& scale, std::uint64_t warm_up) {
  std::vector<std::vector<std::optional<Spread>>> values(systems.size());
  for (std::size_t place = 0; place < section.x.size(); ++place) {
    tell_progress(section.id + ": " + std::string(work_name(work)), place, section.x.size());
    JobOptions options = job_options(settings);
    set(place, options);
    const std::vector<JobResult> results =
        race_jobs(systems, work, options, settings.rules, warm_up);
    const double by = scale ? scale(place) : 1;
    for (std::size_t i = 0; i < systems.size(); ++i) {
      const Spread& found = results[i].transactions_per_s;
      values[i].emplace_back(Spread{found.median * by, found.min * by, found.max * by});
    }
  }
  for (std::size_t i = 0; i < systems.size(); ++i)
    section.add(prefix + std::string(systems[i].name), unit, Origin::kPerdure).values =
        std::move(values[i]);
}

void add_effects(Section& section, const std::string& prefix) {
  const auto add = [&](const char* name, const std::function<Found(double x)>& effect) {
    std::vector<std::optional<Spread>> values;
    for (const Found& found : everywhere(section, effect))
      values.push_back(found ? std::optional(found->value) : std::nullopt);
    Series& series = section.add(prefix + name, "%", Origin::kDerived);
    series.values = std::move(values);
    series.charted = false;
  };
  add("BPPM, overhead removed",
      [&](double x) { return paper_blurred::overhead_removed(section, prefix, x); });
  add("BPPM, gain over BASE",
      [&](double x) { return gain_at(section, prefix + "BPPM", prefix + "BASE", x); });
}

}  // namespace perdure::bench::reproduce
