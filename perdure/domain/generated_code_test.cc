// SPDX-License-Identifier: BSD-3-Clause
// "Zero cost" is a claim about generated code, so it is checked there: a store, its write-back and
// the fence through a hardware domain must compile to the instructions that a programmer would
// write by hand with intrinsics.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/domain/adr.h"
#include "perdure/domain/dram.h"
#include "perdure/domain/eadr.h"

namespace perdure {
namespace {

static_assert(std::is_empty_v<Adr<x86::Clwb>> && std::is_empty_v<Eadr> && std::is_empty_v<Dram>);

// The pairs that are compared. `line` is aligned by hand, as the engines' flushes of home lines
// are.
constexpr const char* kSource = R"(
#include <immintrin.h>
#include "perdure/domain/adr.h"
#include "perdure/domain/dram.h"
#include "perdure/domain/eadr.h"

using namespace perdure;

static inline Word* line_of(Word* word) {
  return reinterpret_cast<Word*>(reinterpret_cast<std::uintptr_t>(word) & ~(kLineBytes - 1));
}
template <class D>
static inline void publish(Word* word, Word value) {
  D domain;
  domain.store(word, value);
  domain.flush(line_of(word), kLineBytes, Site::kHome);
  (void)domain.fence(Site::kLogCommit);
}

extern "C" {
void adr_by_domain(Word* word, Word value) { publish<Adr<x86::Clwb>>(word, value); }
void adr_by_hand(Word* word, Word value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  _mm_clwb(line_of(word));
  _mm_sfence();
}
void eadr_by_domain(Word* word, Word value) { publish<Eadr>(word, value); }
void eadr_by_hand(Word* word, Word value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  _mm_sfence();
}
void dram_by_domain(Word* word, Word value) { publish<Dram>(word, value); }
void dram_by_hand(Word* word, Word value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
}
)";

/// The mnemonics of each function in an assembly file, in order.
std::vector<std::string> mnemonics(const std::string& assembly, const std::string& function) {
  std::vector<std::string> found;
  std::istringstream lines(assembly);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(function + ":")) {
      inside = true;
      continue;
    }
    if (!inside) continue;
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == ".cfi_endproc") break;
    // Directives, labels, comments of inline assembly and the landing pad of indirect calls are not
    // instructions.
    if (word.empty() || word[0] == '.' || word[0] == '#' || word.back() == ':' || word == "endbr64")
      continue;
    found.push_back(word);
  }
  return found;
}

/// Compiles kSource as a release build does; empty when there is no compiler on this machine.
std::string compile() {
  const auto dir =
      std::filesystem::temp_directory_path() / ("perdure-code-" + std::to_string(::getpid()));
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "source.cc") << kSource;
  const char* compiler = std::getenv("CXX");
  const std::string command = std::string(compiler == nullptr ? "c++" : compiler) +
                              " -std=c++20 -O2 -mclwb -S -I'" PERDURE_SOURCE_DIR "' '" +
                              (dir / "source.cc").string() + "' -o '" +
                              (dir / "source.s").string() + "'";
  std::stringstream assembly;
  if (std::system(command.c_str()) == 0) assembly << std::ifstream(dir / "source.s").rdbuf();
  std::filesystem::remove_all(dir);
  return assembly.str();
}

class GeneratedCodeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::system("${CXX:-c++} --version > /dev/null 2>&1") == 0) assembly = compile();
  }
  void SetUp() override {
    if (std::system("${CXX:-c++} --version > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "no compiler on this machine";
    ASSERT_FALSE(assembly.empty()) << "the domains' headers do not compile alone";
  }
  static void expect_same(const std::string& domain, std::size_t most) {
    const std::vector<std::string> ours = mnemonics(assembly, domain + "_by_domain");
    const std::vector<std::string> by_hand = mnemonics(assembly, domain + "_by_hand");
    ASSERT_FALSE(by_hand.empty());
    EXPECT_LE(by_hand.size(), most) << "the baseline itself has grown";
    EXPECT_EQ(ours, by_hand);
    for (const std::string& instruction : ours) {
      EXPECT_NE(instruction[0], 'j') << "a branch: " << instruction;
      EXPECT_NE(instruction.substr(0, 4), "call");
    }
  }
  static inline std::string assembly;
};

TEST_F(GeneratedCodeTest, AdrIsStoreClwbSfence) { expect_same("adr", 5); }
TEST_F(GeneratedCodeTest, EadrIsStoreSfence) { expect_same("eadr", 3); }
TEST_F(GeneratedCodeTest, DramIsAStore) { expect_same("dram", 2); }

}  // namespace
}  // namespace perdure
