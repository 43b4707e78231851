// SPDX-License-Identifier: BSD-3-Clause
// Static variables from run to run, and when their layout changes: by hand, as programs of other
// builds would declare them. tests/statics_test.cc does it with real executables.
#include "perdure/api/statics.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/address_space.h"
#include "tests/small_space.h"

namespace perdure {
namespace {

using testing::contents_of;
using testing::contents_of_directory;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::small_space_options;
using testing::store_durably;
using testing::TempDir;
using testing::TestStatics;
using OnChange = Statics::OnChange;
using Variables = std::vector<StaticVariable>;

// ---- text ---------------------------------------------------------------------------------------

TEST(StaticsText, AListSurvivesItsTextForm) {
  const Variables variables = {{"head", 0, 8},
                               {"a name with spaces", 8, 4096},
                               {"_ZN4list4headE", 4104, 0},
                               {"", 4104, 1},
                               {"far", ~std::uint64_t{0}, ~std::uint64_t{0}}};
  EXPECT_EQ(to_text({variables[0], variables[2]}), "0 8 head\n4104 0 _ZN4list4headE\n");
  EXPECT_EQ(variables_from_text(to_text(variables)).value(), variables);
  EXPECT_TRUE(variables_from_text("").value().empty());
}

TEST(StaticsText, WhatIsNoListIsRefused) {
  for (const std::string_view text :
       {"\n", "0\n", "0 8\n", "0 8 head", "x 8 head\n", "0 y head\n", "-1 8 head\n", " 0 8 head\n",
        "0  8 head\n", "18446744073709551616 8 head\n", "0 8 head\n1", "0 8 head\n\n", "0 8"}) {
    const auto read = variables_from_text(text);
    ASSERT_FALSE(read.ok()) << '"' << text << '"';
    EXPECT_EQ(read.error().code, Code::kCorrupt);
  }
}

TEST(StaticsText, NoBytesAreTooStrangeToBeRead) {
  std::mt19937_64 random(1);
  const std::string_view letters = "0123456789 \n-x";
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 40, ' ');
    for (char& letter : text) letter = letters[random() % letters.size()];
    const std::string padded = text + "7 7 x\n";  // what lies behind must not be read
    auto read = variables_from_text(std::string_view(padded).substr(0, text.size()));
    if (read.ok()) {
      EXPECT_EQ(variables_from_text(to_text(read.value())).value(), read.value());
    }
  }
}

TEST(StaticsText, AChangeIsToldByName) {
  const Variables before = {{"kept", 0, 8}, {"gone", 8, 4}, {"grown", 16, 8}, {"moved", 24, 8}};
  EXPECT_EQ(describe_change(before, before), "");
  EXPECT_EQ(describe_change(before,
                            {{"kept", 0, 8}, {"fresh", 8, 2}, {"grown", 16, 12}, {"moved", 32, 8}}),
            "gone (4 bytes) is gone, grown had 8 bytes, has 12, moved moved from byte 24 to 32"
            ", fresh (2 bytes) is new");
  Variables many;
  for (int i = 0; i < 20; ++i) many.push_back({"v" + std::to_string(i), 0, 1});
  const std::string told = describe_change(many, {}, 3);
  EXPECT_THAT(told, HasSubstr("v2 (1 bytes) is gone"));
  EXPECT_THAT(told, Not(HasSubstr("v3 ")));
  EXPECT_THAT(told, HasSubstr("17 more"));
}

// ---- runs of programs ---------------------------------------------------------------------------

/// A program: what it declares, and its variables' values as its executable has them.
struct Program {
  std::vector<std::uint8_t> build_id;
  Variables variables;  // whole words
  std::uint64_t initial = 0;
  std::uint64_t pages = 1;
};

/// One run of it: its memory, and the address space that it opened.
struct Session {
  Session(const std::string& path, const Program& program, OnChange on_change, DomainKind domain)
      : memory(program.pages) {
    for (const StaticVariable& variable : program.variables) {
      for (std::uint64_t at = 0; at < variable.bytes; at += kWordBytes)
        memory.word((variable.offset + at) / kWordBytes) = program.initial;
    }
    auto options = small_space_options(domain);
    options.statics = memory.declared(program.build_id, program.variables, on_change);
    auto opened = AddressSpace::open_or_create(path, options);
    if (opened) {
      space = std::move(opened).value();
    } else {
      error = opened.error();
    }
  }
  std::string code() const { return space ? "ok" : std::string(code_name(error.code)); }
  void set(std::size_t word, std::uint64_t value) {
    store_durably(*space, *space->fixed_address(&memory.word(word)), value);
  }
  TestStatics memory;
  Error error{};
  std::unique_ptr<AddressSpace> space;  // closed before its variables go
};

