// SPDX-License-Identifier: BSD-3-Clause
#include "apps/kv/data_set.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/core.h>

#include "perdure/error.h"

namespace perdure::kv {
namespace {

constexpr const char* kWordNet = "/usr/share/wordnet/data.";
constexpr const char* kWords = "/usr/share/dict/words";

/// One line of a WordNet data file (wndb(5WN)): offset, file, type, word count in hex, words with
/// ids, …, | gloss.
bool parse_synset(const std::string& line, char part_of_speech, Record& record) {
  const auto bar = line.find(" | ");
  if (line.empty() || line[0] == ' ' || bar == line.npos) return false;  // the licence, indented
  std::istringstream fields(line);
  std::string offset;
  std::string skipped;
  int words = 0;
  fields >> offset >> skipped >> skipped >> std::hex >> words >> std::dec;
  record.key = std::string(1, part_of_speech) + ':' + offset;
  record.value.clear();
  for (int i = 0; i < words; ++i) {
    std::string word;
    fields >> word >> skipped;
    std::replace(word.begin(), word.end(), '_', ' ');
    record.value += (i > 0 ? ", " : "") + word;
  }
  record.value += ": " + line.substr(bar + 3, line.find_last_not_of(' ') - bar - 2);
  return static_cast<bool>(fields);
}

DataSet load_word_net(std::uint64_t limit) {
  DataSet set{"WordNet 3.0 (Debian package wordnet-base)", {}};
  constexpr std::pair<const char*, char> kFiles[] = {
      {"noun", 'n'}, {"verb", 'v'}, {"adj", 'a'}, {"adv", 'r'}};
  for (const auto& [name, part_of_speech] : kFiles) {
    std::ifstream file(kWordNet + std::string(name));
    Record record;
    for (std::string line; set.records.size() < limit && std::getline(file, line);) {
      if (parse_synset(line, part_of_speech, record)) set.records.push_back(record);
    }
  }
  return set;
}

DataSet load_word_list(std::uint64_t limit) {
  DataSet set{
      std::string(kWords) + " (install the package wordnet-base for words with their meanings)",
      {}};
  std::ifstream file(kWords);
  std::uint64_t number = 0;
  for (std::string word; set.records.size() < limit && std::getline(file, word);) {
    set.records.push_back({word, fmt::format("{}, word {} of the list", word, ++number)});
  }
  return set;
}

}  // namespace

DataSet load_data_set(std::uint64_t limit) {
  DataSet set = load_word_net(limit);
  if (set.records.empty()) set = load_word_list(limit);
  if (set.records.empty())
    throw Exception(Code::kNotFound, std::string("no data set: neither ") + kWordNet + "noun nor " +
                                         kWords + " is there; install the package wordnet-base");
  return set;
}

}  // namespace perdure::kv
