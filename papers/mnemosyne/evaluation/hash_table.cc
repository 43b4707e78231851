// SPDX-License-Identifier: BSD-3-Clause
// Figures 4, 5 and 7: a hash table in persistent memory against Berkeley DB's on a block device of
// the same memory.
#include <algorithm>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/churn.h"
#include "papers/mnemosyne/evaluation/claims.h"
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
struct Contestants {
  ChurnResult ours;
  std::optional<ChurnResult> synchronous;
  std::optional<ChurnResult> berkeley;
  std::optional<ChurnResult> without_files;  // Berkeley DB again, on tmpfs, if it is on a device
};

/// With synchronous truncation, and Berkeley DB twice, only for one thread, of which the paper
/// gives write latencies.
Contestants measure_contestants(const Settings& settings, const EmulatedMemory& memory,
                                std::uint64_t bytes, unsigned threads, const RamDisk* device) {
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
  StoreOptions on_device = options;
  on_device.device = device;

  Contestants all;
  std::vector<MakeStore> stores{[&] { return make_hash_table(options); }};
  if (threads == 1) stores.emplace_back([&] { return make_hash_table(synchronous); });
  const bool with_peer = peers().berkeley_db != nullptr;
  const bool with_both = with_peer && threads == 1 && device != nullptr;
  if (with_peer) stores.emplace_back([&] { return peers().berkeley_db(on_device); });
  if (with_both) stores.emplace_back([&] { return peers().berkeley_db(options); });
  const std::vector<ChurnResult> results = race_updates(stores, churn);
  auto next = results.begin();
  all.ours = *next++;
  if (threads == 1) all.synchronous = *next++;
  if (with_peer) all.berkeley = *next++;
  if (with_both) all.without_files = *next++;
  return all;
}

constexpr const char* kWithoutFiles = "Berkeley DB without a file system";
using paper::kSynchronous;
using paper::kSynchronousDeletes;
using paper::of_threads;
constexpr const char* kSynchronousGain = "Berkeley DB / perdure synchronous";

}  // namespace

