// SPDX-License-Identifier: BSD-3-Clause
// Figures 4, 5 and 7: a hash table in persistent memory against Berkeley DB's on a block device of
// the same memory.
#include <algorithm>
#include <optional>
#include <thread>

#include "measure/judge.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/churn.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {
namespace {

constexpr const char* kNoPeer =
    "Berkeley DB was not built in (libdb5.3-dev): its values and the ratios are missing. ";
constexpr const char* kPictureOnly =
    "The paper's bars are in a picture only; the sentences of its text stand below.";

constexpr const char* kTwoProtocols =
    "Ours is measured twice. With the pool's default truncation, a commit leaves the write-back of "
    "its home words to the next commit's wait: what an insert wrote, a delete pays for, so that "
    "only their mean tells what they cost. With the paper's synchronous truncation every update "
    "pays for itself";

/// The contestants of one place in the figures. All run by turns.
struct Trio {
  ChurnResult ours;
  std::optional<ChurnResult> synchronous;
  std::optional<ChurnResult> berkeley;
};

/// With synchronous truncation only for one thread, of which the paper gives write latencies.
Trio measure_trio(const Settings& settings, const EmulatedMemory& memory, std::uint64_t bytes,
                  unsigned threads) {
  StoreOptions options;
  options.dir = settings.dir;
  options.memory = memory;
  options.value_bytes = bytes;
  options.threads = threads;
  options.pool = new_pool_options(memory);
  ChurnOptions churn;
  churn.threads = threads;
  churn.value_bytes = bytes;
  churn.live = settings.live;
  churn.seed = settings.seed;
  churn.rules = settings.rules;

  StoreOptions synchronous = options;
  synchronous.pool.truncation = Truncation::kEachCommit;

  std::vector<MakeStore> stores{[&] { return make_hash_table(options); }};
  if (threads == 1) stores.emplace_back([&] { return make_hash_table(synchronous); });
  if (peers().berkeley_db != nullptr)
    stores.emplace_back([&] { return peers().berkeley_db(options); });
  const std::vector<ChurnResult> results = race_updates(stores, churn);
  Trio trio{results[0], {}, {}};
  if (threads == 1) trio.synchronous = results[1];
  if (peers().berkeley_db != nullptr) trio.berkeley = results.back();
  return trio;
}

constexpr const char* kSynchronous = "perdure synchronous, 1 thread";
constexpr const char* kSynchronousGain = "Berkeley DB / perdure synchronous";

std::string of_threads(const std::string& name, unsigned threads) {
  return fmt::format("{}, {} thread{}", name, threads, threads == 1 ? "" : "s");
}
/// Where the time of both goes, at one size and one thread.
std::string where_time_goes(const Section& figure4, std::size_t place) {
  const double ours = figure4.find(kSynchronous)->at(place);
  const double theirs = figure4.find("Berkeley DB, 1 thread")->at(place);
  const double device = figure4.find("Berkeley DB's device, 1 thread")->at(place);
  return fmt::format(
      "At {:.0f} B an insert takes Berkeley DB {:.1f} us, of which the emulated device accounts "
      "for {:.1f} us and its software for {:.1f} us; ours takes {:.1f} us in all",
      figure4.x[place], theirs, device, theirs - device, ours);
}

void judge_latency(Section& section) {
  const Series* ratio = section.find(kSynchronousGain);
  if (ratio == nullptr) return;
  std::vector<double> small;
  std::size_t least = 0;  // where the small values gain least
  std::optional<std::size_t> large;
  for (std::size_t i = 0; i < section.x.size(); ++i) {
    if (section.x[i] < paper::kSmallValueBytes) {
      small.push_back(ratio->at(i));
      if (ratio->at(i) < ratio->at(least)) least = i;
    }
    if (section.x[i] > paper::kSmallValueBytes) large = i;
  }
  if (!small.empty()) {
    const Seen found = seen(small);
    Judgement judgement{std::string(paper::kWriteLatencyGain.text),
                        range_text(found, "x"),
                        within(found, paper::kWriteLatencyGain.low, paper::kWriteLatencyGain.high),
                        {}};
    if (!judgement.agrees) judgement.why = where_time_goes(section, least) + ".";
    section.judgements.push_back(std::move(judgement));
  }
  if (!large) return;
  Judgement judgement{std::string(paper::kLargeValues),
                      fmt::format("{:.0f} B: Berkeley DB takes {:.2g} times as long as ours",
                                  section.x[*large], ratio->at(*large)),
                      ratio->at(*large) < 1,
                      {}};
  if (!judgement.agrees && section.x.size() > 1) {
    const std::size_t last = section.x.size() - 1;
    judgement.why = fmt::format(
        "From {:.0f} to {:.0f} B ours grows by {:.2f} ns a byte, Berkeley DB by {:.2f}. {}.",
        section.x[0], section.x[last], slope(section, *section.find(kSynchronous), 0, last) * 1e3,
        slope(section, *section.find("Berkeley DB, 1 thread"), 0, last) * 1e3,
        where_time_goes(section, last));
  }
  section.judgements.push_back(std::move(judgement));
}

void judge_gain(Section& section, const Settings& settings) {
  if (settings.threads.front() != 1) return;
  const auto at = [&](const char* side, unsigned threads, std::size_t place) {
    return section.find(of_threads(side, threads))->at(place);
  };
  std::vector<double> gains;
  double farthest = 0;  // from what the paper states, as a factor
  std::string there;
  for (const unsigned threads : settings.threads) {
    const Series* ratio = section.find(of_threads("perdure / Berkeley DB", threads));
    if (ratio == nullptr || threads == 1) continue;
    for (std::size_t i = 0; i < section.x.size(); ++i) {
      const double gain = ratio->at(i);
      gains.push_back(gain);
      const double factor =
          std::max(paper::kThroughputGain.low / gain, gain / paper::kThroughputGain.high);
      if (factor <= farthest) continue;
      farthest = factor;
      there = fmt::format(
          "At {:.0f} B and {} threads Berkeley DB makes {:.0f} updates/s ({:.1f} times those of "
          "one thread; {:.2f} retries after a deadlock for each), ours {:.0f} ({:.1f} times).",
          section.x[i], threads, at("Berkeley DB", threads, i),
          at("Berkeley DB", threads, i) / at("Berkeley DB", 1, i),
          at("Berkeley DB's retries", threads, i), at("perdure", threads, i),
          at("perdure", threads, i) / at("perdure", 1, i));
    }
  }
  if (gains.empty()) return;
  const Seen found = seen(gains);
  const bool agrees = within(found, paper::kThroughputGain.low, paper::kThroughputGain.high);
  section.judgements.push_back({std::string(paper::kThroughputGain.text), range_text(found, "x"),
                                agrees, agrees ? "" : there});
}

void judge_scaling(Section& section, const Settings& settings) {
  const unsigned most = settings.threads.back();
  if (settings.threads.front() != 1 || most == 1) return;
  const unsigned cpus = std::max(1u, std::thread::hardware_concurrency());
  const auto growth = [&](const std::string& name, unsigned to) -> std::optional<Seen> {
    const Series* one = section.find(of_threads(name, 1));
    const Series* many = section.find(of_threads(name, to));
    if (one == nullptr || many == nullptr) return std::nullopt;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < section.x.size(); ++i) ratios.push_back(many->at(i) / one->at(i));
    return seen(ratios);
  };
  // More threads than CPUs cannot show how a program scales.
  unsigned fair = 1;
  for (const unsigned threads : settings.threads) {
    if (threads <= cpus) fair = std::max(fair, threads);
  }
  const auto ours = growth("perdure", fair);
  const auto theirs = growth("Berkeley DB", most);
  if (!ours || fair == 1) return;
  Judgement judgement{
      std::string(paper::kScaling),
      fmt::format("ours with {} threads on {} CPUs: {} of one", fair, cpus, range_text(*ours, "x")),
      ours->low > 0.7 * fair,
      {}};
  if (theirs) {
    judgement.found += fmt::format("; Berkeley DB with {}: {}", most, range_text(*theirs, "x"));
    judgement.agrees = judgement.agrees && theirs->high < 2 * 1.2;
  }
  if (!judgement.agrees)
    judgement.why = fmt::format(
        "Linear would be {}x for ours, and at most about 2x for Berkeley DB; the machine has {} "
        "CPUs, the paper's had four cores.",
        fair, cpus);
  section.judgements.push_back(std::move(judgement));
}

