// SPDX-License-Identifier: BSD-3-Clause
#include "measure/settings.h"

#include <unistd.h>

#include <fmt/core.h>

#include "papers/nvheaps/evaluation/full_sizes.h"

namespace perdure::bench::reproduce {

Settings default_settings() {
  Settings settings;
  settings.name = "default";
  settings.rules = {5, 0.1};
  settings.value_bytes = {8, 64, 256, 1024, 2048, 4096};
  settings.record_bytes = settings.value_bytes;
  settings.threads = {1, 2, 4};
  settings.idle_percent = {90, 50, 10};
  settings.latencies_ns = {150, 1000, 2000};
  settings.live = 2'000;
  settings.tree_nodes = {1024, 8192, 65536, 262144};
  settings.tree_inserts = 10'000;
  settings.replayed = {0, 100, 1'000, 10'000};
  settings.heap_objects = 20'000;
  settings.frame_mib = {64, 256};
  settings.regions = {1, 16, 256};
  settings.ldap_entries = 10'000;
  return settings;
}

Settings quick_settings() {
  Settings settings = default_settings();
  settings.name = "quick";
  settings.rules = {2, 0.002};
  settings.value_bytes = {8, 4096};
  settings.record_bytes = settings.value_bytes;
  settings.threads = {1, 2};
  settings.idle_percent = {50, 10};
  settings.latencies_ns = {150, 2000};
  settings.live = 64;
  settings.tree_nodes = {256, 1024};
  settings.tree_inserts = 100;
  settings.replayed = {0, 50};
  settings.heap_objects = 200;
  settings.frame_mib = {1, 4};
  settings.regions = {1, 4};
  settings.ldap_entries = 100;
  settings.blurred = {.threads = {1, 2},
                      .value_bytes = {8, 4096},
                      .operations = {1, 8},
                      .log_kib = {104, 1024},
                      .idle_percent = {50, 0},
                      .latencies_ns = {35, 2000},
                      .look_up_percent = {0, 90},
                      .live = 64,
                      .warm_up = 500};
  settings.softwrap = {.array_words = std::uint64_t{1} << 18,
                       .arrivals_per_s = {10e3, 200e3},
                       .alias_words = {1 << 8, 1 << 13},
                       .threads = {1, 2},
                       .line_ns = {0, 2000},
                       .stores = {1, 20},
                       .reuse_percent = {0, 90},
                       .tree_inserts = 100,
                       .tpcc_line_ns = {1000},
                       .tpcc_divisor = 100};
  settings.nvheaps = {
      .sizes = {.array_words = 4096, .keys = 500, .vertices = 128, .edges = 512, .scale = 6},
      .elements = 10'000,
      .updates = {1, 4, 64},
      .beside_others = {.array_words = 1000, .keys = 200, .vertices = 64, .edges = 256}};
  settings.thynvm = {.records = 300'000,
                     .values = {0, 4},
                     .operations = 200,
                     .instructions = 200'000,
                     .block_entries = {256, 2048},
                     .epochs_ms = {1, 10},
                     .nvm_percent = {100, 400}};
  settings.runtime = {
      .rules = {1, .05}, .work = .01, .steady_mib = 32, .steady_s = .3, .resumes = 2};
  return settings;
}

Settings full_settings() {
  Settings settings = default_settings();
  settings.name = "full";
  settings.rules = {9, 0.25};
  settings.value_bytes = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  settings.live = 50'000;
  settings.tree_inserts = 50'000;
  settings.heap_objects = 1'000'000;
  settings.frame_mib = {64, 256, 1024};
  settings.ldap_entries = 100'000;
  settings.blurred.live = 50'000;
  settings.softwrap.array_words = std::uint64_t{1} << 27;
  settings.softwrap.tree_inserts = 1'000'000;
  settings.softwrap.tpcc_divisor = 1;
  settings.nvheaps.sizes = nvheaps::full_sizes(nvheaps::free_memory_bytes());
  settings.nvheaps.beside_others = {
      .array_words = 1'000'000, .keys = 200'000, .vertices = 4096, .edges = 16'384};
  settings.thynvm.factor = 3;
  settings.thynvm.operations = 50'000;
  settings.thynvm.instructions = 1'000'000'000;
  settings.runtime.rules = {7, 6};
  settings.runtime.work = 3;
  settings.runtime.most_s = 3 * 3600;
  settings.runtime.steady_s = 20;
  return settings;
}

void tell_progress(const std::string& what, std::size_t done, std::size_t total) {
  // One line that changes, or a line each where nobody watches.
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  fmt::print(stderr, "{}{} ({} of {}){}", terminal ? "\r" : "", what, done + 1, total,
             terminal ? "\033[K" : "\n");
}

void tell_end(double seconds) {
  fmt::print(stderr, "{}measured in {:.0f} s\n", ::isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "",
             seconds);
}

}  // namespace perdure::bench::reproduce