std::vector<Section> measure_hash_table(const Settings& settings) {
  const PeerDisk disk = make_peer_disk(settings.dir);
  Section latency;
  latency.id = "figure4";
  latency.title = "Figure 4: write latency of a hash table";
  latency.method = fmt::format(
      "An insert of a record into a table of {} records a thread, durable on return; inserts and "
      "deletes at the same rate, keys at random. {}; that is what is judged. Berkeley DB 5.3: "
      "DB_HASH, one transaction an "
      "update, DB_TXN_SYNC, no checkpoints, on the emulated PCM-disk; pages of 4 KiB, and with "
      "several threads of eight values, because it deadlocks when they overflow. {}",
      settings.live, kTwoProtocols, disk.said);
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
    std::vector<Contestants> places;
    for (const std::uint64_t bytes : settings.value_bytes) {
      tell_progress(fmt::format("figures 4 and 5: {} B, {} threads", bytes, threads), done++,
                    total);
      places.push_back(
          measure_contestants(settings, settings.memory, bytes, threads, disk.device.get()));
    }
    const auto fill = [&](Series& series, auto value) {
      for (std::size_t i = 0; i < places.size(); ++i) series.values[i] = value(places[i]);
    };
    fill(latency.add(of_threads("perdure", threads), "us", Origin::kPerdure),
         [](const Contestants& place) { return place.ours.insert_us; });
    fill(throughput.add(of_threads("perdure", threads), "updates/s", Origin::kPerdure),
         [](const Contestants& place) { return place.ours.updates_per_s; });
    if (threads == 1) {
      fill(latency.add("perdure's deletes, 1 thread", "us", Origin::kPerdure),
           [](const Contestants& place) { return place.ours.erase_us; });
      latency.series.back().charted = false;
      fill(latency.add(kSynchronous, "us", Origin::kPerdure),
           [](const Contestants& place) { return place.synchronous->insert_us; });
      fill(throughput.add(kSynchronous, "updates/s", Origin::kPerdure),
           [](const Contestants& place) { return place.synchronous->updates_per_s; });
      fill(throughput.add(kSynchronousDeletes, "us", Origin::kPerdure),
           [](const Contestants& place) { return place.synchronous->erase_us; });
      throughput.series.back().charted = false;
    }
    if (peers().berkeley_db == nullptr) continue;
    fill(latency.add(of_threads("Berkeley DB", threads), "us", Origin::kPeer),
         [](const Contestants& place) { return place.berkeley->insert_us; });
    if (threads == 1) {
      fill(latency.add("Berkeley DB's deletes, 1 thread", "us", Origin::kPeer),
           [](const Contestants& place) { return place.berkeley->erase_us; });
      latency.series.back().charted = false;
      latency.add_ratio(kSynchronousGain, "Berkeley DB, 1 thread", kSynchronous);
    }
    if (places.front().without_files) {
      fill(latency.add(of_threads(kWithoutFiles, threads), "us", Origin::kPeer),
           [](const Contestants& place) { return place.without_files->insert_us; });
      fill(throughput.add(of_threads(kWithoutFiles, threads), "updates/s", Origin::kPeer),
           [](const Contestants& place) { return place.without_files->updates_per_s; });
    }
    std::vector<std::optional<double>> device;
    for (const Contestants& place : places) device.emplace_back(place.berkeley->device_us);
    latency.add_values(of_threads("Berkeley DB's device", threads), "us", Origin::kDerived, device)
        .charted = false;
    fill(throughput.add(of_threads("Berkeley DB", threads), "updates/s", Origin::kPeer),
         [](const Contestants& place) { return place.berkeley->updates_per_s; });
    if (threads > 1) {
      std::vector<std::optional<double>> retries;
      for (const Contestants& place : places) retries.emplace_back(place.berkeley->retries);
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
  const unsigned cpus = std::thread::hardware_concurrency();
  paper::judge_latency(latency, settings.threads, cpus);
  paper::judge_throughput(throughput, settings.threads, cpus);
  return {latency, throughput};
}

Section measure_latencies(const Settings& settings) {
  const PeerDisk disk = make_peer_disk(settings.dir);
  Section section;
  section.id = "figure7";
  section.title = "Figure 7: performance relative to Berkeley DB for slower memory";
  section.method = fmt::format(
      "Write latency as in Figure 4, one thread, with the paper's synchronous truncation: Berkeley "
      "DB's divided by ours; above 1 ours is better. Both sides get the same memory. {} Beside it, "
      "with the pool's default truncation, the throughput of inserts and deletes together over "
      "Berkeley DB's.",
      disk.said);
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
    std::vector<std::optional<Spread>> without;
    for (const std::uint64_t bytes : settings.value_bytes) {
      tell_progress(fmt::format("figure 7: {:.0f} ns, {} B", latency_ns, bytes), done++, total);
      const Contestants place = measure_contestants(settings, memory, bytes, 1, disk.device.get());
      ours.emplace_back(place.synchronous->insert_us);
      theirs.emplace_back(place.berkeley->insert_us);
      throughput.emplace_back(ratio_of(place.ours.updates_per_s, place.berkeley->updates_per_s));
      if (place.without_files) without.emplace_back(place.without_files->insert_us);
    }
    const std::string at = fmt::format(" at {:.0f} ns", latency_ns);
    section.add("perdure" + at, "us", Origin::kPerdure).values = std::move(ours);
    section.add("Berkeley DB" + at, "us", Origin::kPeer).values = std::move(theirs);
    section.add_ratio("gain" + at, "Berkeley DB" + at, "perdure" + at);
    if (!without.empty()) {
      section.add(kWithoutFiles + at, "us", Origin::kPeer).values = std::move(without);
      section.add_ratio("gain over it without a file system" + at, kWithoutFiles + at,
                        "perdure" + at);
    }
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
  paper::judge_slow_memory(section, settings.latencies_ns);
  return section;
}

}  // namespace perdure::bench::reproduce