void judge_large_throughput(Section& section) {
  const std::string name = of_threads("perdure / Berkeley DB", 1);
  if (section.find(name) == nullptr || section.x.back() <= paper::kSmallValueBytes) return;
  const double ratio = section.find(name)->at(section.x.size() - 1);
  Judgement judgement{std::string(paper::kThroughputOfLarge),
                      fmt::format("{:.0f} B, one thread: {:.2g}x the throughput of Berkeley DB",
                                  section.x.back(), ratio),
                      ratio > 1,
                      {}};
  if (!judgement.agrees)
    judgement.why = fmt::format("Ours falls from {:.0f} updates/s at {:.0f} B to {:.0f}.",
                                section.find("perdure, 1 thread")->at(0), section.x[0],
                                section.find("perdure, 1 thread")->at(section.x.size() - 1));
  section.judgements.push_back(std::move(judgement));
}

}  // namespace

std::vector<Section> measure_hash_table(const Settings& settings) {
  Section latency;
  latency.id = "figure4";
  latency.title = "Figure 4: write latency of a hash table";
  latency.method = fmt::format(
      "An insert of a record into a table of {} records a thread, durable on return; inserts and "
      "deletes at the same rate, keys at random. {}; that is what is judged. Berkeley DB 5.3: "
      "DB_HASH, one transaction an "
      "update, DB_TXN_SYNC, no checkpoints, on the emulated PCM-disk; pages of 4 KiB, and with "
      "several threads of eight values, because it deadlocks when they overflow.",
      settings.live, kTwoProtocols);
  latency.x_name = "value (bytes)";
  latency.log_y = true;
  for (const std::uint64_t bytes : settings.value_bytes)
    latency.x.push_back(static_cast<double>(bytes));
  latency.missing = kPictureOnly;
  if (peers().berkeley_db == nullptr) latency.missing = std::string(kNoPeer) + kPictureOnly;
  Section throughput = latency;
  throughput.id = "figure5";
  throughput.title = "Figure 5: update throughput of a hash table";
  throughput.method =
      "The runs of Figure 4: inserts and deletes of all threads together. Every thread has keys of "
      "its own in one table.";

  std::size_t done = 0;
  const std::size_t total = settings.threads.size() * settings.value_bytes.size();
  for (const unsigned threads : settings.threads) {
    std::vector<Trio> trios;
    for (const std::uint64_t bytes : settings.value_bytes) {
      tell_progress(fmt::format("figures 4 and 5: {} B, {} threads", bytes, threads), done++,
                    total);
      trios.push_back(measure_trio(settings, settings.memory, bytes, threads));
    }
    const auto fill = [&](Series& series, auto value) {
      for (std::size_t i = 0; i < trios.size(); ++i) series.values[i] = value(trios[i]);
    };
    fill(latency.add(of_threads("perdure", threads), "us", Origin::kPerdure),
         [](const Trio& trio) { return trio.ours.insert_us; });
    fill(throughput.add(of_threads("perdure", threads), "updates/s", Origin::kPerdure),
         [](const Trio& trio) { return trio.ours.updates_per_s; });
    if (threads == 1) {
      fill(latency.add("perdure's deletes, 1 thread", "us", Origin::kPerdure),
           [](const Trio& trio) { return trio.ours.erase_us; });
      latency.series.back().charted = false;
      fill(latency.add(kSynchronous, "us", Origin::kPerdure),
           [](const Trio& trio) { return trio.synchronous->insert_us; });
      fill(throughput.add(kSynchronous, "updates/s", Origin::kPerdure),
           [](const Trio& trio) { return trio.synchronous->updates_per_s; });
    }
    if (peers().berkeley_db == nullptr) continue;
    fill(latency.add(of_threads("Berkeley DB", threads), "us", Origin::kPeer),
         [](const Trio& trio) { return trio.berkeley->insert_us; });
    if (threads == 1) {
      fill(latency.add("Berkeley DB's deletes, 1 thread", "us", Origin::kPeer),
           [](const Trio& trio) { return trio.berkeley->erase_us; });
      latency.series.back().charted = false;
      latency.add_ratio(kSynchronousGain, "Berkeley DB, 1 thread", kSynchronous);
    }
    std::vector<std::optional<double>> device;
    for (const Trio& trio : trios) device.emplace_back(trio.berkeley->device_us);
    latency.add_values(of_threads("Berkeley DB's device", threads), "us", Origin::kDerived, device)
        .charted = false;
    fill(throughput.add(of_threads("Berkeley DB", threads), "updates/s", Origin::kPeer),
         [](const Trio& trio) { return trio.berkeley->updates_per_s; });
    if (threads > 1) {
      std::vector<std::optional<double>> retries;
      for (const Trio& trio : trios) retries.emplace_back(trio.berkeley->retries);
      throughput
          .add_values(of_threads("Berkeley DB's retries", threads), "per update", Origin::kDerived,
                      retries)
          .charted = false;
    }
    throughput.add_ratio(of_threads("perdure / Berkeley DB", threads),
                         of_threads("perdure", threads), of_threads("Berkeley DB", threads));
  }
  // What the text states, at the sizes and thread counts that it states it for.
  std::vector<std::optional<double>> small;
  for (const double bytes : latency.x)
    small.push_back(bytes < paper::kSmallValueBytes ? std::optional(paper::kWriteLatencyGain.low)
                                                    : std::nullopt);
  latency.add_values("paper: almost 6 (1 thread)", "x", Origin::kPaper, small);
  const std::vector<std::optional<double>> from(latency.x.size(), paper::kThroughputGain.low);
  const std::vector<std::optional<double>> to(latency.x.size(), paper::kThroughputGain.high);
  throughput.add_values("paper: from (several threads)", "x", Origin::kPaper, from);
  throughput.add_values("paper: to (several threads)", "x", Origin::kPaper, to);
  judge_latency(latency);
  judge_gain(throughput, settings);
  judge_scaling(throughput, settings);
  judge_large_throughput(throughput);
  return {latency, throughput};
}

