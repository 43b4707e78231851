// SPDX-License-Identifier: BSD-3-Clause
#include "papers/mnemosyne/evaluation/claims.h"

#include <algorithm>

#include <fmt/format.h>

#include "measure/claim.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce::paper {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr const char* kBerkeley = "Berkeley DB, 1 thread";

double median(const Section& section, const std::string& series, double x) {
  const Found found = value_at(section, series, x);
  return found ? found->value.median : 0;
}

/// Where the time of an insert goes on both sides.
std::string where_time_goes(const Section& section, double x) {
  const double theirs = median(section, kBerkeley, x);
  const double device = median(section, "Berkeley DB's device, 1 thread", x);
  return fmt::format(
      "At {:g} B an insert takes Berkeley DB {:.1f} us, of which syncs to the device account for "
      "{:.1f} us and its software for {:.1f} us; ours takes {:.1f} us in all.",
      x, theirs, device, theirs - device, median(section, kSynchronous, x));
}

/// "paper: <series>" is what the paper prints: every value of ours, over it.
void judge_printed(Sentence& says, const Section& section, const std::string& series,
                   std::string clause) {
  says.holds_for_each(
      std::move(clause),
      everywhere(section,
                 [&](double x) { return ratio_at(section, series, "paper: " + series, x); }),
      half_to_double(1, 1, "x"));
}

}  // namespace

std::string of_threads(const std::string& name, unsigned threads) {
  return fmt::format("{}, {} thread{}", name, threads, threads == 1 ? "" : "s");
}

void judge_costs(Section& section, const EmulatedMemory& memory) {
  std::vector<double> small;
  for (const double x : section.x) {
    if (x < kSmallWriteSetLines) small.push_back(x);
  }
  const auto word = [&](double x) { return value_at(section, kEachWord, x); };
  const auto line = [&](double x) { return value_at(section, kEachLine, x); };
  Sentence words(section, kWordCost);
  words.holds_for_each("190 ns for each word", between(section, 0, kSmallWriteSetLines - 1, word),
                       half_to_double(kWordNs, kWordNs, " ns"));
  words.because([&] {
    const double x = small.back();
    return fmt::format(
        "At {:g} lines a transaction takes {:.2f} us with one word a line and {:.2f} us with "
        "eight; "
        "of each word's {:.1f} ns the log's bandwidth takes {:.1f}.",
        x, median(section, "one word a line", x), median(section, "eight words a line", x),
        median(section, kEachWord, x), 8 * 64.0 / 63 / memory.gb_per_s);
  });
  Sentence more(section, kWordCostOfLarge);
  const double most = section.x.back();
  const auto by_lines = [&] {
    return fmt::format("A word costs {:.1f} ns at {:g} lines, {:.1f} at {:g}.",
                       median(section, kEachWord, small.back()), small.back(),
                       median(section, kEachWord, most), most);
  };
  more.holds("a word costs more with the most lines",
             growth(section, kEachWord, small.back(), most), above(1));
  more.because(by_lines);
  const double from = std::max(kSmallWriteSetLines, small.back());
  more.holds("in proportion to the lines", growth(section, kEachWord, small.back(), most),
             times(most / from, most / from));
  more.because(by_lines);
  Sentence lines(section, kLineCost);
  const auto where = [&] {
    const double x = small.back();
    return fmt::format("Of a further line's {:.0f} ns at {:g} lines {:.0f} are emulated.",
                       median(section, kEachLine, x), x,
                       memory.latency_ns + kLineBytes / memory.gb_per_s);
  };
  const Found dearest = greatest(between(section, 0, kSmallWriteSetLines - 1, line));
  lines.holds("250 ns for a line, where it is most", dearest,
              half_to_double(kLineNs, kLineNs, " ns"));
  lines.because(where);
  Sentence parts(section, kInsertParts);
  parts.counted();
  const double first = section.x.front();
  const auto counts = [&] {
    return fmt::format("An insert changes {:.1f} words in {:.1f} lines, the value among them.",
                       median(section, kInsertWords, first), median(section, kInsertLines, first));
  };
  parts.holds("15 updates", value_at(section, kInsertWords, first),
              half_to_double(kInsertUpdates, kInsertUpdates, " words"));
  parts.because(counts);
  parts.holds("5 distinct lines", value_at(section, kInsertLines, first),
              half_to_double(kInsertDistinctLines, kInsertDistinctLines, " lines"));
  parts.because(counts);
}