struct StaticsTest : ::testing::TestWithParam<DomainKind> {
  Session run(const Program& program, OnChange on_change = OnChange::kRefuse) const {
    return Session(path, program, on_change, GetParam());
  }
  TempDir dir{GetParam() == DomainKind::kSync ? ::testing::TempDir() : "/dev/shm/"};
  std::string path = dir / "space";
  const Program first{{1, 2, 3}, {{"a", 0, 8}, {"b", 8, 8}, {"c", 16, 16}}, 5};
};
INSTANTIATE_TEST_SUITE_P(Domains, StaticsTest,
                         ::testing::Values(DomainKind::kDram, DomainKind::kSync),
                         [](const auto& of) { return std::string(domain_name(of.param)); });

TEST_P(StaticsTest, TheFirstRunHasTheInitialValuesAndLaterOnesTheLast) {
  {
    Session one = run(first);
    ASSERT_EQ(one.code(), "ok") << one.error.message;
    EXPECT_EQ(one.memory.word(0), 5u);
    one.set(0, 6);
    EXPECT_EQ(one.memory.word(0), 6u) << "the variable and its fixed address are one";
    one.set(3, 7);
  }
  for (int again = 0; again < 2; ++again) {
    Session two = run(first);
    EXPECT_EQ(two.memory.word(0), 6u);
    EXPECT_EQ(two.memory.word(1), 5u);
    EXPECT_EQ(two.memory.word(3), 7u);
  }
  Program rebuilt = first;
  rebuilt.build_id = {9};
  rebuilt.initial = 1000;
  EXPECT_EQ(run(rebuilt).memory.word(0), 6u) << "another build with the same layout";
}

TEST_P(StaticsTest, AnotherLayoutIsRefusedUntilSomebodySaysHow) {
  {
    run(first).set(0, 6);
  }
  const Program moved{{4}, {{"fresh", 0, 8}, {"a", 8, 8}, {"b", 16, 8}, {"c", 24, 16}}, 50};
  const auto before = contents_of_directory(path);
  Session refused = run(moved);
  EXPECT_EQ(refused.code(), "type-mismatch");
  for (const char* part : {"statics.region", "'program' (build 010203, 4096 bytes", "build 04",
                           "a moved from byte 0 to 8", "fresh (8 bytes) is new",
                           "PERDURE_STATICS=migrate", "PERDURE_STATICS=reset"})
    EXPECT_THAT(refused.error.message, HasSubstr(part));
  EXPECT_EQ(contents_of(path + "/statics.region"), before.at("statics.region"));
  EXPECT_EQ(refused.memory.word(1), 50u) << "the program's variables are untouched";
  {
    Session migrated = run(moved, OnChange::kMigrate);
    ASSERT_EQ(migrated.code(), "ok") << migrated.error.message;
    EXPECT_EQ(migrated.memory.word(0), 50u) << "a new one has its initial value";
    EXPECT_EQ(migrated.memory.word(1), 6u);
    EXPECT_EQ(migrated.memory.word(2), 5u);
    migrated.set(0, 51);
  }
  Session after = run(moved);
  EXPECT_EQ(after.memory.word(0), 51u);
  EXPECT_EQ(after.memory.word(1), 6u);
  after.space.reset();
  EXPECT_EQ(run(first).code(), "type-mismatch") << "the old program is now the other one";
  EXPECT_FALSE(std::filesystem::exists(path + "/statics.region.new"));
}

TEST_P(StaticsTest, OnlyMigrateAndDropDropsValues) {
  {
    run(first).set(0, 6);
  }
  const Program less{{4}, {{"a", 0, 8}, {"c", 8, 8}}, 50};  // b is gone, c is half as large
  Session refused = run(less, OnChange::kMigrate);
  EXPECT_EQ(refused.code(), "type-mismatch");
  EXPECT_THAT(refused.error.message, HasSubstr("'b' would lose its value"));
  EXPECT_THAT(refused.error.message, HasSubstr("PERDURE_STATICS=migrate,drop"));
  EXPECT_EQ(run(first).memory.word(0), 6u) << "nothing has changed";
  Session dropped = run(less, OnChange::kMigrateAndDrop);
  ASSERT_EQ(dropped.code(), "ok") << dropped.error.message;
  EXPECT_EQ(dropped.memory.word(0), 6u);
  EXPECT_EQ(dropped.memory.word(1), 50u) << "another size is another variable";
  dropped.space.reset();
  EXPECT_EQ(run(less).memory.word(0), 6u);
}

