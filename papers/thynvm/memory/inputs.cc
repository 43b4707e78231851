// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/inputs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/crash/choices.h"

namespace perdure::memory {

using crash::Random;

std::string text_input(std::size_t bytes) {
  constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz";
  constexpr std::size_t kWords = 60'000;
  Random random(1);
  std::vector<std::string> words(kWords);
  for (std::string& word : words) {
    const std::uint64_t letters = 2 + random.below(8);
    // The smaller of two draws: letters at the front are the frequent ones.
    for (std::uint64_t i = 0; i < letters; ++i)
      word += kLetters[std::min(random.below(kLetters.size()), random.below(kLetters.size()))];
  }
  std::string text;
  text.reserve(bytes + 128);
  while (text.size() < bytes) {
    for (int i = 0; i < 12; ++i) {
      std::uint64_t rank = random.below(kWords);
      for (int draw = 0; draw < 3; ++draw) rank = random.below(rank + 1);
      text += words[rank];
      text += i == 11 ? '\n' : ' ';
    }
  }
  text.resize(bytes);
  return text;
}

std::string cplusplus_input() {
  constexpr std::array kHeaders = {
      "algorithm", "any",      "array",      "atomic",        "bitset",        "chrono",
      "complex",   "deque",    "filesystem", "forward_list",  "functional",    "future",
      "iomanip",   "iostream", "iterator",   "list",          "locale",        "map",
      "memory",    "mutex",    "numeric",    "optional",      "queue",         "random",
      "ranges",    "regex",    "set",        "span",          "sstream",       "stack",
      "string",    "thread",   "tuple",      "unordered_map", "unordered_set", "valarray",
      "variant",   "vector"};
  std::string source;
  for (const char* header : kHeaders) source += "#include <" + std::string(header) + ">\n";
  for (int i = 0; i < 60; ++i) {
    const std::string n = std::to_string(i);
    source +=
        "struct S" + n + " { int key; std::string name; std::vector<double> values; };\n" +
        "double work" + n + "(std::map<std::string, S" + n + ">& m, const std::string& text) {\n" +
        "  std::unordered_map<int, std::list<S" + n + ">> groups;\n" +
        "  std::regex words(\"([a-z]+)\");\n  double sum = 0;\n" +
        "  for (auto i = std::sregex_iterator(text.begin(), text.end(), words); "
        "i != std::sregex_iterator(); ++i)\n" +
        "    { auto& s = m[i->str(1)]; s.values.push_back(" + n +
        "); groups[s.key].push_back(s); }\n" +
        "  for (auto& [key, list] : groups) { list.sort([](auto& a, auto& b) { return a.name < "
        "b.name; });\n" +
        "    for (auto& s : list) sum += std::accumulate(s.values.begin(), s.values.end(), "
        "double(key)); }\n" +
        "  std::ostringstream out; out << sum; return std::stod(out.str()); }\n";
  }
  return source;
}

std::string linear_program_input(unsigned rows, unsigned columns) {
  Random random(2);
  std::vector<std::string> constraints(rows);
  std::string goal = "Maximize\n value:";
  for (unsigned column = 0; column < columns; ++column) {
    const std::string x = " x" + std::to_string(column) + "\n";
    goal += " + " + std::to_string(1 + random.below(20)) + x;
    for (unsigned quarter = 0; quarter < 4; ++quarter)  // A row may name a column once.
      constraints[quarter * (rows / 4) + random.below(rows / 4)] +=
          " + " + std::to_string(1 + random.below(9)) + x;
  }
  std::string program = goal + "Subject To\n";
  for (unsigned row = 0; row < rows; ++row)
    if (!constraints[row].empty())
      program += " r" + std::to_string(row) + ":" + constraints[row] +
                 " <= " + std::to_string(100 + random.below(900)) + "\n";
  return program + "End\n";
}

std::string sql_input(unsigned rows) {
  const std::string n = std::to_string(rows);
  const auto draws = [](const std::string& count, unsigned seed) {
    return "with recursive draw(n, x) as (select 1, " + std::to_string(seed) +
           " union all select n + 1, (x * 1103515245 + 12345) % 2147483648 from draw where n < " +
           count + ") ";
  };
  std::string sql =
      "create table item(id integer primary key, key integer, name text, price real);\n"
      "create index by_key on item(key);\n" +
      draws(n, 1) + "insert into item select n, x, 'item number ' || x, x % 1000 from draw;\n";
  for (unsigned i = 0; i < 100; ++i)
    sql += draws(n + " / 8", 10 + i) + "replace into item select 1 + x / 8 % " + n +
           ", x, 'replaced by ' || x, n from draw;\n" + draws(n + " / 8", 20 + i) +
           "select sum(price) from draw join item on item.id = 1 + x / 8 % " + n + ";\n";
  return sql;
}

std::string perl_input() {
  return "my %count; my %follows;\n"
         "while (my $line = <>) {\n"
         "  my $before = '';\n"
         "  for my $word (split ' ', $line) {\n"
         "    ++$count{$word}; ++$follows{\"$before $word\"}; $before = $word;\n"
         "  }\n"
         "}\n"
         "for my $pair (sort { $follows{$b} <=> $follows{$a} || $a cmp $b } keys %follows) {\n"
         "  print \"$pair $follows{$pair}\\n\" if $follows{$pair} > 1;\n"
         "}\n";
}

std::string xml_input(unsigned entries) {
  Random random(5);
  std::string xml = "<?xml version=\"1.0\"?>\n<catalogue>\n";
  for (unsigned entry = 0; entry < entries; ++entry)
    xml += "<entry id=\"e" + std::to_string(entry) + "\"><group>g" +
           std::to_string(random.below(500)) + "</group><name>n" +
           std::to_string(random.below(1'000'000)) + "</name><price>" +
           std::to_string(random.below(10'000)) + "</price></entry>\n";
  return xml + "</catalogue>\n";
}

std::string stylesheet_input() {
  return R"xsl(<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:key name="of-group" match="entry" use="group"/>
<xsl:template match="/catalogue"><table>
<xsl:for-each select="entry"><xsl:sort select="name"/>
<row><name><xsl:value-of select="name"/></name>
<others><xsl:value-of select="count(key('of-group', group))"/></others>
<sum><xsl:value-of select="sum(key('of-group', group)/price)"/></sum></row>
</xsl:for-each></table></xsl:template>
</xsl:stylesheet>
)xsl";
}

std::string scene_input(unsigned spheres) {
  Random random(6);
  std::string scene =
      "#version 3.7;\nglobal_settings { assumed_gamma 1 }\n"
      "camera { location <0, 6, -14> look_at <0, 1, 0> }\n"
      "light_source { <10, 20, -15> color rgb 1 }\n"
      "plane { y, 0 pigment { checker color rgb 1 color rgb 0.2 } finish { reflection 0.2 } }\n";
  for (unsigned sphere = 0; sphere < spheres; ++sphere)
    scene += "sphere { <" + std::to_string(int(random.below(20)) - 10) + "." +
             std::to_string(random.below(10)) + ", " + std::to_string(random.below(5)) + "." +
             std::to_string(random.below(10)) + ", " + std::to_string(int(random.below(20)) - 6) +
             "." + std::to_string(random.below(10)) + ">, 0.3 pigment { color rgb <0." +
             std::to_string(random.below(10)) + ", 0.5, 0." + std::to_string(random.below(10)) +
             "> } finish { reflection 0.3 phong 1 } }\n";
  return scene;
}

std::string python_input(unsigned entries) {
  return "class Item:\n"
         "    def __init__(self, key):\n"
         "        self.key = key\n"
         "        self.links = []\n"
         "state = 12345\n"
         "items = {}\n"
         "for i in range(" +
         std::to_string(entries) +
         "):\n"
         "    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)\n"
         "    key = 'k%d' % (state >> 40)\n"
         "    item = items.get(key)\n"
         "    if item is None:\n"
         "        item = items[key] = Item(key)\n"
         "    item.links.append(i)\n"
         "total = 0\n"
         "for step in range(20):\n"
         "    for key in sorted(items):\n"
         "        total += len(items[key].links)\n"
         "print(total)\n";
}

}  // namespace perdure::memory