void judge_latency(Section& section, const std::vector<unsigned>& threads, unsigned cpus) {
  const auto gain = [&](double x) { return ratio_at(section, kBerkeley, kSynchronous, x); };
  const auto small = between(section, 0, kSmallValueBytes - 1, gain);
  const auto at_least_gain = [&] {
    double least_x = section.x.front();
    for (const double x : section.x) {
      if (x < kSmallValueBytes && gain(x)->value.median < gain(least_x)->value.median) least_x = x;
    }
    return where_time_goes(section, least_x);
  };
  Sentence says(section, kWriteLatencyGain.text);
  says.holds_for_each("ours is ahead at every size below 2048 B", small, above(1));
  says.because(at_least_gain);
  says.holds_for_each("almost six times at every size below 2048 B", small,
                      times(kWriteLatencyGain.low, kWriteLatencyGain.high));
  says.because(at_least_gain);
  Sentence large(section, kLargeValues);
  large.holds_for_each("Berkeley DB is ahead at every size above 2048 B",
                       between(section, kSmallValueBytes + 1, kAny, gain), below(1));
  large.because([&] { return where_time_goes(section, section.x.back()); });
  Sentence total(section, kInsertTotal);
  total.holds("an insert of 64 B takes 4.3 us", value_at(section, kSynchronous, kInsertBytes),
              half_to_double(kInsertUs, kInsertUs, " us"));
  Sentence scales(section, kLatencyOfThreads);
  std::vector<Found> ours;
  std::vector<Found> theirs;
  for (const unsigned more : threads) {
    if (more == 1 || more > cpus) continue;
    for (const double x : section.x) {
      ours.push_back(ratio_at(section, of_threads("perdure", more), "perdure, 1 thread", x));
      if (more == 2)
        theirs.push_back(ratio_at(section, of_threads("Berkeley DB", more), kBerkeley, x));
    }
  }
  scales.holds_for_each("ours rises slightly: by a quarter at most", ours, below(1.25));
  scales.holds_for_each("Berkeley DB's rises with two threads", theirs, above(1));
}

void judge_throughput(Section& section, const std::vector<unsigned>& threads, unsigned cpus) {
  std::vector<Found> gains;
  for (const unsigned many : threads) {
    if (many == 1 || many > cpus) continue;
    for (const double x : section.x) {
      Found gain =
          ratio_at(section, of_threads("perdure", many), of_threads("Berkeley DB", many), x);
      if (!gain) continue;
      gain->where += fmt::format(" with {} threads", many);
      const std::string retries = of_threads("Berkeley DB's retries", many);
      gain->of += fmt::format(", {:.2f} retries after a deadlock for each of its updates",
                              median(section, retries, x));
      gains.push_back(std::move(gain));
    }
  }
  Sentence says(section, kThroughputGain.text);
  says.holds_for_each("ours is ahead, with several threads and every size", gains, above(1));
  says.holds_for_each("10 to 14 times", gains, times(kThroughputGain.low, kThroughputGain.high));

  Sentence scales(section, kScaling);
  std::vector<Found> linear;
  std::vector<Found> beyond_two;
  unsigned most = 0;  // More threads than CPUs cannot show how a program scales.
  for (const unsigned many : threads) {
    if (many <= cpus) most = std::max(most, many);
  }
  for (const double x : section.x) {
    const double rate = median(section, "perdure, 1 thread", x);
    for (const unsigned many : threads) {
      if (many > 1 && many <= cpus && rate > 0)
        linear.push_back(
            divided(value_at(section, of_threads("perdure", many), x), rate * many, "x linear"));
    }
    if (most > 2)
      beyond_two.push_back(
          ratio_at(section, of_threads("Berkeley DB", most), of_threads("Berkeley DB", 2), x));
  }
  scales.holds_for_each("ours grows linearly, by a fifth", linear,
                        Band{.low = 0.8, .stated = "the paper: almost linear; 0.8 of it"});
  scales.because([&] { return fmt::format("The machine has {} CPUs, the paper's four.", cpus); });
  scales.holds_for_each("Berkeley DB's does not grow beyond two threads", beyond_two, below(1.1));

  Sentence large(section, kThroughputOfLarge);
  large.holds_for_each(
      "one thread, above 2048 B: ours is ahead",
      between(section, kSmallValueBytes + 1, kAny,
              [&](double x) { return ratio_at(section, "perdure, 1 thread", kBerkeley, x); }),
      above(1));
  large.holds("our deletes take the same at every size",
              growth(section, kSynchronousDeletes, section.x.front(), section.x.back()),
              near(1, "x"));
}

