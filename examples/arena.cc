// SPDX-License-Identifier: BSD-3-Clause
// An ordinary std::map that survives: counts how often each word was given on the command line, in this run and all before.
#include "perdure/arena.h"

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

using Text = std::basic_string<char, std::char_traits<char>, perdure::arena_allocator<char>>;
using Words = std::map<Text, std::uint64_t, std::less<>,
                       perdure::arena_allocator<std::pair<const Text, std::uint64_t>>>;

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): an error may end an example
  perdure::ArenaOptions options;
  options.capacity_bytes = 16 << 20;
  auto opened = perdure::Arena::open_or_create("words.arena", options);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 1;
  }
  perdure::Arena& arena = opened.value();
  auto& words = arena.make_root<Words>("words");
  for (int i = 1; i < argc; ++i) ++words[Text(argv[i], arena.allocator<char>())];
  ++words[Text("(runs)", arena.allocator<char>())];
  if (const auto saved = arena.persist(); !saved) {
    std::fprintf(stderr, "%s\n", saved.error().message.c_str());
    return 1;
  }
  for (const auto& [word, count] : words)
    std::printf("%s %llu\n", word.c_str(), static_cast<unsigned long long>(count));
}