TEST_P(StaticsTest, ResetStartsTheVariablesOverAndOnlyThem) {
  {
    Session one = run(first);
    one.set(0, 6);
    *one.space->pool().root<std::uint64_t>("kept") = 0;
    store_durably(*one.space, *one.space->pool().root<std::uint64_t>("kept"), 77);
  }
  const Program other{{4}, {{"x", 0, 8}}, 50, 3};
  Session reset = run(other, OnChange::kReset);
  ASSERT_EQ(reset.code(), "ok") << reset.error.message;
  EXPECT_EQ(reset.memory.word(0), 50u);
  EXPECT_EQ(*reset.space->pool().root<std::uint64_t>("kept"), 77u);
  reset.set(0, 51);
  reset.space.reset();
  EXPECT_EQ(run(other, OnChange::kReset).memory.word(0), 51u) << "where nothing changed, nothing";
}

TEST_P(StaticsTest, RemovingTheFileStartsTheVariablesOverAndOnlyThem) {
  {
    Session one = run(first);
    one.set(0, 6);
    store_durably(*one.space, *one.space->pool().root<std::uint64_t>("kept"), 77);
  }
  std::filesystem::remove(path + "/statics.region");
  Session over = run(first);
  EXPECT_EQ(over.memory.word(0), 5u);
  EXPECT_EQ(*over.space->pool().root<std::uint64_t>("kept"), 77u);
}

TEST_P(StaticsTest, AStrippedProgramIsKnownByItsBuild) {
  Program stripped = first;
  {
    run(first).set(0, 6);
  }
  stripped.variables.clear();
  EXPECT_EQ(run(stripped).memory.word(0), 6u) << "stripped after it was built";
  stripped.build_id = {4};
  for (const OnChange how : {OnChange::kRefuse, OnChange::kMigrate, OnChange::kMigrateAndDrop}) {
    Session refused = run(stripped, how);
    EXPECT_EQ(refused.code(), "type-mismatch");
    EXPECT_THAT(refused.error.message, HasSubstr("stripped"));
    EXPECT_THAT(refused.error.message, HasSubstr("PERDURE_STATICS=reset"));
  }
  stripped.build_id.clear();
  Session anonymous = run(stripped);
  EXPECT_EQ(anonymous.code(), "type-mismatch") << "nothing says that it is the same";
  EXPECT_THAT(anonymous.error.message, HasSubstr("build id"));
  EXPECT_EQ(run(first).memory.word(0), 6u);
}

TEST_P(StaticsTest, AProgramWithoutVariablesLeavesThemAlone) {
  {
    run(first).set(0, 6);
  }
  const auto before = contents_of(path + "/statics.region");
  {
    auto space = AddressSpace::open_or_create(path, small_space_options(GetParam())).value();
    store_durably(*space, *space->pool().root<std::uint64_t>("root"), 1);
  }
  EXPECT_EQ(contents_of(path + "/statics.region"), before);
  EXPECT_EQ(run(first).memory.word(0), 6u);
}

TEST_P(StaticsTest, MoreVariablesThanFitAreRefusedAndForgotten) {
  const Program large{{8}, {{"large", 0, 8}}, 1, (4 << 20) / kPageBytes};  // the 256th of 1 GiB
  for (const OnChange how : {OnChange::kRefuse, OnChange::kReset}) {
    Session refused = run(large, how);
    EXPECT_EQ(refused.code(), "no-space");
    EXPECT_THAT(refused.error.message, HasSubstr("PERDURE_RESERVED_BYTES"));
    Session fits = run(first);
    ASSERT_EQ(fits.code(), "ok") << fits.error.message;
    EXPECT_EQ(fits.memory.word(0), how == OnChange::kRefuse ? 5u : 6u);
    fits.set(0, 6);
  }
}

// ---- hostile files ------------------------------------------------------------------------------