void judge_slow_memory(Section& section, const std::vector<double>& latencies_ns) {
  const double small = section.x.front();
  const auto gain_name = [](double ns) { return fmt::format("gain at {:.0f} ns", ns); };
  // How many latencies an insert waits for, one after the other, and what else it takes.
  const auto where = [&](double ns, double x) {
    const double first = latencies_ns.front();
    const auto parts = [&](const char* side) {
      const auto us = [&](double at) {
        return median(section, fmt::format("{} at {:.0f} ns", side, at), x);
      };
      const double waits = (us(ns) - us(first)) * 1e3 / (ns - first);
      return fmt::format("{} takes {:.1f} us: {:.1f} latencies and {:.1f} us besides", side, us(ns),
                         waits, us(first) - waits * first / 1e3);
    };
    return fmt::format("At {:g} B and {:.0f} ns {}; {}.", x, ns, parts("Berkeley DB"),
                       parts("perdure"));
  };
  std::vector<Found> always;
  for (const double ns : latencies_ns) always.push_back(value_at(section, gain_name(ns), small));
  Sentence faster(section, kAlwaysFaster);
  faster.holds_for_each("at the smallest size, with every latency", always, above(1));
  faster.because([&] { return where(latencies_ns.back(), small); });
  for (const SlowMemory& slow : kSlowMemory) {
    Sentence says(section, slow.text);
    says.holds(fmt::format("{:g} times at the smallest size", slow.gain),
               value_at(section, gain_name(slow.latency_ns), small), times(slow.gain, slow.gain));
    says.because([&] { return where(slow.latency_ns, small); });
  }
  Sentence parity(section, kParity);
  parity.holds("equal at 1024 B", value_at(section, gain_name(kParityLatencyNs), kParityBytes),
               near(1, "x"));
  parity.because([&] { return where(kParityLatencyNs, kParityBytes); });
}

void judge_store(Section& section) {
  Sentence says(section, kStoreGain.text);
  for (const StoreRow& row : kTable4) {
    const auto bytes = static_cast<double>(row.value_bytes);
    const double stated = row.mnemosyne / row.msync_on_pcm_disk;
    says.holds(fmt::format("{:.1f} times with values of {} B", stated, row.value_bytes),
               ratio_at(section, "perdure", "Tokyo Cabinet, msync", bytes), times(stated, stated));
    says.because([&] {
      return fmt::format(
          "An update takes Tokyo Cabinet {:.1f} us here and {:.0f} us in the paper, "
          "ours {:.1f} us and Mnemosyne {:.0f} us.",
          1e6 / median(section, "Tokyo Cabinet, msync", bytes), 1e6 / row.msync_on_pcm_disk,
          1e6 / median(section, "perdure", bytes), 1e6 / row.mnemosyne);
    });
  }
  Sentence printed(section, kStoreTable);
  printed.holds_for_each(
      "Mnemosyne's updates a second",
      everywhere(section,
                 [&](double x) { return ratio_at(section, "perdure", "paper: Mnemosyne", x); }),
      half_to_double(1, 1, "x"));
  judge_printed(printed, section, "Tokyo Cabinet, msync", "Tokyo Cabinet's updates a second");
}

