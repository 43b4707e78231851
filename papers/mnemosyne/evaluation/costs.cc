// SPDX-License-Identifier: BSD-3-Clause
// §6.3: the cost of a word and of a line, by transactions that differ in nothing else; and what an
// insert into the hash table of Figure 4 writes, counted.
#include <array>

#include <fmt/format.h>

#include "bench/system.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/more_sections.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "papers/pool.h"

namespace perdure::bench::reproduce {
namespace {

constexpr std::uint64_t kMostLines = 1024;
constexpr std::uint64_t kLineWords = kLineBytes / kWordBytes;
/// One line more than is written, as the first one need not begin where the object does.
using LineArray = std::array<std::uint64_t, (kMostLines + 1) * kLineWords>;

std::vector<std::uint64_t> line_counts(const Settings& settings) {
  if (settings.name == "quick") return {1, 16, 256};
  return {1, 2, 4, 16, 64, 128, 256, 512, kMostLines};
}

/// CPU time of a transaction that writes the first `words` words of each of `lines` lines.
Contestant writer(Pool& pool, std::uint64_t lines, std::uint64_t words) {
  auto* const array = pool.root<LineArray>("lines");
  const auto address = reinterpret_cast<std::uintptr_t>(array);
  std::uint64_t* const first = array->data() + (round_up(address, kLineBytes) - address) / 8;
  return {.prepare = {}, .run = [&pool, first, lines, words](std::uint64_t count, unsigned) {
            for (std::uint64_t value = 1; value <= count; ++value) {
              pool.atomically([&](Tx& tx) {
                for (std::uint64_t line = 0; line < lines; ++line) {
                  for (std::uint64_t word = 0; word < words; ++word)
                    tx.store(first[line * kLineWords + word], value);
                }
              });
            }
          }};
}

Spread us_of(const Timing& timing) {
  return {timing.cpu_ns.median / 1e3, timing.fastest_cpu_ns / 1e3, timing.slowest_cpu_ns / 1e3};
}
/// (above - below) / count - less, in ns; its ends are those of the ends that lie farthest apart.
Spread each_ns(const Spread& above, const Spread& below, double count, const Spread& less = {}) {
  return {(above.median - below.median) * 1e3 / count - less.median,
          (above.min - below.max) * 1e3 / count - less.max,
          (above.max - below.min) * 1e3 / count - less.min};
}

}  // namespace

Section measure_costs(const Settings& settings) {
  Section section;
  section.id = "costs";
  section.title = "§6.3: what a word and a line cost";
  section.method = fmt::format(
      "Transactions that write one word, or all eight, of each of n lines, with the paper's "
      "synchronous truncation; CPU time. A word: the difference of the two, over the 7 n words "
      "more. A line: what n lines of one word take more than one line does, over the n - 1 lines "
      "more, less a word. An insert: the words and lines of the pool, logs left out, that differ "
      "after an insert of {} B into the hash table of Figure 4 with {} records, values at random.",
      paper::kInsertBytes, settings.live);
  section.x_name = "lines written";
  section.log_y = true;
  papers::LabOptions options = new_pool_options(settings.memory);
  options.truncation = Truncation::kEachCommit;
  const ScratchFile file(settings.dir, "costs");
  Pool pool = papers::create(file.path(), options).value();
  Team team(1);
  const std::vector<std::uint64_t> counts = line_counts(settings);
  std::vector<std::optional<Spread>> one, eight, word, line;
  for (const std::uint64_t lines : counts) {
    tell_progress(fmt::format("costs: {} lines", lines), one.size(), counts.size());
    section.x.push_back(static_cast<double>(lines));
    const std::vector<Timing> timings =
        race(team, {writer(pool, lines, 1), writer(pool, lines, kLineWords)}, settings.rules);
    one.emplace_back(us_of(timings[0]));
    eight.emplace_back(us_of(timings[1]));
    word.emplace_back(
        each_ns(*eight.back(), *one.back(), static_cast<double>(lines * (kLineWords - 1))));
    line.emplace_back(std::nullopt);
    if (lines > 1)
      line.back() =
          each_ns(*one.back(), *one.front(), static_cast<double>(lines - 1), *word.back());
  }
  section.add("one word a line", "us", Origin::kPerdure).values = std::move(one);
  section.add("eight words a line", "us", Origin::kPerdure).values = std::move(eight);
  section.add(paper::kEachWord, "ns", Origin::kDerived).values = std::move(word);
  section.add(paper::kEachLine, "ns", Origin::kDerived).values = std::move(line);

  StoreOptions store;
  store.dir = settings.dir;
  store.memory = settings.memory;
  store.value_bytes = paper::kInsertBytes;
  store.pool = options;
  const Touched touched = touched_by_inserts(store, settings.live, settings.seed);
  // Of one place: they do not depend on x.
  std::vector<std::optional<double>> words(section.x.size());
  std::vector<std::optional<double>> lines(section.x.size());
  words.front() = touched.words;
  lines.front() = touched.lines;
  section.add_values(paper::kInsertWords, "words", Origin::kPerdure, words).charted = false;
  section.add_values(paper::kInsertLines, "lines", Origin::kPerdure, lines).charted = false;

  std::vector<std::optional<double>> stated;
  for (const double x : section.x)
    stated.push_back(x < paper::kSmallWriteSetLines ? std::optional(paper::kWordNs) : std::nullopt);
  section.add_values("paper: each word", "ns", Origin::kPaper, stated);
  section.add_values("paper: each line", "ns", Origin::kPaper,
                     std::vector<std::optional<double>>(section.x.size(), paper::kLineNs));
  paper::judge_costs(section, settings.memory);
  return section;
}

}  // namespace perdure::bench::reproduce