Section measure_latencies(const Settings& settings) {
  Section section;
  section.id = "figure7";
  section.title = "Figure 7: performance relative to Berkeley DB for slower memory";
  section.method =
      "Write latency as in Figure 4, one thread, with the paper's synchronous truncation: Berkeley "
      "DB's divided by ours; above 1 ours is better. Both sides get the same memory. Beside it, "
      "with "
      "the pool's default truncation, the throughput of inserts and deletes together over Berkeley "
      "DB's.";
  section.x_name = "value (bytes)";
  section.log_y = true;
  for (const std::uint64_t bytes : settings.value_bytes)
    section.x.push_back(static_cast<double>(bytes));
  section.missing = kPictureOnly;
  if (peers().berkeley_db == nullptr) {
    section.missing =
        "Not measured: a ratio to Berkeley DB, which was not built in (libdb5.3-dev).";
    return section;
  }
  std::size_t done = 0;
  const std::size_t total = settings.latencies_ns.size() * settings.value_bytes.size();
  for (const double latency_ns : settings.latencies_ns) {
    EmulatedMemory memory = settings.memory;
    memory.latency_ns = latency_ns;
    std::vector<std::optional<Spread>> ours;
    std::vector<std::optional<Spread>> theirs;
    std::vector<std::optional<Spread>> throughput;
    for (const std::uint64_t bytes : settings.value_bytes) {
      tell_progress(fmt::format("figure 7: {:.0f} ns, {} B", latency_ns, bytes), done++, total);
      const Trio trio = measure_trio(settings, memory, bytes, 1);
      ours.emplace_back(trio.synchronous->insert_us);
      theirs.emplace_back(trio.berkeley->insert_us);
      throughput.emplace_back(ratio_of(trio.ours.updates_per_s, trio.berkeley->updates_per_s));
    }
    const std::string at = fmt::format(" at {:.0f} ns", latency_ns);
    section.add("perdure" + at, "us", Origin::kPerdure).values = std::move(ours);
    section.add("Berkeley DB" + at, "us", Origin::kPeer).values = std::move(theirs);
    section.add_ratio("gain" + at, "Berkeley DB" + at, "perdure" + at);
    section.add("throughput, default" + at, "x", Origin::kDerived).values = std::move(throughput);
  }
  for (const paper::SlowMemory& slow : paper::kSlowMemory) {
    if (section.find(fmt::format("gain at {:.0f} ns", slow.latency_ns)) == nullptr) continue;
    std::vector<std::optional<double>> stated(section.x.size());
    stated[0] = slow.gain;
    for (std::size_t i = 0; i < section.x.size(); ++i) {
      if (slow.latency_ns == paper::kParityLatencyNs && section.x[i] == paper::kParityBytes)
        stated[i] = 1;
    }
    section.add_values(fmt::format("paper: gain at {:.0f} ns", slow.latency_ns), "x",
                       Origin::kPaper, stated);
  }
  const auto at = [&](const char* side, double latency_ns, std::size_t place) {
    return section.find(fmt::format("{} at {:.0f} ns", side, latency_ns))->at(place);
  };
  // How many latencies one insert waits for, one after the other, and what else it takes.
  const auto where = [&](double latency_ns, std::size_t place) {
    const double first = settings.latencies_ns.front();
    const auto waits = [&](const char* side) {
      return (at(side, latency_ns, place) - at(side, first, place)) * 1e3 / (latency_ns - first);
    };
    const auto rest = [&](const char* side) {
      return at(side, first, place) - waits(side) * first / 1e3;
    };
    return fmt::format(
        "At {:.0f} B and {:.0f} ns Berkeley DB takes {:.1f} us, ours {:.1f} us. Berkeley DB waits "
        "for {:.1f} latencies and takes {:.1f} us besides, ours waits for {:.1f} and takes {:.1f} "
        "us: from {:.0f} ns on, every further 1000 ns cost Berkeley DB {:.1f} us and ours {:.1f}.",
        section.x[place], latency_ns, at("Berkeley DB", latency_ns, place),
        at("perdure", latency_ns, place), waits("Berkeley DB"), rest("Berkeley DB"),
        waits("perdure"), rest("perdure"), first, waits("Berkeley DB"), waits("perdure"));
  };
  for (const paper::SlowMemory& slow : paper::kSlowMemory) {
    const Series* gain = section.find(fmt::format("gain at {:.0f} ns", slow.latency_ns));
    if (gain == nullptr) continue;
    const double found = gain->at(0);
    const bool agrees = within({found, found}, slow.gain, slow.gain);
    section.judgements.push_back({std::string(slow.text),
                                  fmt::format("{:.0f} B: {:.2g}x", section.x[0], found), agrees,
                                  agrees ? "" : where(slow.latency_ns, 0)});
  }
  const Series* slowest = section.find(fmt::format("gain at {:.0f} ns", paper::kParityLatencyNs));
  const auto place = std::find(section.x.begin(), section.x.end(), paper::kParityBytes);
  if (slowest != nullptr && place != section.x.end()) {
    const auto index = static_cast<std::size_t>(place - section.x.begin());
    const double found = slowest->at(index);
    const bool agrees = within({found, found}, 1, 1);
    section.judgements.push_back({std::string(paper::kParity), fmt::format("{:.2g}x", found),
                                  agrees, agrees ? "" : where(paper::kParityLatencyNs, index)});
  }
  return section;
}

}  // namespace perdure::bench::reproduce