void judge_store_threads(Section& section, unsigned threads, unsigned cpus) {
  const std::string ours = of_threads("perdure", threads);
  const std::string msync = "Tokyo Cabinet, msync";
  const std::string theirs = of_threads(msync, threads);
  Sentence degrades(section, kStoreThreads);
  Sentence grows(section, kPeerThreads);
  if (threads < 2 || threads > cpus) {
    const std::string why = fmt::format("The machine has {} CPU.", cpus);
    degrades.not_tested("9 % less", why);
    grows.not_tested("10 % more, and far below", why);
    return;
  }
  const auto rates = [&](const std::string& one, const std::string& several) {
    return [&section, one, several, threads] {
      const double x = section.x.front();
      const double alone = 1e6 / median(section, one, x);
      const double each = 1e6 * threads / median(section, several, x);
      return fmt::format(
          "At {:g} B an update takes {:.1f} us with one thread and each of {} threads {:.1f} us, "
          "{:.1f} times as long; throughput would fall only beyond {} times.",
          x, alone, threads, each, each / alone, threads);
    };
  };
  const auto loss =
      everywhere(section, [&](double x) { return loss_at(section, ours, "perdure", x); });
  degrades.holds_for_each("ours is less than with one thread", loss, above(0));
  degrades.because(rates("perdure", ours));
  degrades.holds_for_each("9 % less", loss, percent_less(kStoreThreadsLoss, kStoreThreadsLoss));
  degrades.because(rates("perdure", ours));
  const auto gain =
      everywhere(section, [&](double x) { return gain_at(section, theirs, msync, x); });
  grows.holds_for_each("Tokyo Cabinet's is more than with one thread", gain, above(0));
  grows.because(rates(msync, theirs));
  grows.holds_for_each("10 % more", gain, percent_more(kStoreThreadsGain, kStoreThreadsGain));
  grows.because(rates(msync, theirs));
  grows.holds_for_each(
      "far below: half of ours at most",
      everywhere(section, [&](double x) { return ratio_at(section, theirs, ours, x); }),
      below(0.5));
}

void judge_ldap(Section& section) {
  const double clients = section.x.front();
  // On the memory that the paper emulates; where no device could be made of it, on a disk.
  const bool in_memory = section.find(kMdbOnPcmDisk) != nullptr;
  const std::string ours = in_memory ? kLdapInMemory : "perdure";
  const std::string theirs = in_memory ? kMdbOnPcmDisk : "back-mdb";
  const auto us_of = [&](const std::string& name) { return 1e6 / median(section, name, clients); };
  const auto why = [&](const std::string& peer, double stated) {
    return [&section, us_of, clients, ours, peer, stated] {
      std::string text = fmt::format(
          "An add takes {} {:.0f} us of the clock and {} {:.0f} us; the paper's {:.0f} and {:.0f}.",
          ours, us_of(ours), peer, us_of(peer), 1e6 / kLdapMnemosyne, 1e6 / stated);
      const Found device = value_at(section, peer + ": device", clients);
      if (device)
        text += fmt::format(" Of the peer's the emulated device accounts for {:.1f} us.",
                            device->value.median);
      return text;
    };
  };
  const Found gain = gain_at(section, ours, theirs, clients);
  const double stated = 100 * (kLdapMnemosyne / kLdapBerkeley - 1);
  Sentence says(section, kLdapGain);
  says.holds(fmt::format("more than the transactional back end (here {})", theirs), gain, above(0));
  says.because(why(theirs, kLdapBerkeley));
  says.holds("35 % more", gain, percent_more(stated, stated));
  says.because(why(theirs, kLdapBerkeley));
  const Found over = gain_at(section, ours, kMdbNotSynced, clients);
  const double over_stated = 100 * (kLdapMnemosyne / kLdapNotSynced - 1);
  Sentence more(section, kLdapGainOverNotSynced);
  more.holds(fmt::format("more than without transactions (here {})", kMdbNotSynced), over,
             above(0));
  more.because(why(kMdbNotSynced, kLdapNotSynced));
  more.holds("22 % more", over, percent_more(over_stated, over_stated));
  more.because(why(kMdbNotSynced, kLdapNotSynced));
}