struct HostileStatics : StaticsTest {
  void SetUp() override {
    run(first).set(0, 6);
    whole = contents_of(file);
  }
  void write(const std::string& bytes) const { std::ofstream(file, std::ios::binary) << bytes; }
  void expect_refused(const std::string& bytes, Code code) const {
    write(bytes);
    Session refused = run(first);
    ASSERT_EQ(refused.code(), code_name(code)) << refused.error.message;
    EXPECT_THAT(refused.error.message, HasSubstr(file));
    EXPECT_THAT(refused.error.message, ::testing::AnyOf(HasSubstr("backup"), HasSubstr("right")));
    EXPECT_EQ(refused.memory.word(0), 5u);
    EXPECT_EQ(contents_of(file), bytes) << "left as it is";
    write(whole);
  }
  std::string file = path + "/statics.region";
  std::string whole;
};
INSTANTIATE_TEST_SUITE_P(Domains, HostileStatics, ::testing::Values(DomainKind::kDram),
                         [](const auto& of) { return std::string(domain_name(of.param)); });

TEST_P(HostileStatics, EveryByteOfTheHeaderIsChecked) {
  for (std::size_t at = 0; at < sizeof(StaticsHeader); ++at) {
    SCOPED_TRACE(at);
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    expect_refused(bytes, Code::kCorrupt);
  }
  EXPECT_EQ(run(first).memory.word(0), 6u);
}

TEST_P(HostileStatics, NamesAndLengthsAreChecked) {
  std::string bytes = whole;
  bytes[kPageBytes + 3] = 'x';
  expect_refused(bytes, Code::kCorrupt);
  for (const std::size_t length : {0u, 100u, 4096u, 8192u, 12288u})
    expect_refused(whole.substr(0, length), Code::kTruncated);
  // Well-made, but not with this file's lengths.
  const auto with = [&](auto change) {
    std::string changed = whole;
    StaticsHeader header{};
    std::memcpy(&header, changed.data(), sizeof(header));
    change(header);
    header.check = crc32c(&header, offsetof(StaticsHeader, check));
    std::memcpy(changed.data(), &header, sizeof(header));
    return changed;
  };
  expect_refused(with([](auto& h) { h.names_bytes = 0; }), Code::kCorrupt);
  expect_refused(with([](auto& h) { h.names_bytes = ~std::uint64_t{0}; }), Code::kCorrupt);
  expect_refused(with([](auto& h) { h.names_bytes = 8192; }), Code::kCorrupt);
  expect_refused(with([](auto& h) { h.variables_bytes = 0; }), Code::kCorrupt);
  expect_refused(with([](auto& h) { h.variables_bytes += kPageBytes; }), Code::kCorrupt);
  expect_refused(with([](auto& h) { h.variables_bytes = ~std::uint64_t{0} - 4095; }),
                 Code::kCorrupt);
  EXPECT_EQ(run(first).memory.word(0), 6u);
}

TEST_P(HostileStatics, PlacesOutsideTheFileAreNotRead) {
  // Checks hold, but the list places a variable where there is none: it takes no value from there.
  Variables hostile = {{"a", ~std::uint64_t{0} - 3, 8}, {"b", 1 << 30, 8}, {"c", 16, 16}};
  const std::string names = to_text(hostile);
  ASSERT_LE(names.size(), kPageBytes);
  StaticsHeader header{};
  std::memcpy(&header, whole.data(), sizeof(header));
  header.names_bytes = names.size();
  header.names_crc = crc32c(names.data(), names.size());
  header.build_id[0] ^= 1;
  header.check = crc32c(&header, offsetof(StaticsHeader, check));
  std::string bytes = whole;
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + kPageBytes, names.data(), names.size());
  write(bytes);
  EXPECT_EQ(run(first, OnChange::kMigrate).code(), "type-mismatch");
  Session dropped = run(first, OnChange::kMigrateAndDrop);
  ASSERT_EQ(dropped.code(), "ok") << dropped.error.message;
  EXPECT_EQ(dropped.memory.word(0), 5u);
}

TEST_P(HostileStatics, AFileThatWasNeverFinishedIsMadeAgain) {
  std::string bytes = whole;
  std::memset(bytes.data() + offsetof(StaticsHeader, ready), 0, kWordBytes);
  bytes[0] = 'x';
  write(bytes);
  EXPECT_EQ(run(first).memory.word(0), 5u);
}

}  // namespace
}  // namespace perdure