void judge_trees(Section& section) {
  const double small = section.x.front();
  const double large = section.x.back();
  Sentence grows(section, kTreeGrowth);
  judge_printed(grows, section, "insert", "the microseconds of an insert");
  const double stated = kTable5.back().insert_us / kTable5.front().insert_us;
  grows.holds("it grows slightly, 1.2 times from 1K to 256K nodes",
              growth(section, "insert", small, large), times(stated, stated));
  const auto share = [&](double x) {
    return divided(value_at(section, "inserts per serialization", x), x / 100, "% of the nodes");
  };
  const auto why = [&] {
    return fmt::format(
        "At {:g} nodes serialising takes {:.0f} ns for each node, {:.0f} us in all "
        "for the emulated device; an insert takes {:.0f} ns.",
        large, median(section, "serialize", large) / large * 1e3,
        median(section, "serialize: device", large), median(section, "insert", large) * 1e3);
  };
  Sentence shares(section, kTreeShare);
  shares.holds("10 % on average", mean_of(everywhere(section, share)),
               half_to_double(10, 10, " %"));
  shares.because(why);
  judge_printed(shares, section, "inserts per serialization", "the table's inserts");
  shares.because(why);
  judge_printed(shares, section, "serialize", "the microseconds of a serialisation");
  shares.because(why);
}

void judge_logs(Section& section) {
  const auto gain = [&](double x) { return gain_at(section, "tornbit", "base", x); };
  const auto append_ns = [&](const char* log, double x) {
    return x / median(section, log, x) * 1e3;
  };
  const auto costs = [&](double x) {
    return fmt::format("At {:g} B an append takes the base {:.0f} ns and the torn-bit log {:.0f}.",
                       x, append_ns("base", x), append_ns("tornbit", x));
  };
  const auto small = between(section, 0, kSmallValueBytes - 1, gain);
  Sentence below_two(section, kTornbitSmall);
  below_two.holds_for_each("ahead at every size below 2048 B", small, above(0));
  below_two.because([&] { return costs(section.x.front()); });
  below_two.holds("at best 100 % better", greatest(small), percent_more(100, 100));
  below_two.because([&] { return costs(section.x.front()); });
  Sentence from_two(section, kTornbitLarge);
  from_two.holds_for_each("slower at every size from 2048 B",
                          between(section, kSmallValueBytes, kAny, gain), below(0));
  from_two.because([&] { return costs(section.x.back()); });
  Sentence printed(section, kLogTable);
  judge_printed(printed, section, "base", "the base's MB/s");
  judge_printed(printed, section, "tornbit", "the torn-bit log's MB/s");
}

void judge_truncation(Section& section, const std::vector<unsigned>& idle_percent) {
  std::vector<Found> idle_ones;
  std::vector<Found> busy_ones;
  const double largest = section.x.back();
  const auto latencies = [&](unsigned idle, double x) {
    return fmt::format(
        "At {:g} B and {} % idle an insert takes {:.2f} us synchronously, {:.2f} us with the "
        "truncation in the background, which lets the program wait for {:.1f} % of its time.",
        x, idle, median(section, fmt::format("synchronous, {} % idle", idle), x),
        median(section, fmt::format("asynchronous, {} % idle", idle), x),
        median(section, fmt::format("asynchronous stalled, {} % idle", idle), x));
  };
  for (const unsigned idle : idle_percent) {
    for (const double x : section.x) {
      Found decrease = value_at(section, fmt::format("decrease, {} % idle", idle), x);
      if (!decrease) continue;
      decrease->unit = "% lower";
      decrease->where += fmt::format(", {} % idle", idle);
      decrease->of = latencies(idle, x);
      if (idle >= 50)
        idle_ones.push_back(std::move(decrease));
      else if (x == largest)
        busy_ones.push_back(std::move(decrease));
    }
  }
  Sentence gains(section, kTruncationGain.text);
  gains.holds_for_each("lower at every size", idle_ones, above(0));
  gains.holds_for_each("by 7 to 31 %", idle_ones,
                       half_to_double(kTruncationGain.low, kTruncationGain.high, " % lower"));
  Sentence loses(section, kTruncationLoss.text);
  loses.holds_for_each("higher with the largest values", busy_ones, below(0));
  for (Found& busy : busy_ones) {
    const Spread lower = busy->value;
    busy->value = {-lower.median, -lower.max, -lower.min};
    busy->unit = "% higher";
  }
  loses.holds_for_each("by 42 % at 4 KB", busy_ones,
                       half_to_double(kTruncationLoss.high, kTruncationLoss.high, " % higher"));
}

void judge_slow_truncation(Section& section, const std::vector<unsigned>& idle_percent) {
  Sentence lowers(section, kSlowTruncation);
  for (const unsigned idle : idle_percent) {
    const auto named = [&](const char* series) {
      return fmt::format("{}, {} % idle", series, idle);
    };
    const auto why = [&](double x) {
      return [&section, named, idle, x] {
        return fmt::format(
            "At {:g} B and {} % idle an insert takes {:.1f} us synchronously and {:.1f} us with "
            "the truncation in the background, which lets the program wait for {:.1f} % of its "
            "time.",
            x, idle, median(section, named("synchronous"), x),
            median(section, named("asynchronous"), x),
            median(section, named("asynchronous stalled"), x));
      };
    };
    for (const SlowTruncation& stated : kSlowTruncations) {
      const auto x = static_cast<double>(stated.value_bytes);
      const Found less = loss_at(section, named("asynchronous"), named("synchronous"), x);
      lowers.holds(fmt::format("less at {:g} B, {} % idle", x, idle), less, above(0));
      lowers.because(why(x));
      lowers.holds(fmt::format("{:g} % less at {:g} B, {} % idle", stated.less_percent, x, idle),
                   less, percent_less(stated.less_percent, stated.less_percent));
      lowers.because(why(x));
    }
  }
  Sentence ahead(section, kSlowTruncationAhead);
  for (const unsigned idle : idle_percent) {
    const auto gain = [&](double x) {
      return ratio_at(section, fmt::format("Berkeley DB, {} % idle", idle),
                      fmt::format("asynchronous, {} % idle", idle), x);
    };
    ahead.holds_for_each(fmt::format("ahead of Berkeley DB, {} % idle", idle),
                         everywhere(section, gain), above(1));
  }
}

void judge_boot(Section& section) {
  const Found found = value_at(section, "reconstruct, each GiB", section.x.back());
  Sentence says(section, kBoot);
  says.holds("less than a second", found, below(1000));
  says.holds("734 ms for 1 GB", found, half_to_double(kBootMsPerGib, kBootMsPerGib, " ms"));
  says.because([&] {
    return fmt::format("An entry takes {:.0f} ns to read, check and index.",
                       found->value.median * 1e6 / (1 << 18));
  });
}

void judge_remap(Section& section) {
  // The paper does not say how many regions its workloads have: few.
  const double few = section.x.front();
  Sentence says(section, kRemap);
  says.holds("1.1 ms with the fewest regions", value_at(section, "remap", few),
             half_to_double(kRemapMs, kRemapMs, " ms"));
  says.because([&] {
    const double more = section.x.back();
    const double each =
        (median(section, "remap", more) - median(section, "remap", few)) / (more - few);
    return fmt::format("Each further region takes {:.3f} ms.", each);
  });
}

void judge_reincarnation(Section& section) {
  const double most = section.x.back();
  Sentence whole(section, kReincarnation);
  whole.holds_for_each("less than 100 ms, whatever there is to replay",
                       everywhere(section, [&](double x) { return value_at(section, "open", x); }),
                       below(kReincarnationMs));
  whole.because([&] {
    return fmt::format(
        "With {:g} transactions replaying takes {:.1f} ms, the heap {:.1f} ms and "
        "the rest {:.1f} ms.",
        most, median(section, "replay", most), median(section, "heap rebuild", most),
        median(section, "map and check", most));
  });
  whole.not_tested(
      "scavenging the heap takes 89 ms",
      fmt::format("The paper does not say how large its heap is; ours takes {:.1f} ms.",
                  median(section, "heap rebuild", section.x.front())));
  Sentence each(section, kReplayUs.text);
  each.holds_for_each(
      "3 to 76 us",
      everywhere(section,
                 [&](double x) { return value_at(section, "replay, each transaction", x); }),
      half_to_double(kReplayUs.low, kReplayUs.high, " us"));
  each.because([&] {
    return fmt::format("A transaction has {:.0f} words to replay.",
                       median(section, "words, each transaction", most));
  });
}

}  // namespace perdure::bench::reproduce::paper
